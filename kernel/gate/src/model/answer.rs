//! From an answer's bytes to facts and verdicts. Strict about the shape, tolerant of a
//! fence of Markdown around it. Pure; no error quotes the answer.

use halofy_core::{Content, Kind};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::clock::read_moment;

use super::{Extracted, Extraction, MAX_ENTITIES, MAX_ENTITY_BYTES, MAX_FACTS, ModelError};

/// Above it a count of tokens is a mistake of the service.
const MOST_TOKENS: u64 = 100_000_000;
const MAX_MODEL_BYTES: usize = 128;

/// Why what the model wrote cannot be used.
pub(super) type Unusable = String;

/// What an answer holds besides its message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Completion {
    /// What the model wrote. Nothing where it refused, or calls a tool that nobody offered.
    pub(super) content: Option<String>,
    /// If the service says how many it used.
    pub(super) tokens: Option<u64>,
    /// The exact version, if the service names it.
    pub(super) model: Option<String>,
}

#[derive(Deserialize)]
struct Envelope {
    choices: Vec<Choice>,
    #[serde(default)]
    model: Value,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
}

/// Takes the message out of an answer of the chat protocol.
pub(super) fn completion(body: &[u8]) -> Result<Completion, ModelError> {
    let misshapen = |tokens| {
        move |error: serde_json::Error| ModelError::Misshapen {
            why: placed("it is no chat completion", &error),
            tokens,
        }
    };
    let answer: Value = serde_json::from_slice(body).map_err(misshapen(0))?;
    // What is of no use may have been dear.
    let total = answer["usage"]["total_tokens"].as_u64();
    let tokens = total.filter(|total| *total <= MOST_TOKENS);
    let envelope: Envelope =
        serde_json::from_value(answer).map_err(misshapen(tokens.unwrap_or_default()))?;
    let first = envelope.choices.into_iter().next();
    let graphic = |name: &&str| {
        !name.is_empty()
            && name.len() <= MAX_MODEL_BYTES
            && name.bytes().all(|byte| byte.is_ascii_graphic())
    };
    Ok(Completion {
        content: first.and_then(|choice| choice.message.content),
        tokens,
        model: envelope.model.as_str().filter(graphic).map(str::to_owned),
    })
}

#[derive(Deserialize)]
struct Facts {
    facts: Vec<Fact>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fact {
    content: String,
    #[serde(default)]
    kind: Kind,
    // Of any type: a time that cannot be read is no reason to lose the fact.
    #[serde(default)]
    event_time: Value,
    #[serde(default)]
    entities: Vec<String>,
}

/// The facts of an extraction: the first 64, and what the others say.
pub(super) fn facts(content: &str) -> Result<Extraction, Unusable> {
    let Facts { facts } = parse(content)?;
    let telling = facts.into_iter().filter(|fact| !is_blank(&fact.content));
    let mut facts = telling.map(fact).collect::<Result<Vec<_>, _>>()?;
    let surplus = facts.split_off(facts.len().min(MAX_FACTS)).into_iter();
    Ok(Extraction {
        facts,
        surplus: surplus.map(|fact| fact.content).collect(),
    })
}

fn fact(fact: Fact) -> Result<Extracted, Unusable> {
    let content = Content::parse(fact.content.trim())
        .map_err(|invalid| format!("a fact {}", invalid.problem))?;
    Ok(Extracted {
        content: content.as_str().to_owned(),
        kind: fact.kind,
        event_time: fact
            .event_time
            .as_str()
            .and_then(|time| read_moment(time.trim())),
        entities: entities(&fact.entities),
    })
}

/// Names once each, without those that cannot be names.
fn entities(names: &[String]) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for name in names.iter().map(|name| name.trim()) {
        let fits =
            !name.is_empty() && name.len() <= MAX_ENTITY_BYTES && !name.contains(char::is_control);
        if fits && kept.len() < MAX_ENTITIES && !kept.iter().any(|known| known == name) {
            kept.push(name.to_owned());
        }
    }
    kept
}

fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c.is_control())
}

#[derive(Deserialize)]
struct Verdicts {
    verdicts: Vec<Verdict>,
}

#[derive(Deserialize)]
struct Verdict {
    id: usize,
    #[serde(alias = "supported", alias = "contradicts")]
    verdict: bool,
}

/// The verdicts in the order of what was asked, exactly one each.
pub(super) fn verdicts(content: &str, count: usize) -> Result<Vec<bool>, Unusable> {
    let Verdicts { mut verdicts } = parse(content)?;
    verdicts.sort_by_key(|verdict| verdict.id);
    let ids = verdicts.iter().map(|verdict| verdict.id);
    if !ids.eq(0..count) {
        return Err("it has not exactly one verdict for each question".to_owned());
    }
    Ok(verdicts.iter().map(|verdict| verdict.verdict).collect())
}

fn parse<T: DeserializeOwned>(content: &str) -> Result<T, Unusable> {
    serde_json::from_str(unfenced(content))
        .map_err(|error| placed("it is not the JSON that was asked for", &error))
}

/// What stands inside a fence of Markdown, if the whole answer is one.
fn unfenced(content: &str) -> &str {
    let content = content.trim();
    let inside = || {
        let open = content.strip_prefix("```")?.strip_suffix("```")?;
        Some(open.strip_prefix("json").unwrap_or(open))
    };
    inside().unwrap_or(content)
}

/// Only the place: serde's message may quote the answer.
fn placed(what: &str, error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    format!("{what} (line {line}, column {column})")
}
