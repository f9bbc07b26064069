//! Wiring: from a configuration to an open gate.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use halofy_cartridge::{Cartridge, CartridgeHost, CodeCache, Compiler, Limits, Overrides};
use halofy_core::DEFAULT_DRIVER;
use halofy_gate::embed::Embedder;
use halofy_gate::{Conformance, Gate, GateConfig, Model, Sidecar};
use halofy_store::{Store, VectorSpace};

use crate::cli::compile::compiler;
use crate::config::KernelConfig;

/// The baseline cartridge, built from `drivers/baseline` with this binary.
pub const BASELINE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/baseline.wasm"));

/// How long a search waits for a place among the running cartridges.
const QUEUE_TIME: Duration = Duration::from_secs(5);

/// The engine and what is mounted on it. Compiling takes a while, so that kernels
/// in one process may share it.
#[derive(Clone)]
pub struct Mounted {
    /// Runs cartridges.
    pub host: Arc<CartridgeHost>,
    /// What everything falls back to.
    pub baseline: Arc<Cartridge>,
    /// What the configuration names beside it.
    pub cartridges: Vec<Arc<Cartridge>>,
    /// Compiles what comes from the database.
    pub compiler: Compiler,
}

/// Opens the store, mounts the cartridges, opens the gate.
///
/// # Errors
/// Says what could not be opened, and what to do about it.
pub async fn boot(config: &KernelConfig) -> Result<Arc<Gate>> {
    // First, since the cache may lie in the directory that this makes.
    let opened = open(config).await?;
    let mut compiler = compiler().context("the program that compiles cartridges is not found")?;
    if let Some(cache) = code_cache(&config.code_cache) {
        compiler = compiler.with_cache(cache);
    }
    let mounted = mount(&config.cartridges, &config.limits, compiler).await?;
    Ok(opened.serve_with(mounted))
}

/// Without a cache every cartridge is compiled at each start, and nothing else changes.
fn code_cache(directory: &Path) -> Option<CodeCache> {
    let opened = CodeCache::open(directory);
    let warn = |error: &std::io::Error| {
        let directory = directory.display();
        tracing::warn!(%error, %directory, "compiled cartridges are not kept");
    };
    opened.inspect_err(warn).ok()
}

/// A store, an embedder of its space, a model: all that a gate needs but cartridges.
pub struct Opened {
    store: Arc<Store>,
    embedder: Arc<dyn Embedder>,
    model: Option<Model>,
    sidecars: Vec<Arc<Sidecar>>,
    conformance: Conformance,
}

/// Opens the store.
///
/// # Errors
/// Says what could not be opened, and what to do about it.
pub async fn open(config: &KernelConfig) -> Result<Opened> {
    let embedder = config
        .embedder
        .build()
        .context("the embedder cannot be used")?;
    open_with(config, embedder).await
}

/// Opens the store for an embedder that exists already.
///
/// # Errors
/// As [`open`].
pub async fn open_with(config: &KernelConfig, embedder: Arc<dyn Embedder>) -> Result<Opened> {
    let space = VectorSpace {
        embedder: embedder.identity().to_owned(),
        dimension: embedder.dimension(),
    };
    let sidecars = config.sidecars.iter().map(|(name, url)| {
        let sidecar = Sidecar::new(name.parse()?, Some(url));
        let sidecar = sidecar.with_context(|| format!("the sidecar {name} cannot be used"));
        sidecar.map(Arc::new)
    });
    let sidecars = sidecars.collect::<Result<_>>()?;
    let model = config.model.as_ref().map(Model::from_config).transpose();
    let model = model.context("the language model cannot be used")?;
    let store = Arc::new(Store::open(config.store.clone(), space).await?);
    Ok(Opened {
        store,
        embedder,
        model,
        sidecars,
        conformance: config.conformance,
    })
}

impl Opened {
    /// Opens the gate.
    pub fn serve_with(self, mounted: Mounted) -> Arc<Gate> {
        Gate::open(GateConfig {
            store: self.store,
            embedder: self.embedder,
            model: self.model,
            host: mounted.host,
            baseline: mounted.baseline,
            cartridges: mounted.cartridges,
            sidecars: self.sidecars,
            compiler: mounted.compiler,
            conformance: self.conformance,
        })
    }
}

/// Starts the engine and mounts the baseline and the given cartridges.
///
/// # Errors
/// Names the cartridge that is refused, and why.
pub async fn mount(
    cartridges: &[impl AsRef<Path>],
    defaults: &Overrides,
    compiler: Compiler,
) -> Result<Mounted> {
    let limits = Limits {
        queue_time: QUEUE_TIME,
        ..Limits::default()
    };
    let limits = limits.with_defaults(defaults);
    let host = CartridgeHost::new(limits).context("the WebAssembly engine does not start")?;
    let host = Arc::new(host);
    let baseline = baseline(&host, &compiler).await?;
    let mut mounted = Vec::new();
    for path in cartridges {
        let path = path.as_ref();
        let bytes = std::fs::read(path)
            .with_context(|| format!("cannot read the cartridge {}", path.display()))?;
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let loaded = host.load_untrusted(&bytes, stem.unwrap_or("unnamed"), &compiler);
        let cartridge = loaded
            .await
            .with_context(|| format!("the cartridge {} is refused", path.display()))?;
        mounted.push(Arc::new(cartridge));
    }
    Ok(Mounted {
        host,
        baseline,
        cartridges: mounted,
        compiler,
    })
}

/// From the cache if it is there. Where no child can be started, compiled here: these
/// bytes are our own.
async fn baseline(host: &Arc<CartridgeHost>, compiler: &Compiler) -> Result<Arc<Cartridge>> {
    let aside = host
        .load_untrusted(BASELINE, DEFAULT_DRIVER, compiler)
        .await;
    let loaded = match aside {
        Ok(cartridge) => Ok(cartridge),
        Err(why) => {
            tracing::warn!(%why, "the baseline is compiled in this process");
            let host = Arc::clone(host);
            let here = move || host.load(BASELINE, DEFAULT_DRIVER);
            tokio::task::spawn_blocking(here)
                .await
                .context("compiling the baseline was interrupted")?
        }
    };
    Ok(Arc::new(
        loaded.context("the built-in baseline does not load")?,
    ))
}
