//! `halofy import`: JSON Lines, Markdown, and the exports of mem0 and Graphiti, through
//! the write path, one call a record.
//!
//! The input is read twice: first whole, so that what cannot be written is told before
//! anything is, then to write. Resumable and idempotent: `note` knows what is in.
//! Not here: what a record becomes once it is written.

mod document;
mod entry;
mod graphiti;
mod input;
mod lines;
mod markdown;
mod mem0;
mod note;
mod passages;
mod summary;
mod times;
mod write;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};

use self::entry::Entry;
use self::input::{Format, Input};
use self::note::{Known, Log, note_path};
use self::summary::Summary;
use self::write::Writer;
use super::memory::Caller;
use super::output;
use super::settings::Settings;
use super::target::Target;

/// Calls under way at once, to a server and to a database of one connection.
const PARALLEL: usize = 8;
const PARALLEL_EMBEDDED: usize = 1;

/// Write what a file or a folder holds: bodies of POST /v1/mem/write a line (JSON
/// Lines), Markdown cut at its headings, or an export of mem0, Graphiti or Zep.
#[derive(Debug, Args)]
pub(crate) struct Import {
    #[command(flatten)]
    caller: Caller,
    /// The file, or a folder of Markdown.
    path: PathBuf,
    /// The form of it; found by extension and shape if not given.
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    format: Format,
    /// Begin at the first record, whatever was imported before.
    #[arg(long)]
    restart: bool,
    /// Leave out records that cannot be written, and list them at the end.
    #[arg(long)]
    keep_going: bool,
    /// Print the bodies that would be written, one a line, and write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Calls under way at once: 8, or 1 on an embedded database of this command's own.
    #[arg(long, value_name = "CALLS", value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: Option<u16>,
    /// Where is noted what is in already: beside the file or the folder if not given.
    #[arg(long, value_name = "FILE")]
    note: Option<PathBuf>,
}

impl Import {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let input = Input::open(&self.path, self.format)?;
        output::note(format_args!("read as {}", name(input.format)));
        let note = match &self.note {
            Some(note) => note.clone(),
            None => note_path(&self.path)?,
        };
        let known = match self.restart {
            true => Known::nothing(&self.caller.key),
            false => Known::read(&note, &self.caller.key)?,
        };
        let mut summary = survey(&input, &known)?;
        if self.dry_run {
            return self.show(&input, &known, &summary, settings.json);
        }
        if !summary.refused.is_empty() && !self.keep_going {
            summary.stopped = Some("nothing was written".to_owned());
        } else {
            let mut log = Log::open(&note, self.restart)?;
            let target = Target::for_calls(settings, self.caller.url.as_deref()).await?;
            let writer = Writer {
                target: &target,
                key: &self.caller.key,
                known: &known,
                parallel: self.parallel(&target, settings),
                keep_going: self.keep_going,
            };
            let written = writer.write(&input, &mut log, &mut summary).await;
            target.close().await;
            written?;
        }
        summary.print(settings.json);
        Ok(self.ending(&summary))
    }

    fn parallel(&self, target: &Target, settings: &Settings) -> usize {
        let embedded = matches!(target, Target::Local { .. }) && settings.database_url.is_none();
        match self.parallel {
            Some(calls) => usize::from(calls),
            None if embedded => PARALLEL_EMBEDDED,
            None => PARALLEL,
        }
    }

    /// How it ended; says what can be done if it did not end well.
    fn ending(&self, summary: &Summary) -> ExitCode {
        let refused = summary.refused.len();
        if summary.stopped.is_none() && (refused == 0 || self.keep_going) {
            if refused > 0 {
                output::note(format_args!(
                    "{refused} records were left out (--keep-going); \
                     the next run tries them again"
                ));
            }
            return ExitCode::SUCCESS;
        }
        output::note(match refused {
            0 => "run the same command again to go on",
            _ => {
                "mend what is refused and run the same command again to go on, \
                 or leave it out with --keep-going"
            }
        });
        ExitCode::FAILURE
    }

    fn show(
        &self,
        input: &Input,
        known: &Known,
        summary: &Summary,
        as_json: bool,
    ) -> Result<ExitCode> {
        let mut bodies = Vec::new();
        for entry in input.entries()? {
            match entry? {
                Entry::Record(record) if !known.holds(&known.digest(&record.body)) => match as_json
                {
                    true => bodies.push(record.body),
                    false => output::line(record.body),
                },
                _ => {}
            }
        }
        if as_json {
            output::json(&with_bodies(summary, bodies)?);
        } else {
            let pending = summary.records - summary.imported_before;
            output::note(format_args!("{pending} records would be written"));
            for refused in &summary.refused {
                output::note(format_args!("refused {}: {}", refused.at, refused.reason));
            }
        }
        Ok(self.ending(summary))
    }
}

fn with_bodies(summary: &Summary, bodies: Vec<Value>) -> Result<Value> {
    let mut shown = serde_json::to_value(summary)?;
    shown["dryRun"] = json!(true);
    shown["bodies"] = bodies.into();
    Ok(shown)
}

fn name(format: Format) -> &'static str {
    match format {
        Format::Auto | Format::Jsonl => "JSON Lines of bodies",
        Format::Markdown => "Markdown",
        Format::Mem0 => "an export of mem0",
        Format::Graphiti => "an export of Graphiti or Zep",
    }
}

/// Reads the input once, and counts what it holds.
fn survey(input: &Input, known: &Known) -> Result<Summary> {
    let mut summary = Summary::new(input.format);
    for entry in input.entries()? {
        match entry? {
            Entry::Record(record) => {
                summary.records += 1;
                let before = known.holds(&known.digest(&record.body));
                summary.imported_before += usize::from(before);
                summary.assumed_utc += usize::from(record.assumed_utc);
            }
            Entry::Refused(refused) => summary.refused.push(refused),
            Entry::Skipped(skipped) => summary.skipped.push(skipped),
            Entry::Note(note) => summary.notes.push(note),
        }
    }
    Ok(summary)
}
