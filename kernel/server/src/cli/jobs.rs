//! `halofy jobs`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use halofy_core::{JobKind, JobState, Namespace};
use halofy_gate::{JobQuery, JobSummary, JobsRetried};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::output::{json, line, table};
use super::settings::Settings;
use super::target::Target;
use crate::http::Command;

/// Work that outlives its call. A job that failed is tried again, later each time; one
/// without a try left is dead, and stays until somebody retries or cancels it.
#[derive(Debug, Subcommand)]
pub(crate) enum Jobs {
    /// The newest jobs: kind, state, tries, and why the last one failed.
    List {
        /// Only in these states: queued, running, done, dead, cancelled.
        #[arg(long = "state", value_name = "STATE,…", value_delimiter = ',')]
        states: Vec<JobState>,
        /// Only of these kinds: write, conflict, embed.
        #[arg(long = "kind", value_name = "KIND,…", value_delimiter = ',')]
        kinds: Vec<JobKind>,
        /// Only in this namespace and below it.
        #[arg(long)]
        namespace: Option<Namespace>,
        /// At most so many; 1,000 are the most.
        #[arg(long, default_value_t = 50)]
        limit: usize,
    },
    /// Everything about one job but what it holds.
    Show {
        /// Its id, which is its ticket.
        #[arg(value_name = "JOB")]
        id: String,
    },
    /// Queue a dead or cancelled job again, with all its tries, or all that pass. What one
    /// had got done is not done twice.
    Retry {
        /// Its id.
        #[arg(value_name = "JOB", required_unless_present = "states",
              conflicts_with_all = ["states", "kinds", "namespace"])]
        id: Option<String>,
        /// All in these states: dead, cancelled.
        #[arg(long = "state", value_name = "STATE,…", value_delimiter = ',')]
        states: Vec<JobState>,
        /// Of them, only these kinds: write, conflict, embed.
        #[arg(
            long = "kind",
            value_name = "KIND,…",
            value_delimiter = ',',
            requires = "states"
        )]
        kinds: Vec<JobKind>,
        /// Of them, only those in this namespace and below it.
        #[arg(long, requires = "states")]
        namespace: Option<Namespace>,
    },
    /// Stop a job that is queued or runs. What it has stored stays; it stores no more.
    Cancel {
        /// Its id.
        #[arg(value_name = "JOB")]
        id: String,
    },
}

impl Jobs {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let command = match self {
            Self::List {
                states,
                kinds,
                namespace,
                limit,
            } => Command::JobList(JobQuery {
                states,
                kinds,
                under: namespace,
                limit,
            }),
            Self::Show { id } => Command::JobShow { id },
            Self::Retry { id: Some(id), .. } => Command::JobRetry { id },
            Self::Retry {
                id: None,
                states,
                kinds,
                namespace,
            } => Command::JobsRetry(JobQuery {
                states,
                kinds,
                under: namespace,
                limit: 0,
            }),
            Self::Cancel { id } => Command::JobCancel { id },
        };
        let reply = Target::once(settings, &command).await?;
        if settings.json {
            json(&reply);
        } else if reply.is_array() {
            list(serde_json::from_value(reply)?);
        } else if let Ok(JobsRetried { retried }) = serde_json::from_value(reply.clone()) {
            line(format_args!("{retried} jobs queued again"));
        } else {
            show(&serde_json::from_value(reply)?);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn list(jobs: Vec<JobSummary>) {
    let rows = jobs.into_iter().map(|job| {
        [
            job.id.to_string(),
            job.kind.to_string(),
            state(&job),
            job.namespace,
            format!("{}/{}", job.attempts, job.max_attempts),
            moment(Some(job.created_at)),
            job.error.unwrap_or_else(none),
        ]
    });
    let header = [
        "job",
        "kind",
        "state",
        "namespace",
        "tries",
        "queued",
        "last error",
    ];
    table(header, rows);
}

fn show(job: &JobSummary) {
    let result = job.result.as_ref().map(ToString::to_string);
    let next = (job.state == JobState::Queued).then_some(job.run_after);
    for (name, value) in [
        ("job", job.id.to_string()),
        ("kind", job.kind.to_string()),
        ("state", state(job)),
        ("namespace", job.namespace.clone()),
        ("actor", job.actor.clone()),
        ("key", job.key.clone().unwrap_or_else(none)),
        ("tries", format!("{} of {}", job.attempts, job.max_attempts)),
        ("queued", moment(Some(job.created_at))),
        ("next try", moment(next)),
        ("leased until", moment(job.lease_until)),
        ("finished", moment(job.finished_at)),
        ("last error", job.error.clone().unwrap_or_else(none)),
        ("result", result.unwrap_or_else(none)),
    ] {
        line(format_args!("{name:<13}{value}"));
    }
}

fn state(job: &JobSummary) -> String {
    match job.erased {
        true => format!("{}, erased", job.state),
        false => job.state.to_string(),
    }
}

fn moment(at: Option<OffsetDateTime>) -> String {
    let to_the_second = at.and_then(|at| at.replace_nanosecond(0).ok());
    let text = to_the_second.and_then(|at| at.format(&Rfc3339).ok());
    text.unwrap_or_else(none)
}

fn none() -> String {
    "-".to_owned()
}
