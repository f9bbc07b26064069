//! A kernel in this process: booted, served over HTTP, asked, stopped.
//!
//! It runs on a runtime and a thread of its own, so that it can be stopped from
//! anywhere, a panicking test included, and outlives no test.

use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use halofy::boot::{BASELINE, Mounted, mount};
use halofy::http::{Listener, public_router, serve};
use halofy_audit::{Record, Report};
use halofy_cartridge::Drivers;
use halofy_core::{Namespace, Role};
use halofy_gate::embed::Embedder;
use halofy_gate::{AuditTail, Gate, GateConfig, NewKeyRequest, Refusal};
use halofy_store::testing::RawRows;
use halofy_store::{Store, StoreConfig, StoreError, VectorSpace};
use serde_json::Value;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

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
    cartridges: Vec<(String, Vec<u8>)>,
    connections: u32,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            data: None,
            embedder: Arc::new(ScriptedEmbedder::new(256)),
            cartridges: Vec::new(),
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

    /// With a cartridge beside the baseline.
    #[must_use]
    pub fn cartridge(mut self, name: &str, component: Vec<u8>) -> Self {
        self.cartridges.push((name.to_owned(), component));
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
    let mounted = mounted(&setup.cartridges);
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
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
            host: mounted.host,
            drivers: mounted.drivers,
        });
        let (gate_is, handle) = (Arc::downgrade(&gate), Handle::current());
        let running = Running {
            base,
            handle,
            gate: gate_is,
            store: weak_store,
        };
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
    let store = Store::open(config, space).await?;
    store.warm().await?;
    Ok(store)
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

/// The engine and the baseline, compiled once for the whole process; a kernel with
/// cartridges of its own gets a registry of its own.
fn mounted(cartridges: &[(String, Vec<u8>)]) -> Mounted {
    static SHARED: OnceLock<Mounted> = OnceLock::new();
    let shared = SHARED.get_or_init(|| mount(&[] as &[&str]).expect("the baseline loads"));
    if cartridges.is_empty() {
        return shared.clone();
    }
    let host = shared.host.clone();
    let drivers = Drivers::new(&host, BASELINE).expect("the baseline loads");
    for (name, component) in cartridges {
        let cartridge = host
            .load(component, name)
            .expect("the cartridge is admitted");
        drivers.mount(Arc::new(cartridge));
    }
    let drivers = Arc::new(drivers);
    Mounted { host, drivers }
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

    /// Makes a key and gives a client that has it.
    ///
    /// # Panics
    /// When the key is refused.
    pub async fn key(&self, namespace: &str, actor: &str, role: Role) -> Caller {
        let request = NewKeyRequest {
            namespace: namespace.parse().expect("a namespace"),
            actor: actor.parse().expect("an actor"),
            role,
            expires_at: None,
        };
        let made = self
            .on_gate(async move |gate| gate.key_create(&request).await)
            .await;
        let (key, record) = made.expect("a key");
        self.caller(key.reveal(), &record.id)
    }

    /// A client with any text as its key.
    pub fn caller(&self, key: &str, key_id: &str) -> Caller {
        let client = self.client.clone();
        Caller::new(client, self.base.clone(), key.to_owned(), key_id.to_owned())
    }

    /// Sets a namespace's policy, also one that names drivers which are not mounted.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn policy(&self, namespace: &str, policy: Value) {
        let namespace: Namespace = namespace.parse().expect("a namespace");
        let policy = serde_json::from_value(policy).expect("a policy");
        let set = async move |gate: Arc<Gate>| gate.policy_set(&namespace, &policy, true).await;
        self.on_gate(set).await.expect("the policy is taken");
    }

    /// The whole audit log, oldest row first (at most 10,000 rows).
    ///
    /// # Panics
    /// When it cannot be read.
    pub async fn audit(&self) -> Vec<Record> {
        let tail = AuditTail {
            limit: 10_000,
            under: None,
        };
        let rows = self
            .on_gate(async move |gate| gate.audit_tail(&tail).await)
            .await;
        rows.expect("the audit log")
    }

    /// The last row of the audit log.
    ///
    /// # Panics
    /// When there is none.
    pub async fn last_audit(&self) -> Record {
        self.audit().await.pop().expect("a row")
    }

    /// Chains and verifies the audit log.
    ///
    /// # Panics
    /// When it cannot be read.
    pub async fn verify(&self) -> Report {
        let report = self.on_gate(async |gate| gate.audit_verify().await).await;
        report.expect("a report").report
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

    /// A namespace's policy as an operator sees it.
    ///
    /// # Errors
    /// As the gate's.
    pub async fn policy_of(&self, namespace: &str) -> Result<halofy_gate::PolicyView, Refusal> {
        let namespace: Namespace = namespace.parse().expect("a namespace");
        self.on_gate(async move |gate| gate.policy_get(&namespace).await)
            .await
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
