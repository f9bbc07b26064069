//! `halofy history`, `disputes`, `resolve`, `forget`: what held when, what contradicts each
//! other, and what is to be gone.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::{Map, Value, json};

use super::memory::{Caller, call, insert};
use super::output::{self, line, table};
use super::settings::Settings;

/// Show a memory, those that it replaced, and those that replaced it.
#[derive(Debug, Args)]
pub(crate) struct History {
    #[command(flatten)]
    caller: Caller,
    /// The id of any of them.
    id: String,
}

/// List memories that contradict each other and wait for somebody to decide.
#[derive(Debug, Args)]
pub(crate) struct Disputes {
    #[command(flatten)]
    caller: Caller,
    /// Also what is settled.
    #[arg(long)]
    all: bool,
    /// Only those about this memory.
    #[arg(long, value_name = "ID")]
    memory: Option<String>,
    /// Only those behind this dispute.
    #[arg(long, value_name = "DISPUTE")]
    after: Option<String>,
    /// At most so many, newest first.
    #[arg(long, value_name = "COUNT")]
    limit: Option<u32>,
}

/// Settle a dispute, or take back what the kernel decided.
#[derive(Debug, Args)]
pub(crate) struct Resolve {
    #[command(flatten)]
    caller: Caller,
    /// The dispute, cfl_…; see `halofy disputes`.
    id: String,
    /// What becomes of it.
    #[arg(value_enum)]
    verdict: Verdict,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Verdict {
    /// The incoming memory holds, the incumbent is closed.
    Accept,
    /// The incumbent holds, the incoming memory is closed.
    Reject,
    /// They do not contradict each other: both hold.
    Both,
    /// What the kernel decided is taken back.
    Undo,
}

/// Erase memories for good, with everything derived from them.
#[derive(Debug, Args)]
pub(crate) struct Forget {
    #[command(flatten)]
    caller: Caller,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Target {
    /// One memory.
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// What came from one document or episode, by its `provenance.ref`.
    #[arg(long, value_name = "REF")]
    source_ref: Option<String>,
    /// Everything of the key's namespace and below it.
    #[arg(long)]
    everything: bool,
}

impl History {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let chain = self.pages(settings).await?;
        if settings.json {
            output::json(&json!({ "history": chain, "truncated": false }));
            return Ok(ExitCode::SUCCESS);
        }
        let rows = chain.iter().map(|memory| {
            [
                text(&memory["id"]),
                text(&memory["status"]),
                text(&memory["validFrom"]),
                text(&memory["validTo"]),
                text(&memory["content"]),
            ]
        });
        table(["id", "status", "from", "to", "content"], rows);
        Ok(ExitCode::SUCCESS)
    }

    /// The whole chain, page by page.
    async fn pages(&self, settings: &Settings) -> Result<Vec<Value>> {
        let mut chain: Vec<Value> = Vec::new();
        loop {
            let mut body = Map::from_iter([("id".to_owned(), json!(self.id))]);
            let last = chain.last().map(|memory| memory["id"].clone());
            insert(&mut body, "after", last);
            let answer = call(settings, &self.caller, "history", body).await?;
            let page = answer["history"].as_array().cloned().unwrap_or_default();
            let goes_on = answer["truncated"] == true && !page.is_empty();
            chain.extend(page);
            if !goes_on {
                return Ok(chain);
            }
        }
    }
}

impl Disputes {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let mut body = Map::new();
        insert(&mut body, "all", self.all.then_some(true));
        insert(&mut body, "memory", self.memory);
        insert(&mut body, "after", self.after);
        insert(&mut body, "limit", self.limit);
        let answer = call(settings, &self.caller, "disputes", body).await?;
        let disputes = answer["disputes"].as_array().cloned().unwrap_or_default();
        if settings.json {
            output::json(&answer);
        } else if disputes.is_empty() {
            line("nothing waits for a decision");
        } else {
            let rows = disputes.iter().map(|one| {
                [
                    text(&one["id"]),
                    text(&one["decision"]),
                    text(&one["incoming"]["content"]),
                    text(&one["incumbent"]["content"]),
                    text(&one["resolution"]),
                ]
            });
            table(
                ["id", "decision", "incoming", "incumbent", "resolution"],
                rows,
            );
            if let (true, Some(last)) = (answer["truncated"] == true, disputes.last()) {
                line(format_args!("more: --after {}", text(&last["id"])));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Resolve {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let verdict = match self.verdict {
            Verdict::Accept => "accept",
            Verdict::Reject => "reject",
            Verdict::Both => "both",
            Verdict::Undo => "undo",
        };
        let id = ("id".to_owned(), json!(self.id));
        let body = Map::from_iter([id, ("verdict".to_owned(), json!(verdict))]);
        let answer = call(settings, &self.caller, "resolve", body).await?;
        match (settings.json, answer["restored"].as_str()) {
            (true, _) => output::json(&answer),
            (false, Some(id)) => line(format_args!("{verdict}: holds again as {id}")),
            (false, None) => line(format_args!("{verdict}: done")),
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Forget {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let mut body = Map::new();
        insert(&mut body, "id", self.target.id);
        insert(&mut body, "sourceRef", self.target.source_ref);
        insert(
            &mut body,
            "everything",
            self.target.everything.then_some(true),
        );
        let answer = call(settings, &self.caller, "forget", body).await?;
        if settings.json {
            output::json(&answer);
        } else {
            let erased = answer["erased"].as_array().map_or(0, Vec::len);
            line(format_args!("erased {erased} memories"));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
