//! `halofy cartridge test`: for a vendor's terminal and for CI. Ends with 0 only when
//! everything passes.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use halofy_build::{DeclaredCapabilities, Manifest};
use halofy_cartridge::{Cartridge, CartridgeHost};
use halofy_gate::conformance::{self, Report};
use serde::Serialize;

use super::super::output::{self, line};
use super::super::settings::Settings;
use super::rankings::{FILE, Ranking, Rankings};

/// Run every check of conformance, and the folder's own rankings.
///
/// Under the limits of a kernel that nobody has configured, on a database of its own, with
/// no network and no credentials.
#[derive(Debug, Args)]
pub(crate) struct Test {
    /// A component, or a folder to build first.
    #[arg(value_name = "FILE.wasm|DIR", default_value = ".")]
    source: PathBuf,
    /// Memories and questions of your own (TOML); rankings.toml of the folder unless given.
    #[arg(long, value_name = "FILE")]
    rankings: Option<PathBuf>,
}

#[derive(Serialize)]
struct Verdict {
    passed: bool,
    #[serde(flatten)]
    report: Report,
    /// Why the manifest's word on capabilities is not the cartridge's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    misdeclared: Option<String>,
    rankings: Vec<Ranking>,
}

impl Test {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let rankings = self.rankings()?;
        let component = super::component(&self.source).await?;
        let name = super::stem(&self.source);
        let verdict = verdict(component, name, rankings).await?;
        if settings.json {
            output::json(&verdict);
        } else {
            show(&verdict);
        }
        Ok(if verdict.passed {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }

    fn rankings(&self) -> Result<Option<Rankings>> {
        let beside = self.source.join(FILE);
        let path = self
            .rankings
            .clone()
            .or_else(|| beside.is_file().then_some(beside));
        path.as_deref().map(Rankings::read).transpose()
    }
}

async fn verdict(component: Vec<u8>, name: String, rankings: Option<Rankings>) -> Result<Verdict> {
    let declared = Manifest::read(&component).ok().flatten();
    let declared = declared.and_then(|manifest| manifest.capabilities);
    let (host, loaded) = super::load(component, name.clone()).await?;
    let cartridge = match loaded {
        Ok(cartridge) => cartridge,
        Err(why) => {
            return Ok(Verdict {
                passed: false,
                report: Report::refused(&name, &why),
                misdeclared: None,
                rankings: Vec::new(),
            });
        }
    };
    let scratch = tempfile::tempdir().context("no directory for the fixture")?;
    let report = conformance::run(&host, &cartridge, &scratch.path().join("data")).await?;
    let rankings = match rankings {
        Some(rankings) => rankings.run(&host, &cartridge).await,
        None => Vec::new(),
    };
    let misdeclared = misdeclared(declared, &host, &cartridge).await?;
    let held = report.passed() && misdeclared.is_none();
    Ok(Verdict {
        passed: held && rankings.iter().all(|ranking| ranking.passed),
        report,
        misdeclared,
        rankings,
    })
}

/// Holds the manifest's capabilities, where it has any, against those that are answered.
async fn misdeclared(
    declared: Option<DeclaredCapabilities>,
    host: &CartridgeHost,
    cartridge: &Cartridge,
) -> Result<Option<String>> {
    let Some(declared) = declared else {
        return Ok(None);
    };
    let answered = host.capabilities(cartridge).await;
    let answered = answered.context("capabilities() does not answer")?;
    let same = declared.graph == answered.graph && declared.streaming == answered.streaming;
    let why = || format!("the manifest declares {declared:?}, capabilities() says {answered:?}");
    Ok((!same).then(why))
}

fn show(verdict: &Verdict) {
    line(&verdict.report);
    if let Some(why) = &verdict.misdeclared {
        line(format_args!("manifest FAIL {why}"));
    }
    for ranking in &verdict.rankings {
        let result = if ranking.passed { "PASS" } else { "FAIL" };
        line(format_args!(
            "ranking {result} {:?}: {}",
            ranking.question, ranking.detail
        ));
    }
}
