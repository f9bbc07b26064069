//! `halofy drivers`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Subcommand;
use halofy_core::DriverRef;
use halofy_gate::{DriverState, DriverSummary, MissingDriver, MountChange};

use super::output::{json, line, table};
use super::settings::Settings;
use super::target::Target;
use crate::http::{Command, DriverReply};

/// List the drivers and change what is mounted. DRIVER is `name`, `name@version` or
/// `name@sha256:digest`; a bare name is the version that was mounted last.
#[derive(Debug, Subcommand)]
pub(crate) enum Drivers {
    /// Name, version, origin and state of each.
    List,
    /// Mount a cartridge that was pushed, as the latest of its name.
    Mount {
        /// Which one.
        driver: DriverRef,
        /// Limits for it, over the kernel's own: JSON such as {"totalTimeMs":300}.
        #[arg(long, value_name = "JSON")]
        limits: Option<String>,
    },
    /// Take one version out for good. Its bytes stay.
    Unmount {
        /// Which one.
        driver: DriverRef,
    },
    /// Take the latest version out, so that the one before it serves again.
    Rollback {
        /// Which one.
        driver: DriverRef,
    },
    /// Take one version out until it is released: the baseline serves in its place.
    Quarantine {
        /// Which one.
        driver: DriverRef,
        /// Why; goes into the audit log.
        #[arg(long, default_value = "by hand")]
        reason: String,
    },
    /// Let a version back that was taken out, by hand or by itself.
    Release {
        /// Which one.
        driver: DriverRef,
    },
}

impl Drivers {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let command = match self {
            Self::List => Command::DriverList,
            Self::Mount { driver, limits } => {
                let limits = limits.as_deref().map(serde_json::from_str).transpose();
                let limits = limits
                    .context("--limits holds no limits")?
                    .unwrap_or_default();
                change(driver, MountChange::Mount { limits })
            }
            Self::Unmount { driver } => change(driver, MountChange::Unmount),
            Self::Rollback { driver } => change(driver, MountChange::Rollback),
            Self::Quarantine { driver, reason } => {
                change(driver, MountChange::Quarantine { reason })
            }
            Self::Release { driver } => change(driver, MountChange::Release),
        };
        let reply = Target::once(settings, &command).await?;
        if settings.json {
            json(&reply);
            return Ok(ExitCode::SUCCESS);
        }
        let DriverReply { drivers, missing } = serde_json::from_value(reply)?;
        show(drivers);
        for MissingDriver {
            namespace,
            driver,
            reason,
        } in missing
        {
            line(format_args!(
                "warning: the policy of {namespace} names {driver}, which does not serve \
                 ({reason}): the baseline does"
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn change(driver: DriverRef, change: MountChange) -> Command {
    Command::MountChange { driver, change }
}

fn show(drivers: Vec<DriverSummary>) {
    let none = || "-".to_owned();
    let rows = drivers.into_iter().map(|driver| {
        let state = match driver.state {
            DriverState::Serving => "serving".to_owned(),
            DriverState::Unsigned => "UNSIGNED, serves where policy allows it".to_owned(),
            DriverState::Quarantined(why) => format!("QUARANTINED: {why}"),
            DriverState::Refused(why) => format!("REFUSED: {why}"),
        };
        let mark = if driver.default { " *" } else { "" };
        [
            format!("{}{mark}", driver.name),
            driver.version,
            driver
                .vendor
                .filter(|vendor| !vendor.is_empty())
                .unwrap_or_else(none),
            driver.origin,
            state,
            driver.size.map_or_else(none, |size| size.to_string()),
            driver.digest.unwrap_or_else(none),
        ]
    });
    let header = [
        "name", "version", "vendor", "origin", "state", "bytes", "sha256",
    ];
    table(header, rows);
    line("* what the bare name means");
}
