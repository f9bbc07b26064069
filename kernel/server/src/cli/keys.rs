//! `halofy keys`.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Subcommand;
use halofy_core::Namespace;
use halofy_gate::KeySummary;
use serde_json::Value;
use time::{Duration, OffsetDateTime};

use super::output::{json, line, table};
use super::settings::Settings;
use super::target::Target;
use crate::http::Command;

/// Make, list and revoke keys.
#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Make a key and print it, once.
    Create {
        /// Where its holder lives: it sees this namespace and those above it.
        #[arg(long, short)]
        namespace: String,
        /// Whom the audit log names, such as user:dana or agent:ci.
        #[arg(long, short)]
        actor: String,
        /// agent, member, auditor, admin or owner.
        #[arg(long, short, default_value = "agent")]
        role: String,
        /// Stops working after so many days.
        #[arg(long, value_name = "DAYS")]
        expires_in_days: Option<u32>,
        /// A group that it belongs to, for memories that only some may read. May be given
        /// several times.
        #[arg(long = "group", value_name = "GROUP")]
        groups: Vec<String>,
    },
    /// List keys, without their secrets.
    List {
        /// Only a namespace and what lies below it.
        #[arg(long, value_name = "NAMESPACE")]
        under: Option<Namespace>,
    },
    /// Revoke a key by its id: the next call with it is refused.
    Revoke {
        /// Such as key_01J…; see `halofy keys list`.
        id: String,
    },
}

impl Keys {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let target = Target::for_operator(settings).await?;
        let outcome = self.give(&target, settings).await;
        target.close().await;
        outcome.map(|()| ExitCode::SUCCESS)
    }

    async fn give(self, target: &Target, settings: &Settings) -> Result<()> {
        match self {
            Self::Create {
                namespace,
                actor,
                role,
                expires_in_days,
                groups,
            } => {
                let expires_at = expires_in_days.map(in_days).transpose()?;
                let create = Command::KeyCreate {
                    namespace,
                    actor,
                    role,
                    expires_at,
                    groups,
                };
                let reply = target.command(&create).await?;
                if settings.json {
                    json(&reply);
                    return Ok(());
                }
                line(reply["key"].as_str().unwrap_or_default());
                eprintln!("Keep this key: it is not stored and cannot be shown again.");
            }
            Self::List { under } => {
                show(target.command(&Command::KeyList { under }).await?, settings)?
            }
            Self::Revoke { id } => {
                let reply = target.command(&Command::KeyRevoke { id }).await?;
                show(Value::Array(vec![reply]), settings)?;
            }
        }
        Ok(())
    }
}

fn in_days(days: u32) -> Result<OffsetDateTime> {
    OffsetDateTime::now_utc()
        .checked_add(Duration::days(days.into()))
        .ok_or_else(|| anyhow!("{days} days from now is beyond the calendar"))
}

fn show(keys: Value, settings: &Settings) -> Result<()> {
    if settings.json {
        json(&keys);
        return Ok(());
    }
    let keys: Vec<KeySummary> = serde_json::from_value(keys)?;
    let rows = keys.into_iter().map(|key| {
        [
            key.id,
            key.hint + "…",
            key.namespace,
            key.actor,
            key.role,
            key.status,
        ]
    });
    table(["id", "key", "namespace", "actor", "role", "status"], rows);
    Ok(())
}
