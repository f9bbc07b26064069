//! `halofy conformance`: all checks on one cartridge, for a vendor's terminal and for
//! CI. Ends with 0 only when all pass.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use halofy_cartridge::{Cartridge, CartridgeHost, Limits, LoadError};
use halofy_core::DEFAULT_DRIVER;
use halofy_gate::conformance::{self, Report};
use serde::Serialize;

use super::output::{json, line};
use super::settings::Settings;
use crate::boot::BASELINE;

/// Check a cartridge against the contract.
///
/// Runs on a database of its own, with no network and no credentials, whatever the
/// other flags say.
#[derive(Debug, Args)]
pub(crate) struct Conformance {
    /// `baseline`, the name of a cartridge given by --cartridge, or a file.
    #[arg(value_name = "NAME|FILE.wasm")]
    driver: String,
}

#[derive(Serialize)]
struct Verdict<'r> {
    passed: bool,
    #[serde(flatten)]
    report: &'r Report,
}

/// A cartridge, or the report on why it was not admitted.
type Admitted = std::result::Result<Cartridge, Report>;

impl Conformance {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let mut mounted = settings.file()?.server.cartridges;
        mounted.extend(settings.cartridges.iter().cloned());
        // Compiling takes long.
        let admitting = tokio::task::spawn_blocking(move || admit(&self.driver, &mounted));
        let (host, admitted) = admitting
            .await
            .context("loading the cartridge was interrupted")??;
        let report = match admitted {
            Ok(cartridge) => {
                let scratch = tempfile::tempdir().context("no directory for the fixture")?;
                conformance::run(&host, &cartridge, &scratch.path().join("data")).await?
            }
            Err(refused) => refused,
        };
        show(&report, settings);
        Ok(if report.passed() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

fn show(report: &Report, settings: &Settings) {
    if settings.json {
        let passed = report.passed();
        json(&Verdict { passed, report });
    } else {
        line(report);
    }
}

fn admit(driver: &str, mounted: &[PathBuf]) -> Result<(CartridgeHost, Admitted)> {
    let host = CartridgeHost::new(Limits::default())
        .map_err(|why| anyhow!("the WebAssembly engine does not start: {why}"))?;
    let admitted = if is_file_name(driver) {
        let path = Path::new(driver);
        load(&host, path)?.map_err(|why| Report::refused(stem(path), &why))
    } else {
        by_name(&host, driver, mounted)?
    };
    Ok((host, admitted))
}

/// A driver's name holds neither dots nor separators.
fn is_file_name(driver: &str) -> bool {
    driver.contains(['.', '/', std::path::MAIN_SEPARATOR])
}

/// The cartridge that would answer to `name` in a kernel with these files mounted:
/// the last one, as at boot.
fn by_name(host: &CartridgeHost, name: &str, mounted: &[PathBuf]) -> Result<Admitted> {
    let mut known = vec![DEFAULT_DRIVER.to_owned()];
    for path in mounted.iter().rev() {
        match load(host, path)? {
            Ok(cartridge) if cartridge.name() == name => return Ok(Ok(cartridge)),
            Ok(cartridge) => known.push(cartridge.name().to_owned()),
            Err(why) if stem(path) == name => return Ok(Err(Report::refused(name, &why))),
            Err(why) => {
                let refused = format!("the cartridge {} is refused", path.display());
                return Err(anyhow::Error::new(why).context(refused));
            }
        }
    }
    if name == DEFAULT_DRIVER {
        let baseline = host.load(BASELINE, name);
        return Ok(Ok(baseline.context("the built-in baseline does not load")?));
    }
    bail!(
        "no cartridge is named {name:?} here, only {}; mount it with --cartridge FILE.wasm, \
         or name the file itself",
        known.join(", ")
    )
}

fn load(host: &CartridgeHost, path: &Path) -> Result<std::result::Result<Cartridge, LoadError>> {
    let bytes = std::fs::read(path)
        .with_context(|| format!("cannot read the cartridge {}", path.display()))?;
    Ok(host.load(&bytes, stem(path)))
}

/// The name of a cartridge that has no manifest, as at boot.
fn stem(path: &Path) -> &str {
    path.file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or("unnamed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_apart_from_a_file() {
        for file in ["mine.wasm", "./mine", "out/mine", "mine.component"] {
            assert!(is_file_name(file), "{file}");
        }
        for name in ["baseline", "graph-2", "my_driver"] {
            assert!(!is_file_name(name), "{name}");
        }
    }

    #[test]
    fn a_missing_file_and_an_unknown_name_are_told_what_to_do() {
        let said = |driver: &str| match admit(driver, &[]) {
            Ok(_) => panic!("{driver} was admitted"),
            Err(error) => error.to_string(),
        };
        assert_eq!(
            said("nowhere/x.wasm"),
            "cannot read the cartridge nowhere/x.wasm"
        );
        let unknown = said("keyword");
        assert!(
            unknown.contains("only baseline") && unknown.contains("--cartridge"),
            "{unknown}"
        );
    }

    #[test]
    fn a_file_that_is_no_component_fails_the_read_only_check() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("text.wasm");
        std::fs::write(&path, "(module)")?;
        let (_host, admitted) = admit(&path.to_string_lossy(), &[])?;
        let report = admitted.err().context("it was admitted")?;
        assert_eq!((report.driver.as_str(), report.passed()), ("text", false));
        assert_eq!(report.checks[0].name, "read-only");
        Ok(())
    }
}
