//! `halofy cartridge build`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;

use super::super::output::{self, line};
use super::super::settings::Settings;

/// Build a folder into a component.
///
/// A folder with a Cargo.toml is built by cargo; one with a halofy.toml by the tool of the
/// language that it names. An absent tool is told with the command that installs it.
#[derive(Debug, Args)]
pub(crate) struct Build {
    /// The cartridge's folder.
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// The file to write; the cartridge's name in its folder unless given.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Build {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let built = super::built(self.dir.clone()).await?;
        let file = format!("{}.wasm", built.manifest.name);
        let file = self.output.unwrap_or_else(|| self.dir.join(file));
        std::fs::write(&file, &built.component)
            .with_context(|| format!("cannot write {}", file.display()))?;
        if settings.json {
            output::json(&json!({
                "file": file,
                "bytes": built.component.len(),
                "sha256": built.digest_sha256,
                "language": built.language.name(),
                "manifest": built.manifest,
            }));
            return Ok(ExitCode::SUCCESS);
        }
        let manifest = &built.manifest;
        line(format_args!(
            "{}: {} {} by {} ({}), {} bytes, sha256 {}",
            file.display(),
            manifest.name,
            manifest.version,
            manifest.vendor,
            manifest.licence,
            built.component.len(),
            built.digest_sha256,
        ));
        Ok(ExitCode::SUCCESS)
    }
}
