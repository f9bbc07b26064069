//! `halofy cartridge sign`: a detached signature beside a component.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use halofy_cartridge::{Limits, SignatureFile, VendorKey};

use super::verify::read_limited;
use crate::cli::output::{json, line};
use crate::cli::settings::Settings;

/// Sign a cartridge.
///
/// Signs the component's digest, its manifest and the version of the contract. Only a
/// component that a kernel would admit, and that has a manifest, is signed.
#[derive(Debug, Args)]
pub(crate) struct Sign {
    /// A component.
    #[arg(value_name = "FILE.wasm")]
    file: PathBuf,
    /// The private half of the key, as `keygen` writes it.
    #[arg(long, short, value_name = "FILE", default_value = "vendor.key")]
    key: PathBuf,
    /// Where the signature goes [default: FILE.wasm.sig]
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Sign {
    pub(super) fn run(self, settings: &Settings) -> Result<ExitCode> {
        let bytes = read_limited(&self.file)?;
        let key = VendorKey::read_file(&self.key)
            .with_context(|| format!("cannot use the key {}", self.key.display()))?;
        let signature = SignatureFile::sign(&bytes, &key, Limits::default().component)
            .with_context(|| format!("{} is not signed", self.file.display()))?;
        let out = self.out.unwrap_or_else(|| signature_path(&self.file));
        std::fs::write(&out, signature.to_json() + "\n")
            .with_context(|| format!("cannot write {}", out.display()))?;
        let manifest = signature.manifest();
        let key_id = key.public().id();
        if settings.json {
            json(&serde_json::json!({
                "name": manifest.name,
                "version": manifest.version,
                "digest": signature.digest().to_string(),
                "keyId": key_id,
                "signatureFile": out,
            }));
        } else {
            line(format_args!(
                "signed {} {} with key {key_id}: {}",
                manifest.name,
                manifest.version,
                out.display()
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Where the signature of a component is looked for.
pub(super) fn signature_path(component: &Path) -> PathBuf {
    let mut path = component.as_os_str().to_owned();
    path.push(".sig");
    PathBuf::from(path)
}
