//! `halofy trust`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Subcommand;
use halofy_gate::{VendorKeySummary, VendorTrust};

use super::output::{json, table};
use super::settings::Settings;
use super::target::Target;
use crate::http::Command;

/// The keys of vendors whose cartridges may be mounted.
#[derive(Debug, Subcommand)]
pub(crate) enum Trust {
    /// Every key, revoked ones too.
    List,
    /// Trust a vendor's key for some driver names.
    Add {
        /// The public half, as `halofy cartridge keygen` writes it.
        #[arg(value_name = "FILE.pub")]
        key: PathBuf,
        /// Whose it is.
        #[arg(long)]
        vendor: String,
        /// Drivers that it may sign: names, or beginnings such as 'acme-*'.
        #[arg(long, value_name = "NAME,…", value_delimiter = ',', required = true)]
        names: Vec<String>,
    },
    /// Revoke a key: what it signed stops serving, on every kernel of the database.
    Revoke {
        /// Its fingerprint, as listed.
        id: String,
    },
}

impl Trust {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let command = match self {
            Self::List => Command::TrustList,
            Self::Add { key, vendor, names } => {
                let public_key = std::fs::read_to_string(&key)
                    .with_context(|| format!("cannot read the key {}", key.display()))?;
                Command::TrustAdd(VendorTrust {
                    vendor,
                    public_key,
                    names,
                })
            }
            Self::Revoke { id } => Command::TrustRevoke { id },
        };
        let reply = Target::once(settings, &command).await?;
        if settings.json {
            json(&reply);
            return Ok(ExitCode::SUCCESS);
        }
        let keys: Vec<VendorKeySummary> = match reply.is_array() {
            true => serde_json::from_value(reply)?,
            false => vec![serde_json::from_value(reply)?],
        };
        let rows = keys.into_iter().map(|key| {
            let added = key.added_at.date().to_string();
            [key.id, key.vendor, key.names.join(", "), key.status, added]
        });
        table(["key", "vendor", "may sign", "status", "added"], rows);
        Ok(ExitCode::SUCCESS)
    }
}
