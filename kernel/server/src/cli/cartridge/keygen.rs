//! `halofy cartridge keygen`: a vendor's key pair.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use halofy_cartridge::VendorKey;
use serde::Serialize;

use crate::cli::output::{json, line};
use crate::cli::settings::Settings;

/// Make a key to sign cartridges with.
///
/// The private half is written for you alone (PKCS#8 PEM, mode 0600) and never
/// overwritten. Give operators the public half.
#[derive(Debug, Args)]
pub(crate) struct Keygen {
    /// Where the private half goes; the public half goes beside it, as .pub.
    #[arg(long, short, value_name = "FILE", default_value = "vendor.key")]
    out: PathBuf,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Made {
    key_id: String,
    public_key: String,
    private_key_file: PathBuf,
    public_key_file: PathBuf,
}

impl Keygen {
    pub(super) fn run(self, settings: &Settings) -> Result<ExitCode> {
        let key = VendorKey::generate()?;
        let public = key.public();
        let public_key_file = self.out.with_extension("pub");
        key.create_file(&self.out)
            .with_context(|| format!("cannot make {}", self.out.display()))?;
        std::fs::write(&public_key_file, public.to_pem()?)
            .with_context(|| format!("cannot write {}", public_key_file.display()))?;
        let made = Made {
            key_id: public.id(),
            public_key: public.to_string(),
            private_key_file: self.out,
            public_key_file,
        };
        if settings.json {
            json(&made);
        } else {
            line(format_args!("key       {}", made.key_id));
            line(format_args!("public    {}", made.public_key));
            line(format_args!("          {}", made.public_key_file.display()));
            line(format_args!(
                "private   {} (keep it)",
                made.private_key_file.display()
            ));
        }
        Ok(ExitCode::SUCCESS)
    }
}
