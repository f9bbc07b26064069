//! Wiring: from a configuration to an open gate.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use halofy_cartridge::{CartridgeHost, Drivers, Limits};
use halofy_gate::embed::Embedder;
use halofy_gate::{Gate, GateConfig};
use halofy_store::{Store, VectorSpace};

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
    /// The cartridges by name.
    pub drivers: Arc<Drivers>,
}

/// Opens the store, mounts the cartridges, opens the gate.
///
/// # Errors
/// Says what could not be opened, and what to do about it.
pub async fn boot(config: &KernelConfig) -> Result<Arc<Gate>> {
    let cartridges = config.cartridges.clone();
    let mounting = tokio::task::spawn_blocking(move || mount(&cartridges));
    let (opened, mounted) = tokio::join!(open(config), mounting);
    let mounted = mounted.context("mounting the cartridges was interrupted")??;
    Ok(opened?.serve_with(mounted))
}

/// A store and an embedder of its space: all that a gate needs but cartridges.
pub struct Opened {
    store: Arc<Store>,
    embedder: Arc<dyn Embedder>,
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
    let store = Arc::new(Store::open(config.store.clone(), space).await?);
    Ok(Opened { store, embedder })
}

impl Opened {
    /// Opens the gate.
    pub fn serve_with(self, mounted: Mounted) -> Arc<Gate> {
        Gate::open(GateConfig {
            store: self.store,
            embedder: self.embedder,
            host: mounted.host,
            drivers: mounted.drivers,
        })
    }
}

/// Starts the engine and mounts the baseline and the given cartridges. Blocks.
///
/// # Errors
/// Names the cartridge that is refused, and why.
pub fn mount(cartridges: &[impl AsRef<Path>]) -> Result<Mounted> {
    let limits = Limits {
        queue_time: QUEUE_TIME,
        ..Limits::default()
    };
    let host = CartridgeHost::new(limits).context("the WebAssembly engine does not start")?;
    let drivers = Drivers::new(&host, BASELINE).context("the built-in baseline does not load")?;
    for path in cartridges {
        let path = path.as_ref();
        let bytes = std::fs::read(path)
            .with_context(|| format!("cannot read the cartridge {}", path.display()))?;
        let name = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or("unnamed");
        let cartridge = host
            .load(&bytes, name)
            .with_context(|| format!("the cartridge {} is refused", path.display()))?;
        drivers.mount(Arc::new(cartridge));
    }
    Ok(Mounted {
        host: Arc::new(host),
        drivers: Arc::new(drivers),
    })
}
