//! `halofy audit`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use halofy_audit::Record;
use halofy_core::Namespace;
use halofy_gate::AuditTail;
use serde_json::Value;

use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use super::output::{json, line, table};
use super::settings::Settings;
use super::target::Target;
use crate::http::Command;

/// Show and verify the audit log.
#[derive(Debug, Subcommand)]
pub(crate) enum Audit {
    /// The newest rows.
    Tail {
        /// So many.
        #[arg(short = 'n', long, default_value_t = 20)]
        lines: usize,
        /// Only a namespace and what lies below it.
        #[arg(long, value_name = "NAMESPACE")]
        under: Option<Namespace>,
    },
    /// Check every row against the hash chain. Exits with 1 when one does not verify.
    Verify,
}

impl Audit {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let target = Target::for_operator(settings).await?;
        let outcome = self.give(&target, settings).await;
        target.close().await;
        outcome
    }

    async fn give(self, target: &Target, settings: &Settings) -> Result<ExitCode> {
        match self {
            Self::Tail { lines, under } => {
                let tail = AuditTail {
                    limit: lines,
                    under,
                };
                let reply = target.command(&Command::AuditTail(tail)).await?;
                if settings.json {
                    json(&reply);
                } else {
                    print_rows(&serde_json::from_value::<Vec<Record>>(reply)?);
                }
                Ok(ExitCode::SUCCESS)
            }
            Self::Verify => {
                let report = target.command(&Command::AuditVerify).await?;
                if settings.json {
                    json(&report);
                } else {
                    print_report(&report);
                }
                let ok = report["ok"].as_bool() == Some(true);
                Ok(if ok {
                    ExitCode::SUCCESS
                } else {
                    ExitCode::FAILURE
                })
            }
        }
    }
}

const AT: &[BorrowedFormatItem<'_>] =
    format_description!("[year]-[month]-[day] [hour]:[minute]:[second]");

/// Prints audit rows for a person.
pub(crate) fn print_rows(records: &[Record]) {
    let rows = records.iter().map(|record| {
        let columns = &record.columns;
        let at = columns.ts.format(AT).unwrap_or_default();
        [
            record.seq.to_string(),
            at,
            columns.namespace.clone(),
            columns.actor.clone(),
            columns.key_id.clone().unwrap_or_else(|| "-".to_owned()),
            columns.op.clone(),
            columns.result.clone(),
            columns.detail.clone().unwrap_or_default(),
        ]
    });
    table(
        [
            "seq",
            "at (UTC)",
            "namespace",
            "actor",
            "key",
            "op",
            "result",
            "detail",
        ],
        rows,
    );
}

/// Prints a verification report for a person.
pub(crate) fn print_report(report: &Value) {
    let head = report["head"]["hash"].as_str().unwrap_or("none");
    let verdict = if report["ok"].as_bool() == Some(true) {
        "every row verifies"
    } else {
        "THE LOG DOES NOT VERIFY"
    };
    line(format_args!(
        "{verdict}: {} checked, {} not chained yet, head {head}",
        report["checked"], report["pending"]
    ));
    for fault in report["faults"].as_array().into_iter().flatten() {
        line(format_args!("  {fault}"));
    }
}
