//! `halofy eval locomo`: recall, ingest rate and latency of each mounted driver on
//! LoCoMo (<https://github.com/snap-research/locomo>), through the same calls that
//! agents make.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use halofy_core::{Policy, RateLimit};
use halofy_gate::PolicySet;
use halofy_store::Location;
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::{Value, json};

use super::output::{self, line, table};
use super::settings::Settings;
use super::target::Target;
use crate::boot::boot;
use crate::http::{Command, DriverReply};
use crate::locomo::{self, Conversation};

const CUTS: [usize; 3] = [5, 10, 20];
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
        let Self::Locomo(args) = self;
        let conversations = locomo::read(&args.file)?;
        let scratch = tempfile::tempdir()?;
        let mut config = settings.kernel()?;
        // An evaluation never touches the data of --data.
        if settings.database_url.is_none() {
            config.store.location = Location::Embedded(scratch.path().join("data"));
            config.code_cache = scratch.path().join("code-cache");
        }
        let embedder = format!("{:?}", config.embedder);
        let target = Target::local(boot(&config).await?);
        let report = evaluate(&target, &conversations).await;
        target.close().await;
        let mut report = report?;
        report.embedder = embedder;
        report.store = if settings.database_url.is_some() {
            "server"
        } else {
            "embedded"
        };
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
    let mounted: DriverReply = serde_json::from_value(mounted)?;
    for driver in mounted.drivers.iter().filter(|driver| driver.default) {
        set_policy(target, &run, &driver.name).await?;
        drivers.push(measure(target, &driver.name, &loaded).await?);
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
        rate_limit: Some(RateLimit {
            per_second: 1_000_000,
            burst: 1_000_000,
        }),
        ..Policy::default()
    };
    let namespace = run.parse()?;
    let set = Command::PolicySet {
        namespace,
        policy,
        how: PolicySet::default(),
    };
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
        groups: Vec::new(),
    };
    let key = target.command(&create).await?["key"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    let written: Vec<(String, String)> = stream::iter(&conversation.turns)
        .map(|(evidence, text)| {
            let key = &key;
            async move {
                let answer = target
                    .call("write", key, &json!({ "content": text }))
                    .await?;
                let id = stored_id(&answer.into_result()?)?;
                bar.inc(1);
                Ok::<_, anyhow::Error>((id, evidence.clone()))
            }
        })
        .buffered(PARALLEL)
        .try_collect()
        .await?;
    let evidence = written.into_iter().collect();
    Ok(Loaded {
        conversation,
        key,
        evidence,
    })
}

/// A turn that repeats another is that other's row.
fn stored_id(answer: &Value) -> Result<String> {
    let first = |outcome: &str| {
        answer[outcome]
            .as_array()?
            .first()?
            .as_str()
            .map(str::to_owned)
    };
    let id = first("stored").or_else(|| first("deduplicated"));
    id.ok_or_else(|| anyhow!("a write answered without an id"))
}

async fn measure(target: &Target, driver: &str, loaded: &[Loaded<'_>]) -> Result<Measured> {
    let mut sums: BTreeMap<usize, f64> = CUTS.into_iter().map(|cut| (cut, 0.0)).collect();
    let mut times = Vec::new();
    for one in loaded {
        for (question, evidence) in &one.conversation.questions {
            let body =
                json!({ "query": question, "k": CUTS[CUTS.len() - 1], "tokenBudget": 100_000 });
            let began = Instant::now();
            let answer = target
                .call("search", &one.key, &body)
                .await?
                .into_result()?;
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
        recall_at: sums
            .into_iter()
            .map(|(cut, sum)| (cut, sum / questions as f64))
            .collect(),
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
        [
            "driver",
            "questions",
            "recall@5",
            "recall@10",
            "recall@20",
            "p50 ms",
            "p95 ms",
        ],
        rows,
    );
}
