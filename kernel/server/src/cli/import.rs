//! `halofy import`: a JSON Lines file through the write path, one call a line.
//!
//! Resumable: the number of lines that are in is kept beside the file. Idempotent:
//! what the namespace believes already is not stored again.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use futures_util::stream::{self, StreamExt};
use indicatif::{ProgressBar, ProgressStyle};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::memory::Caller;
use super::output::{self, line};
use super::settings::Settings;
use super::target::Target;

/// Lines that are written before the place is noted.
const CHUNK: usize = 64;
/// Calls under way at once.
const PARALLEL: usize = 8;
/// How often a line is tried when the kernel asks to wait.
const TRIES: usize = 60;

/// Write a JSON Lines file, one memory a line: {"content": …} with the fields of
/// `POST /v1/mem/write`, or a bare JSON string.
#[derive(Debug, Args)]
pub(crate) struct Import {
    #[command(flatten)]
    caller: Caller,
    /// The file.
    file: PathBuf,
    /// Begin at the first line, whatever was imported before.
    #[arg(long)]
    restart: bool,
    /// Go on past lines that the kernel refuses, and list them at the end.
    #[arg(long)]
    keep_going: bool,
}

/// What became of the lines.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    lines: usize,
    skipped: usize,
    stored: usize,
    deduplicated: usize,
    refused: Vec<RefusedLine>,
}

#[derive(Debug, Serialize)]
struct RefusedLine {
    line: usize,
    why: String,
}

/// How far an import of this file has come.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Progress {
    /// The file's size when it was noted: another size is another file.
    bytes: u64,
    done: usize,
}

enum Outcome {
    Stored,
    Deduplicated,
    Refused(String),
}

impl Import {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let lines = read_lines(&self.file)?;
        let bytes = std::fs::metadata(&self.file)?.len();
        let note = note_path(&self.file);
        let done = if self.restart { 0 } else { noted(&note, bytes) };
        let target = Target::for_calls(settings, self.caller.url.as_deref()).await?;
        let summary = self.write_all(&target, &lines, done, bytes, &note).await;
        target.close().await;
        let summary = summary?;
        report(&summary, settings);
        if summary.refused.is_empty() {
            drop(std::fs::remove_file(&note));
            return Ok(ExitCode::SUCCESS);
        }
        Ok(ExitCode::FAILURE)
    }

    async fn write_all(
        &self,
        target: &Target,
        lines: &[(usize, Value)],
        done: usize,
        bytes: u64,
        note: &Path,
    ) -> Result<Summary> {
        let mut summary = Summary {
            lines: lines.len(),
            skipped: done.min(lines.len()),
            ..Summary::default()
        };
        let bar = progress_bar(lines.len(), done);
        for (at, chunk) in lines.chunks(CHUNK).enumerate() {
            let end = at * CHUNK + chunk.len();
            if end <= done {
                continue;
            }
            let outcomes: Vec<_> = stream::iter(chunk)
                .map(|(number, body)| async move {
                    (*number, write_line(target, &self.caller.key, body).await)
                })
                .buffered(PARALLEL)
                .collect()
                .await;
            for (number, outcome) in outcomes {
                self.count(&mut summary, number, outcome?)?;
                bar.inc(1);
            }
            save(note, &Progress { bytes, done: end })?;
        }
        bar.finish_and_clear();
        Ok(summary)
    }

    fn count(&self, summary: &mut Summary, line: usize, outcome: Outcome) -> Result<()> {
        match outcome {
            Outcome::Stored => summary.stored += 1,
            Outcome::Deduplicated => summary.deduplicated += 1,
            Outcome::Refused(why) if self.keep_going => {
                summary.refused.push(RefusedLine { line, why });
            }
            Outcome::Refused(why) => bail!(
                "line {line}: {why} (mend it and run the same command to go on, \
                 or pass --keep-going to leave it out)"
            ),
        }
        Ok(())
    }
}

async fn write_line(target: &Target, key: &str, body: &Value) -> Result<Outcome> {
    for _ in 0..TRIES {
        let response = target.call("write", key, body).await?;
        if let (false, Some(wait)) = (response.status.is_success(), response.retry_after()) {
            tokio::time::sleep(wait).await;
            continue;
        }
        return match response.into_result() {
            Ok(answer)
                if answer["stored"]
                    .as_array()
                    .is_some_and(|ids| !ids.is_empty()) =>
            {
                Ok(Outcome::Stored)
            }
            Ok(_) => Ok(Outcome::Deduplicated),
            Err(error) => Ok(Outcome::Refused(error.to_string())),
        };
    }
    Err(anyhow!(
        "the kernel kept asking to wait; run the same command again to go on"
    ))
}

fn read_lines(path: &Path) -> Result<Vec<(usize, Value)>> {
    let file =
        std::fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut lines = Vec::new();
    for (at, text) in BufReader::new(file).lines().enumerate() {
        let number = at + 1;
        let text = text.with_context(|| format!("line {number} is not UTF-8 text"))?;
        if text.trim().is_empty() {
            continue;
        }
        let value: Value = serde_json::from_str(&text)
            .with_context(|| format!("line {number} is not JSON; nothing was imported"))?;
        lines.push((number, as_request(value)));
    }
    Ok(lines)
}

fn as_request(value: Value) -> Value {
    match value {
        Value::String(content) => serde_json::json!({ "content": content }),
        other => other,
    }
}

fn note_path(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".halofy-import");
    name.into()
}

fn noted(path: &Path, bytes: u64) -> usize {
    let text = std::fs::read(path).unwrap_or_default();
    let progress: Progress = serde_json::from_slice(&text).unwrap_or_default();
    if progress.bytes == bytes {
        progress.done
    } else {
        0
    }
}

fn save(path: &Path, progress: &Progress) -> Result<()> {
    std::fs::write(path, serde_json::to_vec(progress)?)
        .with_context(|| format!("cannot note the progress in {}", path.display()))
}

fn progress_bar(lines: usize, done: usize) -> ProgressBar {
    let bar = ProgressBar::new(lines as u64).with_position(done as u64);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {per_sec} eta {eta}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn report(summary: &Summary, settings: &Settings) {
    if settings.json {
        output::json(summary);
        return;
    }
    line(format_args!(
        "{} lines: {} stored, {} known already, {} imported before, {} refused",
        summary.lines,
        summary.stored,
        summary.deduplicated,
        summary.skipped,
        summary.refused.len()
    ));
    for refused in &summary.refused {
        line(format_args!("  line {}: {}", refused.line, refused.why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_counts_only_for_the_same_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let note = dir.path().join("n");
        save(&note, &Progress { bytes: 7, done: 64 }).expect("saved");
        assert_eq!(noted(&note, 7), 64);
        assert_eq!(noted(&note, 8), 0);
        assert_eq!(noted(&dir.path().join("none"), 7), 0);
    }
}
