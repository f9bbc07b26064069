//! `halofy cartridge push`: from a vendor's file to a driver that serves.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use halofy_gate::Pushed;

use super::sign::signature_path;
use super::verify::read_limited;
use crate::cli::output::{json, line};
use crate::cli::settings::Settings;
use crate::cli::target::Target;
use crate::http::{Command, PushRequest};

/// Send a cartridge to the kernel and mount it, without a restart.
///
/// The kernel verifies the signature, compiles in a process of its own, checks
/// conformance, and then serves it on every kernel of the database.
#[derive(Debug, Args)]
pub(crate) struct Push {
    /// A component.
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// Its signature [default: FILE.wasm.sig, if there is one]
    #[arg(long, value_name = "FILE")]
    signature: Option<PathBuf>,
    /// Store it and do not mount it yet; `halofy drivers mount` does.
    #[arg(long)]
    no_mount: bool,
    /// Limits for it, over the kernel's own: JSON such as {"totalTimeMs":300}.
    #[arg(long, value_name = "JSON", conflicts_with = "no_mount")]
    limits: Option<String>,
    /// Although nobody signed it: it serves only where policy says allowUnsigned.
    #[arg(long)]
    allow_unsigned: bool,
    /// Although it fails conformance.
    #[arg(long)]
    force: bool,
}

impl Push {
    pub(super) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let component = read_limited(&self.file)?;
        let beside = signature_path(&self.file);
        let path = self
            .signature
            .or_else(|| beside.is_file().then_some(beside));
        let signature = match path {
            Some(path) => Some(
                std::fs::read_to_string(&path)
                    .with_context(|| format!("cannot read the signature {}", path.display()))?,
            ),
            None => None,
        };
        let limits = self.limits.as_deref().map(serde_json::from_str).transpose();
        let command = Command::CartridgePush(PushRequest {
            component: component.into(),
            signature,
            mount: !self.no_mount,
            limits: limits
                .context("--limits holds no limits")?
                .unwrap_or_default(),
            allow_unsigned: self.allow_unsigned,
            force: self.force,
        });
        let reply = Target::once(settings, &command).await?;
        if settings.json {
            json(&reply);
        } else {
            show(&serde_json::from_value(reply)?);
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn show(pushed: &Pushed) {
    let Pushed { name, version, .. } = pushed;
    let by = pushed.signed_by.as_deref();
    let mounted = if pushed.mounted { "mounted" } else { "stored" };
    match by {
        Some(vendor) => line(format_args!(
            "{mounted} {name} {version}, signed by {vendor}"
        )),
        None => line(format_args!(
            "{mounted} {name} {version}, UNSIGNED: it serves only where policy says so \
             (halofy policy set NAMESPACE --allow-unsigned true)"
        )),
    }
    line(format_args!("sha256:{}", pushed.digest));
    if pushed.conformance == Some(false) {
        line("warning: it fails conformance");
    }
    line(format_args!(
        "next: halofy policy set NAMESPACE --retriever {name}"
    ));
}
