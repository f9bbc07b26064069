//! `halofy eval locomo`: recall, ingest rate and latency of each mounted driver on
//! LoCoMo (<https://github.com/snap-research/locomo>), through the same calls that
//! agents make.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use halofy_core::{Policy, RateLimit};
use halofy_store::Location;
use indicatif::ProgressBar;
use regex::Regex;
use serde::Serialize;
use serde_json::{Value, json};

use super::output::{self, line, table};
use super::settings::Settings;
use super::target::Target;
use crate::boot::boot;
use crate::http::Command;

const CUTS: [usize; 3] = [5, 10, 20];
/// The data set's category of questions that have no answer.
const ADVERSARIAL: i64 = 5;
const PARALLEL: usize = 8;

/// Measure retrieval on a public data set.
#[derive(Debug, Subcommand)]
pub(crate) enum Eval {
    /// Evidence recall on LoCoMo: one namespace a conversation, one memory a turn.
    Locomo(Locomo),
}

/// Evidence recall on LoCoMo.
#[derive(Debug, Args)]
pub(crate) struct Locomo {
    /// `locomo10.json`.
    file: PathBuf,
}

/// One conversation.
struct Conversation {
    namespace: String,
    /// Evidence id and text of each turn.
    turns: Vec<(String, String)>,
    /// Question and evidence ids.
    questions: Vec<(String, Vec<String>)>,
}

/// What was measured of one driver.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    driver: String,
    questions: usize,
    recall_at: BTreeMap<usize, f64>,
    search_p50_ms: f64,
    search_p95_ms: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    store: &'static str,
    embedder: String,
    memories: usize,
    ingest_per_second: f64,
    drivers: Vec<Measured>,
}

/// A loaded conversation: the key that searches it, and whose evidence each id is.
struct Loaded<'c> {
    conversation: &'c Conversation,
    key: String,
    evidence: HashMap<String, String>,
}

impl Eval {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let Self::Locomo(locomo) = self;
        let conversations = read(&locomo.file)?;
        let scratch = tempfile::tempdir()?;
        let mut config = settings.kernel()?;
        // An evaluation never touches the data of --data.
        if settings.database_url.is_none() {
            config.store.location = Location::Embedded(scratch.path().join("data"));
        }
        let embedder = format!("{:?}", config.embedder);
        let target = Target::local(boot(&config).await?);
        let report = evaluate(&target, &conversations).await;
        target.close().await;
        let mut report = report?;
        report.embedder = embedder;
        report.store = if settings.database_url.is_some() { "server" } else { "embedded" };
        show(&report, settings);
        Ok(ExitCode::SUCCESS)
    }
}

async fn evaluate(target: &Target, conversations: &[Conversation]) -> Result<Report> {
    // A run of its own each time: a server may hold an earlier one.
    let run = format!("locomo-{:x}", std::process::id());
    set_policy(target, &run, "baseline").await?;
    let began = Instant::now();
    let bar = ProgressBar::new(conversations.iter().map(|c| c.turns.len() as u64).sum());
    let mut loaded = Vec::new();
    for conversation in conversations {
        loaded.push(load(target, &run, conversation, &bar).await?);
    }
    bar.finish_and_clear();
    let memories: usize = conversations.iter().map(|c| c.turns.len()).sum();
    let ingest_per_second = memories as f64 / began.elapsed().as_secs_f64();
    let mut drivers = Vec::new();
    let mounted = target.command(&Command::DriverList).await?;
    for driver in mounted.as_array().into_iter().flatten() {
        let name = driver["name"].as_str().unwrap_or_default();
        set_policy(target, &run, name).await?;
        drivers.push(measure(target, name, &loaded).await?);
    }
    Ok(Report {
        store: "",
        embedder: String::new(),
        memories,
        ingest_per_second,
        drivers,
    })
}

async fn set_policy(target: &Target, run: &str, driver: &str) -> Result<()> {
    let policy = Policy {
        retriever: Some(driver.parse()?),
        rate_limit: Some(RateLimit { per_second: 1_000_000, burst: 1_000_000 }),
        ..Policy::default()
    };
    let namespace = run.parse()?;
    let set = Command::PolicySet { namespace, policy, force: false };
    target.command(&set).await.map(drop)
}

async fn load<'c>(
    target: &Target,
    run: &str,
    conversation: &'c Conversation,
    bar: &ProgressBar,
) -> Result<Loaded<'c>> {
    let create = Command::KeyCreate {
        namespace: format!("{run}/{}", conversation.namespace),
        actor: "eval".to_owned(),
        role: "agent".to_owned(),
        expires_at: None,
    };
    let key = target.command(&create).await?["key"].as_str().unwrap_or_default().to_owned();
    let written: Vec<(String, String)> = stream::iter(&conversation.turns)
        .map(|(evidence, text)| {
            let key = &key;
            async move {
                let answer = target.call("write", key, &json!({ "content": text })).await?;
                let id = stored_id(&answer.into_result()?)?;
                bar.inc(1);
                Ok::<_, anyhow::Error>((id, evidence.clone()))
            }
        })
        .buffered(PARALLEL)
        .try_collect()
        .await?;
    let evidence = written.into_iter().collect();
    Ok(Loaded { conversation, key, evidence })
}

/// A turn that repeats another is that other's row.
fn stored_id(answer: &Value) -> Result<String> {
    let first = |outcome: &str| answer[outcome].as_array()?.first()?.as_str().map(str::to_owned);
    let id = first("stored").or_else(|| first("deduplicated"));
    id.ok_or_else(|| anyhow!("a write answered without an id"))
}

async fn measure(target: &Target, driver: &str, loaded: &[Loaded<'_>]) -> Result<Measured> {
    let mut sums: BTreeMap<usize, f64> = CUTS.into_iter().map(|cut| (cut, 0.0)).collect();
    let mut times = Vec::new();
    for one in loaded {
        for (question, evidence) in &one.conversation.questions {
            let body = json!({ "query": question, "k": CUTS[CUTS.len() - 1], "tokenBudget": 100_000 });
            let began = Instant::now();
            let answer = target.call("search", &one.key, &body).await?.into_result()?;
            times.push(began.elapsed());
            let ranked = ranked_evidence(&answer, &one.evidence);
            for (cut, sum) in &mut sums {
                let first = &ranked[..ranked.len().min(*cut)];
                let found = evidence.iter().filter(|id| first.contains(id)).count();
                *sum += found as f64 / evidence.len() as f64;
            }
        }
    }
    times.sort_unstable();
    let questions = times.len();
    Ok(Measured {
        driver: driver.to_owned(),
        questions,
        recall_at: sums.into_iter().map(|(cut, sum)| (cut, sum / questions as f64)).collect(),
        search_p50_ms: percentile(&times, 50),
        search_p95_ms: percentile(&times, 95),
    })
}

fn ranked_evidence<'e>(answer: &Value, evidence: &'e HashMap<String, String>) -> Vec<&'e String> {
    let results = answer["results"].as_array().into_iter().flatten();
    let ids = results.filter_map(|hit| hit["id"].as_str());
    ids.filter_map(|id| evidence.get(id)).collect()
}

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

fn read(path: &Path) -> Result<Vec<Conversation>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let samples: Vec<Value> =
        serde_json::from_slice(&bytes).context("this is not LoCoMo's locomo10.json")?;
    samples.iter().map(conversation).collect()
}

fn conversation(sample: &Value) -> Result<Conversation> {
    let namespace = sample["sample_id"].as_str().context("a sample has no sample_id")?.to_owned();
    let sessions = sample["conversation"].as_object().context("a sample has no conversation")?;
    let mut turns = Vec::new();
    for number in 1.. {
        // Some sessions have a date and no turns.
        if !sessions.contains_key(&format!("session_{number}_date_time")) {
            break;
        }
        let session = sessions.get(&format!("session_{number}"));
        turns.extend(session.and_then(Value::as_array).into_iter().flatten().map(turn));
    }
    let ids = Regex::new(r"D\d+:\d+").context("the pattern of evidence ids")?;
    let questions = sample["qa"].as_array().into_iter().flatten();
    Ok(Conversation {
        namespace,
        turns,
        questions: questions.filter_map(|qa| question(qa, &ids)).collect(),
    })
}

fn turn(turn: &Value) -> (String, String) {
    let text = |field: &str| turn[field].as_str().unwrap_or_default();
    let mut content = format!("{}: {}", text("speaker"), text("text"));
    if let Some(caption) = turn["blip_caption"].as_str() {
        content += &format!(" [image: {caption}]");
    }
    (text("dia_id").to_owned(), content)
}

fn question(qa: &Value, ids: &Regex) -> Option<(String, Vec<String>)> {
    if qa["category"].as_i64() == Some(ADVERSARIAL) {
        return None;
    }
    let mut evidence: Vec<String> = Vec::new();
    for text in qa["evidence"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        evidence.extend(ids.find_iter(text).map(|found| without_leading_zeros(found.as_str())));
    }
    evidence.sort_unstable();
    evidence.dedup();
    let question = qa["question"].as_str()?.to_owned();
    (!evidence.is_empty()).then_some((question, evidence))
}

/// `D30:05` is turn 5 of session 30.
fn without_leading_zeros(id: &str) -> String {
    let mut parts = id[1..].split(':').map(|number| number.trim_start_matches('0'));
    let (session, turn) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    format!("D{session}:{turn}")
}

fn show(report: &Report, settings: &Settings) {
    if settings.json {
        output::json(report);
        return;
    }
    line(format_args!(
        "{} memories on the {} store, embedder {}: {:.0} writes/s",
        report.memories, report.store, report.embedder, report.ingest_per_second
    ));
    let rows = report.drivers.iter().map(|measured| {
        let recall = |cut| format!("{:.3}", measured.recall_at[&cut]);
        [
            measured.driver.clone(),
            measured.questions.to_string(),
            recall(5),
            recall(10),
            recall(20),
            format!("{:.2}", measured.search_p50_ms),
            format!("{:.2}", measured.search_p95_ms),
        ]
    });
    table(
        ["driver", "questions", "recall@5", "recall@10", "recall@20", "p50 ms", "p95 ms"],
        rows,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_evidence_is_read_as_far_as_it_goes() {
        let ids = Regex::new(r"D\d+:\d+").expect("a pattern");
        let read = |evidence: Value| {
            question(&json!({"question": "q", "category": 1, "evidence": evidence}), &ids)
                .map(|(_, ids)| ids)
        };
        assert_eq!(read(json!(["D8:6; D9:17"])), Some(vec!["D8:6".into(), "D9:17".into()]));
        assert_eq!(read(json!(["D30:05"])), Some(vec!["D30:5".into()]));
        assert_eq!(read(json!(["D"])), None);
    }
}
