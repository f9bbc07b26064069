//! `halofy write`, `search`, `read`, `stats`: one syscall each.

use std::io::Read as _;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Map, Value, json};

use super::output::{self, line};
use super::settings::Settings;
use super::target::Target;

/// Which kernel, and who calls.
#[derive(Debug, Clone, Args)]
pub(crate) struct Caller {
    /// The key, hm_…: who calls, and what it sees.
    #[arg(long, env = "HALOFY_KEY", hide_env_values = true)]
    pub(crate) key: String,
    /// A kernel elsewhere, such as http://127.0.0.1:7077.
    #[arg(long, env = "HALOFY_URL")]
    pub(crate) url: Option<String>,
}

/// Remember something.
#[derive(Debug, Args)]
pub(crate) struct Write {
    #[command(flatten)]
    caller: Caller,
    /// What to remember; `-` reads standard input.
    content: String,
    /// fact, preference, episode, entity or pointer.
    #[arg(long)]
    kind: Option<String>,
    /// When it happened: RFC 3339 with an offset.
    #[arg(long, value_name = "TIME")]
    event_time: Option<String>,
    /// A JSON object of your own.
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,
    /// Label it as confidential.
    #[arg(long)]
    sensitive: bool,
    /// Store the text as it is: no model draws facts from it.
    #[arg(long)]
    verbatim: bool,
    /// Send nothing of it to a model or an embedder outside.
    #[arg(long)]
    local_only: bool,
    /// What it fills: a newer memory of the same slot supersedes the older.
    #[arg(long, value_name = "NAME", conflicts_with = "supersedes")]
    slot: Option<String>,
    /// The memory that it replaces.
    #[arg(long, value_name = "ID")]
    supersedes: Option<String>,
    /// Where it comes from: manual, document, live-fetch, swap-import or conversation.
    #[arg(long, value_name = "SOURCE")]
    source: Option<String>,
    /// Answer with a ticket at once, and store afterwards.
    #[arg(long = "async")]
    deferred: bool,
}

/// Find what is relevant to a question.
#[derive(Debug, Args)]
pub(crate) struct Search {
    #[command(flatten)]
    caller: Caller,
    /// What is asked.
    query: String,
    /// At most so many results.
    #[arg(short)]
    k: Option<i64>,
    /// Tokens that the results may have together.
    #[arg(long, value_name = "TOKENS")]
    token_budget: Option<i64>,
    /// Also rank what was superseded.
    #[arg(long, conflicts_with = "as_of")]
    history: bool,
    /// Rank what held then: RFC 3339 with an offset.
    #[arg(long, value_name = "TIME")]
    as_of: Option<String>,
    /// Keep the query out of the audit log.
    #[arg(long)]
    sensitive: bool,
    /// Show what ran and what it cost.
    #[arg(long)]
    explain: bool,
}

/// Fetch one memory by its id.
#[derive(Debug, Args)]
pub(crate) struct Read {
    #[command(flatten)]
    caller: Caller,
    /// The memory's id.
    id: String,
    /// The one of its chain that held then: RFC 3339 with an offset.
    #[arg(long, value_name = "TIME")]
    as_of: Option<String>,
}

/// Count what a key sees.
#[derive(Debug, Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    caller: Caller,
}

impl Write {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let mut body = Map::new();
        body.insert("content".to_owned(), content(self.content)?.into());
        insert(&mut body, "kind", self.kind);
        insert(&mut body, "eventTime", self.event_time);
        if let Some(metadata) = &self.metadata {
            let value: Value = serde_json::from_str(metadata).context("--metadata is not JSON")?;
            body.insert("metadata".to_owned(), value);
        }
        insert(&mut body, "sensitive", self.sensitive.then_some(true));
        insert(&mut body, "verbatim", self.verbatim.then_some(true));
        insert(&mut body, "localOnly", self.local_only.then_some(true));
        insert(&mut body, "slot", self.slot);
        insert(&mut body, "supersedes", self.supersedes);
        insert(&mut body, "async", self.deferred.then_some(true));
        if let Some(source) = self.source {
            body.insert("provenance".to_owned(), json!({ "source": source }));
        }
        let answer = call(settings, &self.caller, "write", body).await?;
        if settings.json {
            output::json(&answer);
        } else {
            print_written(&answer);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints what became of a write for a person.
fn print_written(answer: &Value) {
    let outcomes = [
        ("stored", "stored"),
        ("deduplicated", "known already"),
        ("superseded", "closed"),
        ("disputed", "put aside"),
    ];
    for (outcome, word) in outcomes {
        for id in answer[outcome].as_array().into_iter().flatten() {
            line(format_args!("{word} {}", id.as_str().unwrap_or_default()));
        }
    }
    for one in answer["rejected"].as_array().into_iter().flatten() {
        let text = |field: &str| one[field].as_str().unwrap_or_default();
        line(format_args!(
            "rejected ({}): {}",
            text("reason"),
            text("candidate")
        ));
    }
    if let Some(brownout) = answer["brownout"].as_str() {
        line(format_args!("stored word for word: {brownout}"));
    }
    if let Some(ticket) = answer["ticket"].as_str() {
        line(format_args!("queued {ticket}"));
    }
}

fn content(argument: String) -> Result<String> {
    if argument != "-" {
        return Ok(argument);
    }
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("standard input is not UTF-8 text")?;
    Ok(text)
}

impl Search {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let mut body = Map::new();
        body.insert("query".to_owned(), self.query.into());
        insert(&mut body, "k", self.k);
        insert(&mut body, "tokenBudget", self.token_budget);
        insert(&mut body, "validOnly", self.history.then_some(false));
        insert(&mut body, "asOf", self.as_of);
        insert(&mut body, "explain", self.explain.then_some(true));
        insert(&mut body, "sensitive", self.sensitive.then_some(true));
        let answer = call(settings, &self.caller, "search", body).await?;
        if settings.json {
            output::json(&answer);
        } else {
            print_results(&answer);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Prints a search's answer for a person.
pub(crate) fn print_results(answer: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let results = answer["results"].as_array().cloned().unwrap_or_default();
    let rows = results.iter().map(|hit| {
        let score = format!("{:.3}", hit["score"].as_f64().unwrap_or_default());
        [score, text(&hit["namespace"]), text(&hit["content"])]
    });
    if results.is_empty() {
        line("nothing found");
    } else {
        output::table(["score", "namespace", "content"], rows);
    }
    let Some(tokens) = answer["tokens"].as_u64() else {
        return;
    };
    let mut served = format!("{tokens} tokens, driver {}", text(&answer["driver"]));
    if let Some(fallback) = answer.get("driverFallback") {
        let (from, reason) = (text(&fallback["from"]), text(&fallback["reason"]));
        served += &format!(", in place of {from}: {reason}");
    }
    if let Some(degraded) = answer.get("degraded") {
        served += &format!(", degraded: {}", text(degraded));
    }
    line(served);
    if let Some(explain) = answer.get("explain") {
        print_explain(explain);
    }
}

fn print_explain(explain: &Value) {
    let text = |value: &Value| match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    };
    line(format_args!(
        "selected {} by {}",
        text(&explain["selected"]),
        text(&explain["selectedBy"])
    ));
    let attempts = explain["attempts"].as_array().cloned().unwrap_or_default();
    let rows = attempts.iter().map(|attempt| {
        let dropped = attempt["dropped"].as_object().into_iter().flatten();
        let dropped: u64 = dropped.filter_map(|(_, count)| count.as_u64()).sum();
        let micros = |stage: &str| text(&attempt["micros"][stage]);
        [
            format!("{} {}", text(&attempt["driver"]), text(&attempt["version"])),
            text(&attempt["outcome"]),
            text(&attempt["viewCalls"]),
            text(&attempt["rows"]),
            dropped.to_string(),
            micros("instantiate"),
            micros("guest"),
            micros("view"),
            micros("total"),
        ]
    });
    output::table(
        [
            "driver",
            "outcome",
            "calls",
            "rows",
            "dropped",
            "µs instance",
            "guest",
            "view",
            "total",
        ],
        rows,
    );
}

impl Read {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let mut body = Map::from_iter([("id".to_owned(), json!(self.id))]);
        insert(&mut body, "asOf", self.as_of);
        let answer = call(settings, &self.caller, "read", body).await?;
        output::json(&answer);
        Ok(ExitCode::SUCCESS)
    }
}

impl Stats {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let answer = call(settings, &self.caller, "stats", Map::new()).await?;
        output::json(&answer);
        Ok(ExitCode::SUCCESS)
    }
}

pub(super) fn insert(body: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        body.insert(name.to_owned(), value.into());
    }
}

pub(super) async fn call(
    settings: &Settings,
    caller: &Caller,
    op: &str,
    body: Map<String, Value>,
) -> Result<Value> {
    let target = Target::for_calls(settings, caller.url.as_deref()).await?;
    let response = target.call(op, &caller.key, &Value::Object(body)).await;
    target.close().await;
    response?.into_result()
}
