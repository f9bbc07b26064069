//! `halofy cartridge`: what a vendor does with a cartridge before an operator sees it, and
//! `push`, which shows it to one. Only that needs a kernel.

mod bench;
mod build;
mod inspect;
mod keygen;
mod new;
mod push;
mod rankings;
mod sign;
mod test;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::Subcommand;
use halofy_build::{Builder, Built};
use halofy_cartridge::{Cartridge, CartridgeHost, Limits, LoadError};

use super::settings::Settings;

/// Make, build, check, measure, sign and push a cartridge.
#[derive(Debug, Subcommand)]
pub(crate) enum CartridgeCommand {
    /// Write a new cartridge's folder, which builds and passes every check as it is.
    New(new::New),
    /// Build a folder into a component.
    Build(build::Build),
    /// Run every check of conformance, and the folder's own rankings.
    Test(test::Test),
    /// Measure calls over a corpus in memory.
    Bench(bench::Bench),
    /// Show what a component imports, exports, says about itself and may use.
    Inspect(inspect::Inspect),
    /// Make a vendor's key pair.
    Keygen(keygen::Keygen),
    /// Sign a component.
    Sign(sign::Sign),
    /// Verify a component's signature.
    Verify(verify::Verify),
    /// Send a component to the kernel and mount it.
    Push(push::Push),
}

impl CartridgeCommand {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        match self {
            Self::New(new) => new.run(settings),
            Self::Build(build) => build.run(settings).await,
            Self::Test(test) => test.run(settings).await,
            Self::Bench(bench) => bench.run(settings).await,
            Self::Inspect(inspect) => inspect.run(settings),
            Self::Keygen(keygen) => keygen.run(settings),
            Self::Sign(sign) => sign.run(settings),
            Self::Verify(verify) => verify.run(settings),
            Self::Push(push) => push.run(settings).await,
        }
    }
}

/// Builds what `dir` holds, on a thread that may block.
async fn built(dir: PathBuf) -> Result<Built> {
    let building = tokio::task::spawn_blocking(move || Builder::new(dir).build());
    Ok(building.await.context("the build was interrupted")??)
}

/// The component in `source`: a file, or what a folder builds.
async fn component(source: &Path) -> Result<Vec<u8>> {
    if source.is_dir() {
        return Ok(built(source.to_owned()).await?.component);
    }
    std::fs::read(source).with_context(|| format!("cannot read the cartridge {}", source.display()))
}

/// A host under the limits of a kernel that nobody has configured.
fn host() -> Result<CartridgeHost> {
    CartridgeHost::new(Limits::default())
        .map_err(|why| anyhow!("the WebAssembly engine does not start: {why}"))
}

/// Admits and compiles, on a thread that may block.
async fn load(
    component: Vec<u8>,
    name: String,
) -> Result<(CartridgeHost, Result<Cartridge, LoadError>)> {
    let loading = tokio::task::spawn_blocking(move || {
        let host = host()?;
        let loaded = host.load(&component, &name);
        Ok((host, loaded))
    });
    loading
        .await
        .context("loading the cartridge was interrupted")?
}

/// What a cartridge without a manifest is called.
fn stem(source: &Path) -> String {
    let stem = source.file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or("unnamed").to_owned()
}
