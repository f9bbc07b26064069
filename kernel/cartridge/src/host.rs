//! The engine that runs cartridges: its settings, its one ticker, its places, and
//! loading. One host serves a whole kernel.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::Semaphore;
use tracing::warn;
use wasmtime::component::{Component, ComponentExportIndex, Linker};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::admission::{self, Inspection, RETRIEVER, TYPES, check_size};
use crate::cache::CodeCache;
use crate::call_limits::CallLimits;
use crate::cartridge::{Cartridge, Digest};
use crate::compiler::Compiler;
use crate::error::{EngineError, LoadError};
use crate::imports;
use crate::limits::{CodeSettings, Limits};
use crate::manifest::is_driver_name;
use crate::signing::{SignatureFile, Trust, Verdict};
use crate::state::CallState;
use crate::ticker::Ticker;

/// How much larger the pool is than the number of calls, so that an instance
/// being torn down never makes the next one fail.
const SPARE_PLACES: u32 = 4;
/// Memory that a slot keeps resident, cleared by hand, because returning pages to
/// the system costs more than clearing a few of them.
const KEEP_RESIDENT: usize = 768 << 10;

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
    /// sandbox: what nobody vouches for goes through
    /// [`CartridgeHost::load_untrusted`].
    ///
    /// # Errors
    /// [`LoadError`], before anything is compiled except for
    /// [`LoadError::Compile`].
    pub fn load(&self, bytes: &[u8], name: &str) -> Result<Cartridge, LoadError> {
        let inspection = admission::admit(bytes, self.limits.component)?;
        let name = driver_name(&inspection, name)?;
        let component = self.compile(bytes)?;
        self.mount(inspection, name, &component)
    }

    /// Admits a component, and compiles it in a process of its own under `compiler`'s
    /// limits, or takes its code from the cache. `name` is used when the component has
    /// no manifest.
    ///
    /// Needs a tokio runtime with timers and I/O; blocks no thread of it that answers
    /// requests. Dropping the future kills the process.
    ///
    /// # Errors
    /// [`LoadError`]; all but `Compile`, `CompileLimit` and `Compiler` before anything
    /// is compiled.
    pub async fn load_untrusted(
        &self,
        bytes: &[u8],
        name: &str,
        compiler: &Compiler,
    ) -> Result<Cartridge, LoadError> {
        let allow = Trust {
            keys: &[],
            allow_unsigned: true,
            limit: self.limits.component,
        };
        let loaded = self.load_signed(bytes, name, None, &allow, compiler);
        loaded.await.map(|(cartridge, _)| cartridge)
    }

    /// As [`CartridgeHost::load_untrusted`], for a component that `trust` lets in:
    /// asked before anything is parsed, and again about the manifest that was found.
    ///
    /// # Errors
    /// [`LoadError::Signature`] and those of [`CartridgeHost::load_untrusted`].
    pub async fn load_signed(
        &self,
        bytes: &[u8],
        name: &str,
        signature: Option<&SignatureFile>,
        trust: &Trust<'_>,
        compiler: &Compiler,
    ) -> Result<(Cartridge, Verdict), LoadError> {
        // Copied only when it is known to be small enough.
        check_size(bytes, self.limits.component)?;
        let bytes: Arc<[u8]> = Arc::from(bytes);
        let (signature, keys, trust) = (signature.cloned(), trust.keys.to_vec(), *trust);
        let (theirs, limit) = (Arc::clone(&bytes), self.limits.component);
        let (allow_unsigned, most) = (trust.allow_unsigned, trust.limit);
        let (verdict, inspection) = aside(move || {
            let trust = Trust {
                keys: &keys,
                allow_unsigned,
                limit: most,
            };
            let verdict = trust.check(&theirs, signature.as_ref())?;
            let inspection = admission::admit(&theirs, limit)?;
            verdict.check_manifest(inspection.manifest.as_ref())?;
            Ok((verdict, inspection))
        })
        .await?;
        let name = driver_name(&inspection, name)?;
        let component = self
            .compile_aside(&bytes, inspection.digest, compiler)
            .await?;
        Ok((self.mount(inspection, name, &component)?, verdict))
    }

    /// The limits of the sandbox, and the defaults of every call.
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

    fn mount(
        &self,
        inspection: Inspection,
        name: String,
        component: &Component,
    ) -> Result<Cartridge, LoadError> {
        let (plan, capabilities) = (index(component, "plan")?, index(component, "capabilities")?);
        let code = self.linker.instantiate_pre(component);
        let asked = inspection.manifest.as_ref().and_then(|m| m.limits.as_ref());
        let limits = CallLimits::default_of(&self.limits).lowered_by(asked);
        let limits = Arc::new(limits);
        Ok(Cartridge {
            name: name.into(),
            digest: inspection.digest,
            size: inspection.size,
            code: code.map_err(|e| LoadError::Compile(format!("{e:#}")))?,
            manifest: inspection.manifest.map(Arc::new),
            plan,
            capabilities,
            own_limits: Arc::clone(&limits),
            ceiling: Arc::new(self.limits.maxima()),
            limits,
        })
    }

    /// Code from the cache, or from a child process and then into the cache.
    async fn compile_aside(
        &self,
        bytes: &[u8],
        digest: Digest,
        compiler: &Compiler,
    ) -> Result<Component, LoadError> {
        let entry = CodeCache::entry(digest, &self.engine, self.limits.code_settings());
        if let Some(cache) = compiler.cache() {
            let (cache, engine) = (Arc::clone(cache), self.engine.clone());
            let cached = aside(move || Ok(cache.get(entry).map(|code| code.load(&engine))));
            match cached.await? {
                Some(Ok(component)) => return Ok(component),
                Some(Err(error)) => warn!(%digest, %error, "cached code is not loaded"),
                None => {}
            }
        }
        let artefact = compiler.compile(bytes, self.limits.code_settings()).await?;
        let (cache, engine) = (compiler.cache().cloned(), self.engine.clone());
        aside(move || {
            let component = artefact.load(&engine)?;
            if let Some(cache) = cache {
                cache.put(entry, &artefact);
            }
            Ok(component)
        })
        .await
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

/// Runs what computes for long on a thread that answers no requests.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, LoadError> + Send + 'static,
) -> Result<T, LoadError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(LoadError::Compiler("loading panicked".to_owned())))
}

fn driver_name(inspection: &Inspection, given: &str) -> Result<String, LoadError> {
    let manifest = inspection.manifest.as_ref();
    let name = manifest.map_or(given, |manifest| &manifest.name);
    if !is_driver_name(name) {
        return Err(LoadError::Manifest(format!("bad name {name:?}")));
    }
    Ok(name.to_owned())
}

fn index(component: &Component, function: &str) -> Result<ComponentExportIndex, LoadError> {
    let interface = component.get_export_index(None, RETRIEVER);
    interface
        .and_then(|interface| component.get_export_index(Some(&interface), function))
        .ok_or(LoadError::NoRetriever)
}

fn config(limits: &Limits) -> Config {
    let mut config = code_config(limits.code_settings());
    config
        .async_stack_size(limits.wasm_stack + limits.host_stack)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(limits)));
    config
}

/// What machine code depends on: the same in the engine that runs it and in the one
/// that compiles it in another process.
pub(crate) fn code_config(settings: CodeSettings) -> Config {
    let CodeSettings {
        wasm_stack,
        count_fuel,
    } = settings;
    let mut config = Config::new();
    config
        .concurrency_support(false)
        .epoch_interruption(true)
        .consume_fuel(count_fuel)
        .max_wasm_stack(wasm_stack)
        .async_stack_size(wasm_stack + (64 << 10))
        .memory_init_cow(true)
        // The same component over the same view gives the same bits everywhere.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true);
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
        .max_memory_size(limits.maxima().memory)
        .table_elements(limits.table_elements)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(KEEP_RESIDENT / 48)
        .pagemap_scan(Enabled::Auto);
    pool
}
