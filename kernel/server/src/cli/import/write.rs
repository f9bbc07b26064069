//! Sends the records to the kernel, several at once, and notes in their order which
//! are in.

use std::cell::Cell;
use std::future::ready;

use anyhow::Result;
use axum::http::StatusCode;
use futures_util::stream::{self, StreamExt};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use super::entry::{Entry, Record, Refused};
use super::input::Input;
use super::note::{Digest, Known, Log};
use super::summary::Summary;
use crate::cli::target::{Response, Target};
use crate::http::Problem;

/// How often a record is tried when the kernel asks to wait.
const TRIES: usize = 60;
/// Refusals that the next record would meet as well.
const OF_THE_CALLER: [&str; 3] = ["unauthenticated", "suspended", "role_forbids"];

/// Where and how the records go.
pub(super) struct Writer<'a> {
    pub(super) target: &'a Target,
    pub(super) key: &'a str,
    pub(super) known: &'a Known,
    /// Calls under way at once.
    pub(super) parallel: usize,
    /// Whether a refused record is passed over.
    pub(super) keep_going: bool,
}

enum Outcome {
    Taken(Value),
    Refused(Refused),
    /// Neither this record nor the next can be written now.
    Stopped(String),
}

impl Writer<'_> {
    /// Writes what is not known yet, and counts in `summary`. After a record that ends
    /// the import, those under way are still waited for, counted and noted.
    ///
    /// # Errors
    /// When the input or the note fails.
    pub(super) async fn write(
        &self,
        input: &Input,
        log: &mut Log,
        summary: &mut Summary,
    ) -> Result<()> {
        let bar = progress_bar(summary.records, summary.imported_before);
        let ended = Cell::new(false);
        let calls = stream::iter(input.entries()?.filter_map(|entry| self.pending(entry)))
            .take_while(|_| ready(!ended.get()))
            .map(|pending| async {
                let (record, digest) = pending?;
                anyhow::Ok((digest, self.send(record).await))
            })
            .buffered(self.parallel.max(1));
        let mut calls = std::pin::pin!(calls);
        while let Some(call) = calls.next().await {
            let (digest, outcome) = call?;
            bar.inc(1);
            match outcome {
                Outcome::Taken(answer) => {
                    summary.count(&answer);
                    log.add(&digest)?;
                }
                Outcome::Refused(refused) => {
                    summary.refused.push(refused);
                    ended.set(ended.get() || !self.keep_going);
                }
                Outcome::Stopped(why) => {
                    summary.stopped.get_or_insert(why);
                    ended.set(true);
                }
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn pending(&self, entry: Result<Entry>) -> Option<Result<(Record, Digest)>> {
        match entry {
            Ok(Entry::Record(record)) => {
                let digest = self.known.digest(&record.body);
                (!self.known.holds(&digest)).then_some(Ok((record, digest)))
            }
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        }
    }

    async fn send(&self, record: Record) -> Outcome {
        for _ in 0..TRIES {
            let response = match self.target.call("write", self.key, &record.body).await {
                Ok(response) => response,
                Err(error) => return Outcome::Stopped(format!("{error:#}")),
            };
            match (response.status.is_success(), response.retry_after()) {
                (true, _) => return Outcome::Taken(response.body),
                (false, Some(wait)) => tokio::time::sleep(wait).await,
                (false, None) => return refusal(record.at, response),
            }
        }
        Outcome::Stopped("the kernel kept asking to wait".to_owned())
    }
}

fn refusal(at: String, response: Response) -> Outcome {
    let status = response.status;
    let Ok(problem) = serde_json::from_value::<Problem>(response.body) else {
        return Outcome::Stopped(format!("the kernel answered {status}"));
    };
    let words = match &problem.field {
        // The detail begins with it.
        Some(field) => {
            let rest = problem.detail.strip_prefix(field.as_str());
            rest.map_or(problem.detail.as_str(), |rest| {
                rest.trim_start_matches([':', ' '])
            })
            .to_owned()
        }
        None => format!("{}: {}", problem.title, problem.detail),
    };
    if status >= StatusCode::INTERNAL_SERVER_ERROR || OF_THE_CALLER.contains(&problem.code.as_str())
    {
        return Outcome::Stopped(words);
    }
    Outcome::Refused(Refused {
        at,
        field: problem.field,
        reason: words,
    })
}

fn progress_bar(records: usize, done: usize) -> ProgressBar {
    let bar = ProgressBar::new(records as u64).with_position(done as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {per_sec} eta {eta}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
