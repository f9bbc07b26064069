//! A kernel in this process: booted, served over HTTP, asked, stopped.
//!
//! It runs on a runtime and a thread of its own, so that it can be stopped from
//! anywhere, a panicking test included, and outlives no test.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use halofy::boot::{Mounted, mount};
use halofy::http::{Listener, public_router, serve};
use halofy_cartridge::{CodeCache, Compiler, Overrides};
use halofy_gate::embed::Embedder;
use halofy_gate::{Conformance, Gate, GateConfig, Model, Sidecar};
use halofy_store::testing::RawRows;
use halofy_store::{Store, StoreConfig, StoreError, VectorSpace};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{OnceCell, oneshot};

use crate::caller::client;
use crate::{Caller, Data, ScriptedEmbedder};

/// Few, because many kernels share one server.
const CONNECTIONS: u32 = 6;
/// How long a stopping kernel may take to answer what it took.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running kernel. Dropping it stops it.
pub struct Kernel {
    /// `http://127.0.0.1:` and its port.
    pub base: String,
    data: Arc<Data>,
    client: reqwest::Client,
    handle: Handle,
    gate: Weak<Gate>,
    store: Weak<Store>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A kernel to be started.
pub struct Setup {
    data: Option<Arc<Data>>,
    embedder: Arc<dyn Embedder>,
    model: Option<Model>,
    cartridges: Vec<(String, Vec<u8>)>,
    sidecars: Vec<Arc<Sidecar>>,
    conformance: Conformance,
    connections: u32,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            data: None,
            embedder: Arc::new(ScriptedEmbedder::new(256)),
            model: None,
            cartridges: Vec::new(),
            sidecars: Vec::new(),
            conformance: Conformance::Required,
            connections: CONNECTIONS,
        }
    }
}

impl Setup {
    /// On data that exist, in place of fresh ones.
    #[must_use]
    pub fn on(mut self, data: &Arc<Data>) -> Self {
        self.data = Some(data.clone());
        self
    }

    /// With this embedder, in place of hashing into 256 numbers.
    #[must_use]
    pub fn embedder(mut self, embedder: impl Embedder + 'static) -> Self {
        self.embedder = Arc::new(embedder);
        self
    }

    /// With a language model.
    #[must_use]
    pub fn model(mut self, model: Model) -> Self {
        self.model = Some(model);
        self
    }

    /// With a cartridge beside the baseline.
    #[must_use]
    pub fn cartridge(mut self, name: &str, component: Vec<u8>) -> Self {
        self.cartridges.push((name.to_owned(), component));
        self
    }

    /// With an engine out of process.
    #[must_use]
    pub fn sidecar(mut self, sidecar: Sidecar) -> Self {
        self.sidecars.push(Arc::new(sidecar));
        self
    }

    /// Mounting what fails conformance too.
    #[must_use]
    pub fn lenient(mut self) -> Self {
        self.conformance = Conformance::Advisory;
        self
    }

    /// With at most so many connections to a server.
    #[must_use]
    pub fn connections(mut self, connections: u32) -> Self {
        self.connections = connections;
        self
    }

    /// Boots it.
    ///
    /// # Panics
    /// When it does not boot.
    pub async fn start(self) -> Kernel {
        let started = self.try_start().await;
        started.unwrap_or_else(|error| panic!("the kernel does not boot: {error}"))
    }

    /// Boots it, or says why the store refuses.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn try_start(mut self) -> Result<Kernel, StoreError> {
        let data = match self.data.take() {
            Some(data) => data,
            None => Data::fresh().await,
        };
        let (stop, stopped) = oneshot::channel();
        let (started, starting) = oneshot::channel();
        let place = data.clone();
        let thread = std::thread::spawn(move || run(self, &place, started, stopped));
        let running = starting.await.expect("the kernel's thread lives")?;
        Ok(Kernel {
            base: running.base,
            data,
            client: client(),
            handle: running.handle,
            gate: running.gate,
            store: running.store,
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

struct Running {
    base: String,
    handle: Handle,
    gate: Weak<Gate>,
    store: Weak<Store>,
}

type Started = oneshot::Sender<Result<Running, StoreError>>;

fn run(setup: Setup, data: &Data, started: Started, stopped: oneshot::Receiver<()>) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let mounted = mounted(&setup.cartridges).await;
        let store = match open(&setup, data).await {
            Ok(store) => Arc::new(store),
            // The test may have given up.
            Err(error) => return drop(started.send(Err(error))),
        };
        let listener = Listener::tcp("127.0.0.1:0").await.expect("a free port");
        let base = format!("http://{}", listener.address().expect("an address"));
        let weak_store = Arc::downgrade(&store);
        let gate = Gate::open(GateConfig {
            store,
            embedder: setup.embedder,
            model: setup.model,
            host: mounted.host,
            baseline: mounted.baseline,
            cartridges: mounted.cartridges,
            sidecars: setup.sidecars,
            compiler: mounted.compiler,
            conformance: setup.conformance,
        });
        let (gate_is, handle) = (Arc::downgrade(&gate), Handle::current());
        let running = Running {
            base,
            handle,
            gate: gate_is,
            store: weak_store,
        };
        gate.warm().await.expect("the registry is read");
        drop(started.send(Ok(running)));
        attend(listener, gate, stopped).await;
    });
}

async fn open(setup: &Setup, data: &Data) -> Result<Store, StoreError> {
    let mut config = StoreConfig::new(data.location());
    config.max_connections = setup.connections;
    let space = VectorSpace {
        embedder: setup.embedder.identity().to_owned(),
        dimension: setup.embedder.dimension(),
    };
    Store::open(config, space).await
}

/// Serves until told to stop, or until nobody is left to tell.
async fn attend(listener: Listener, gate: Arc<Gate>, stopped: oneshot::Receiver<()>) {
    let (stop, stopping) = oneshot::channel::<()>();
    let until = async move { drop(stopping.await) };
    let serving = tokio::spawn(serve(listener, public_router(gate.clone(), None), until));
    drop(stopped.await);
    drop(stop);
    let served = tokio::time::timeout(PATIENCE, serving).await;
    served
        .expect("every connection ends when the kernel stops")
        .expect("serving does not panic")
        .expect("serving does not fail");
    gate.close().await;
}

/// The engine and the baseline, compiled once for the whole process, and what this
/// kernel has beside it.
async fn mounted(cartridges: &[(String, Vec<u8>)]) -> Mounted {
    static SHARED: OnceCell<Mounted> = OnceCell::const_new();
    let shared = SHARED.get_or_init(async || {
        // A machine that is busy with tests may not look at a call for a while.
        let patient = Overrides {
            total_time_ms: Some(8_000),
            import_time_ms: Some(2_000),
            ..Overrides::default()
        };
        let mounted = mount(&[] as &[&str], &patient, compiler()).await;
        mounted.expect("the baseline loads")
    });
    let mut mounted = shared.await.clone();
    for (name, component) in cartridges {
        let loaded = mounted
            .host
            .load_untrusted(component, name, &mounted.compiler);
        let cartridge = loaded.await.expect("the cartridge is admitted");
        mounted.cartridges.push(Arc::new(cartridge));
    }
    mounted
}

/// Compiles cartridges: the test's own program cannot, the command beside it can. What was
/// compiled is kept there too, for every kernel of every test.
///
/// # Panics
/// When there is no place for that.
pub fn compiler() -> Compiler {
    let this = std::env::current_exe().expect("a program");
    let beside = this.parent().and_then(std::path::Path::parent);
    let beside = beside.expect("a target directory");
    let cache = CodeCache::open(beside.join("test-code-cache")).expect("a cache");
    Compiler::new(beside.join("halofy-under-test"), ["compile-cartridge"])
        .with_cache(cache)
        // An interpreter takes minutes on a machine that is busy with tests.
        .with_time(Duration::from_secs(900))
}

impl Kernel {
    /// Boots one on fresh data.
    pub async fn start() -> Self {
        Self::with().start().await
    }

    /// Begins to describe one.
    pub fn with() -> Setup {
        Setup::default()
    }

    /// Where its data are.
    pub fn data(&self) -> &Arc<Data> {
        &self.data
    }

    /// Stops it as a signal does and gives its data, for another one.
    ///
    /// # Panics
    /// When it does not stop.
    pub async fn stop(mut self) -> Arc<Data> {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            joined.expect("joining").expect("the kernel stops cleanly");
        }
        self.data.clone()
    }

    /// A client with any text as its key.
    pub fn caller(&self, key: &str, key_id: &str) -> Caller {
        let client = self.client.clone();
        Caller::new(client, self.base.clone(), key.to_owned(), key_id.to_owned())
    }

    /// Runs SQL on the kernel's own connection; each value comes as text.
    ///
    /// # Panics
    /// When the database refuses.
    pub async fn sql(&self, sql: impl Into<String>) -> RawRows {
        let sql = sql.into();
        let done = self.try_sql(sql.clone()).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// All values that are not null, row by row.
    ///
    /// # Panics
    /// When the database refuses.
    pub async fn sql_values(&self, sql: impl Into<String>) -> Vec<String> {
        let rows = self.sql(sql).await;
        rows.into_iter().flatten().flatten().collect()
    }

    /// As [`Kernel::sql`], where the database may refuse.
    ///
    /// # Errors
    /// As the database says.
    pub async fn try_sql(&self, sql: impl Into<String>) -> Result<RawRows, StoreError> {
        let sql = sql.into();
        self.on_store(async move |store| store.raw_sql(&sql).await)
            .await
    }

    /// The one value of the one row.
    ///
    /// # Panics
    /// When the answer is something else.
    pub async fn sql_value(&self, sql: impl Into<String>) -> String {
        let mut rows = self.sql(sql).await;
        let mut row = rows.pop().expect("one row");
        assert!(
            rows.is_empty() && row.len() == 1,
            "more than one value: {row:?}, {rows:?}"
        );
        row.pop().flatten().expect("a value that is not null")
    }

    /// Takes the database away for good: nothing gets a connection any more.
    pub async fn cut_off(&self) {
        self.on_store(async |store| store.raw_cut_off().await).await;
    }

    /// Works with the gate, on the kernel's own runtime.
    ///
    /// # Panics
    /// When the work does.
    pub async fn on_gate<F, Fut>(&self, work: F) -> Fut::Output
    where
        F: FnOnce(Arc<Gate>) -> Fut,
        Fut: Future<Output: Send + 'static> + Send + 'static,
    {
        let gate = self.gate.upgrade().expect("a kernel that runs");
        self.handle
            .spawn(work(gate))
            .await
            .expect("the work does not panic")
    }

    /// Works with the store, on the kernel's own runtime.
    ///
    /// # Panics
    /// When the work does.
    pub async fn on_store<F, Fut>(&self, work: F) -> Fut::Output
    where
        F: FnOnce(Arc<Store>) -> Fut,
        Fut: Future<Output: Send + 'static> + Send + 'static,
    {
        let store = self.store.upgrade().expect("a kernel that runs");
        self.handle
            .spawn(work(store))
            .await
            .expect("the work does not panic")
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        drop(self.stop.take());
        let Some(thread) = self.thread.take() else {
            return;
        };
        let joined = thread.join();
        if !std::thread::panicking() {
            joined.expect("the kernel stops cleanly");
        }
    }
}
