//! The engine that runs cartridges: its settings, its one ticker, its places, and
//! loading. One host serves a whole kernel.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::Semaphore;
use wasmtime::component::{Component, ComponentExportIndex, Linker};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::admission::{self, RETRIEVER, TYPES};
use crate::cartridge::{Cartridge, Digest};
use crate::error::{EngineError, LoadError};
use crate::imports;
use crate::limits::Limits;
use crate::manifest::is_driver_name;
use crate::state::CallState;
use crate::ticker::Ticker;

/// How much larger the pool is than the number of calls, so that an instance
/// being torn down never makes the next one fail.
const SPARE_PLACES: u32 = 4;
/// Memory that a slot keeps resident, cleared by hand, because returning pages to
/// the system costs more than clearing a few of them.
const KEEP_RESIDENT: usize = 128 << 10;

/// Loads and runs cartridges. Dropping it stops its ticker.
pub struct CartridgeHost {
    pub(crate) engine: Engine,
    pub(crate) limits: Arc<Limits>,
    /// Invariant: fewer permits than the engine's pool has places.
    pub(crate) places: Arc<Semaphore>,
    pub(crate) lanes: Arc<Semaphore>,
    linker: Linker<CallState>,
    ticker: Ticker,
}

impl CartridgeHost {
    /// Makes the engine and starts its ticker.
    ///
    /// # Errors
    /// [`EngineError`] when the limits do not fit together, or the system refuses
    /// the address space or the thread.
    pub fn new(limits: Limits) -> Result<Self, EngineError> {
        let engine = Engine::new(&config(&limits)).map_err(EngineError::of)?;
        let mut linker = Linker::new(&engine);
        linker.instance(TYPES).map_err(EngineError::of)?;
        imports::define(&mut linker).map_err(EngineError::of)?;
        let ticker = Ticker::start(&engine, limits.tick).map_err(EngineError::of)?;
        Ok(Self {
            engine,
            places: Arc::new(Semaphore::new(limits.calls)),
            lanes: Arc::new(Semaphore::new(limits.long_calls.max(1))),
            limits: Arc::new(limits),
            linker,
            ticker,
        })
    }

    /// Admits and compiles a component. `name` is used when the component has no
    /// manifest.
    ///
    /// Blocks for as long as compilation takes, which can be seconds: never call
    /// it on a thread that answers requests. Compilation is not bounded by the
    /// sandbox; bytes that are not trusted belong in a process that can be killed.
    ///
    /// # Errors
    /// [`LoadError`], before anything is compiled except for
    /// [`LoadError::Compile`].
    pub fn load(&self, bytes: &[u8], name: &str) -> Result<Cartridge, LoadError> {
        let manifest = admission::admit(bytes, self.limits.component)?;
        let name = manifest.as_ref().map_or(name, |manifest| &manifest.name);
        if !is_driver_name(name) {
            return Err(LoadError::Manifest(format!("bad name {name:?}")));
        }
        let component = self.compile(bytes)?;
        let (plan, capabilities) = (
            index(&component, "plan")?,
            index(&component, "capabilities")?,
        );
        let code = self.linker.instantiate_pre(&component);
        Ok(Cartridge {
            name: name.to_owned(),
            digest: Digest::of(bytes),
            size: bytes.len(),
            code: code.map_err(|e| LoadError::Compile(format!("{e:#}")))?,
            manifest,
            plan,
            capabilities,
        })
    }

    /// The limits of every call.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Ticks since the start. When it stands still no deadline is enforced, and
    /// the kernel is not healthy.
    pub fn heartbeat(&self) -> u64 {
        self.ticker.beats()
    }

    /// Calls that could start now.
    pub fn free_places(&self) -> usize {
        self.places.available_permits()
    }

    fn compile(&self, bytes: &[u8]) -> Result<Component, LoadError> {
        // A bug of the compiler is one cartridge's problem, not the kernel's.
        let compiled = catch_unwind(AssertUnwindSafe(|| {
            Component::from_binary(&self.engine, bytes)
        }));
        match compiled {
            Ok(component) => component.map_err(|e| LoadError::Compile(format!("{e:#}"))),
            Err(_) => Err(LoadError::Compile("the compiler panicked".to_owned())),
        }
    }
}

impl std::fmt::Debug for CartridgeHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CartridgeHost")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

fn index(component: &Component, function: &str) -> Result<ComponentExportIndex, LoadError> {
    let interface = component.get_export_index(None, RETRIEVER);
    interface
        .and_then(|interface| component.get_export_index(Some(&interface), function))
        .ok_or(LoadError::NoRetriever)
}

fn config(limits: &Limits) -> Config {
    let mut config = Config::new();
    config
        .concurrency_support(false)
        .epoch_interruption(true)
        .max_wasm_stack(limits.wasm_stack)
        .async_stack_size(limits.wasm_stack + limits.host_stack)
        .memory_init_cow(true)
        // The same component over the same view gives the same bits everywhere.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits)));
    config
}

fn pool(limits: &Limits) -> PoolingAllocationConfig {
    let calls = u32::try_from(limits.calls).unwrap_or(u32::MAX);
    let places = calls.saturating_add(SPARE_PLACES);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(places)
        .total_stacks(places)
        .total_core_instances(places.saturating_mul(limits.core_instances))
        .total_memories(places.saturating_mul(limits.memories))
        .total_tables(places.saturating_mul(limits.tables))
        .max_core_instances_per_component(limits.core_instances)
        .max_memories_per_component(limits.memories)
        .max_memories_per_module(limits.memories)
        .max_tables_per_component(limits.tables)
        .max_tables_per_module(limits.tables)
        .max_memory_size(limits.memory)
        .table_elements(limits.table_elements)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(KEEP_RESIDENT / 8)
        .pagemap_scan(Enabled::Auto);
    pool
}
