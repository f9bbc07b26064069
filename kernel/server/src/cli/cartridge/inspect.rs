//! `halofy cartridge inspect`: what a component is from the outside, before anybody
//! runs it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use halofy_cartridge::{CallLimits, Inspection, Interface, Limits, Manifest, Overrides, inspect};
use serde::Serialize;

use super::verify::read_limited;
use crate::cli::output::{json, line};
use crate::cli::settings::Settings;

/// Show what a cartridge imports, exports and says about itself.
///
/// Reads the file as a kernel would and compiles nothing. Ends with 1 when a kernel
/// would refuse it, and says why.
#[derive(Debug, Args)]
pub(crate) struct Inspect {
    /// A component.
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown<'a> {
    size: usize,
    digest: String,
    functions: u64,
    nested: u64,
    manifest: Option<&'a Manifest>,
    imports: &'a [Interface],
    exports: &'a [String],
    /// Of one call, on a kernel with defaults.
    limits: Overrides,
}

impl Inspect {
    pub(super) fn run(self, settings: &Settings) -> Result<ExitCode> {
        let limits = Limits::default();
        let bytes = read_limited(&self.file)?;
        let found = inspect(&bytes, limits.component)
            .with_context(|| format!("{} is refused", self.file.display()))?;
        let asked = found.manifest.as_ref().and_then(|m| m.limits.as_ref());
        let call = CallLimits::default_of(&limits).lowered_by(asked);
        let shown = Shown {
            size: found.size,
            digest: found.digest.to_string(),
            functions: found.functions,
            nested: found.nested,
            manifest: found.manifest.as_ref(),
            imports: &found.imports,
            exports: &found.exports,
            limits: Overrides::from(&call),
        };
        if settings.json {
            json(&shown);
        } else {
            print(&found, &shown.limits)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn print(found: &Inspection, limits: &Overrides) -> Result<()> {
    match &found.manifest {
        Some(manifest) => {
            line(format_args!(
                "name      {} {}",
                manifest.name, manifest.version
            ));
            line(format_args!("vendor    {}", or_dash(&manifest.vendor)));
            line(format_args!("licence   {}", or_dash(&manifest.licence)));
            line(format_args!("contract  {}", manifest.wit));
        }
        None => line("name      none: it has no manifest, and whoever mounts it names it"),
    }
    line(format_args!(
        "size      {} bytes, {} functions",
        found.size, found.functions
    ));
    line(format_args!("sha256    {}", found.digest));
    line("imports");
    for import in &found.imports {
        line(format_args!("  {}", import.name));
        for function in &import.functions {
            line(format_args!("    {function}"));
        }
    }
    line("exports");
    for export in &found.exports {
        line(format_args!("  {export}"));
    }
    line("limits of a call, where no operator says otherwise");
    if let serde_json::Value::Object(limits) = serde_json::to_value(limits)? {
        for (name, value) in limits {
            line(format_args!("  {name:<14} {value}"));
        }
    }
    Ok(())
}

fn or_dash(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}
