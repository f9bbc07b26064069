//! `halofy drivers`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use halofy_gate::DriverSummary;

use super::output::{json, table};
use super::settings::Settings;
use super::target::Target;
use crate::http::Command;

/// List the mounted cartridges.
#[derive(Debug, Subcommand)]
pub(crate) enum Drivers {
    /// Name, version, vendor and digest of each.
    List,
}

impl Drivers {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let Self::List = self;
        let target = Target::for_operator(settings).await?;
        let reply = target.command(&Command::DriverList).await;
        target.close().await;
        let reply = reply?;
        if settings.json {
            json(&reply);
            return Ok(ExitCode::SUCCESS);
        }
        let drivers: Vec<DriverSummary> = serde_json::from_value(reply)?;
        let rows = drivers.into_iter().map(|driver| {
            [
                driver.name,
                driver.version.unwrap_or_else(|| "-".to_owned()),
                driver.vendor.unwrap_or_else(|| "-".to_owned()),
                driver.size.to_string(),
                driver.digest,
            ]
        });
        table(["name", "version", "vendor", "bytes", "sha256"], rows);
        Ok(ExitCode::SUCCESS)
    }
}
