//! `halofy replay`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use super::memory::print_results;
use super::output::{json, line};
use super::settings::Settings;
use super::target::Target;
use crate::http::Command;

/// Run the search of an audit row again: the same query, the same cartridge, the
/// memories as they were believed then. Ends with 0 when the answer is the same.
#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The row's sequence number, as `halofy audit tail` shows it.
    #[arg(value_name = "AUDIT_SEQ")]
    seq: i64,
    /// The whole query, where the log has only its beginning or nothing of it.
    #[arg(long)]
    query: Option<String>,
}

impl Replay {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let Self { seq, query } = self;
        let reply = Target::once(settings, &Command::Replay { seq, query }).await?;
        let same = reply["same"].as_bool() == Some(true);
        if settings.json {
            json(&reply);
        } else {
            let text = |field: &str| reply[field].as_str().unwrap_or_default().to_owned();
            let verdict = if same {
                "the same answer"
            } else {
                "ANOTHER ANSWER"
            };
            line(format_args!(
                "{verdict}: logged {}, now {} ({}, sha256:{})",
                text("logged"),
                text("found"),
                text("driver"),
                text("digest")
            ));
            print_results(&reply);
        }
        Ok(if same {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
