//! The gate itself: one entry for every syscall, and exactly one audit row for
//! each, durable before the answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use halofy_audit::Sealed;
use halofy_cartridge::{Cartridge, CartridgeHost, Compiler};
use halofy_core::{AgentKind, DriverName, Invalid, Op};
use halofy_store::Store;
use serde_json::Value;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::appender::Appender;
use crate::audit::{Ending, Trail};
use crate::claims::Claim;
use crate::drivers::{
    self, Conformance, Driver, Engine, Faults, MissingDriver, Mounts, Origin, Registry,
};
use crate::embed::Embedder;
use crate::jobs::Jobs;
use crate::limiter::Limiter;
use crate::model::Model;
use crate::prologue::Authorized;
use crate::sequencer::{self, Wake};
use crate::shadow::Shadows;
use crate::write::Group;
use crate::{CallId, IdempotencyKey, Refusal, Sidecar, metrics, write};

/// A syscall as a transport received it.
#[derive(Debug)]
pub struct Call {
    /// Names the call; made by the transport, never taken from the request.
    pub id: CallId,
    /// Which syscall the route stands for.
    pub op: Op,
    /// Through which door it came.
    pub agent: AgentKind,
    /// The bearer key, if one was shown.
    pub key: Option<String>,
    /// The name that the caller gives this call, or what is wrong with it.
    pub idempotency: Option<Result<IdempotencyKey, Invalid>>,
    /// A place outside the body where the request names an identity.
    pub claim: Option<Claim>,
    /// The body.
    pub body: Body,
}

/// The body of a call, as far as the transport could take it.
#[derive(Debug)]
pub enum Body {
    /// All of it.
    Bytes(Vec<u8>),
    /// More than the transport takes; dropped.
    TooLarge {
        /// Bytes that it would have taken.
        limit: usize,
    },
    /// Less than was announced: it broke off, or came too slowly.
    Incomplete,
}

/// The JSON answer of a syscall. Its audit row is durable.
#[derive(Debug)]
pub struct Answer(pub Value);

/// What the gate stands on.
pub struct GateConfig {
    /// The authority.
    pub store: Arc<Store>,
    /// Makes vectors in the store's space.
    pub embedder: Arc<dyn Embedder>,
    /// Draws facts from texts, if there is one.
    pub model: Option<Model>,
    /// Runs cartridges.
    pub host: Arc<CartridgeHost>,
    /// The driver that everything falls back to.
    pub baseline: Arc<Cartridge>,
    /// Cartridges that stand in the configuration.
    pub cartridges: Vec<Arc<Cartridge>>,
    /// Engines out of process.
    pub sidecars: Vec<Arc<Sidecar>>,
    /// Compiles what comes from the database.
    pub compiler: Compiler,
    /// Whether a cartridge that fails conformance is mounted.
    pub conformance: Conformance,
}

/// The one door. Share it behind an [`Arc`]; end it with [`Gate::close`].
pub struct Gate {
    pub(crate) store: Arc<Store>,
    pub(crate) embedder: Arc<dyn Embedder>,
    pub(crate) model: Option<Model>,
    pub(crate) host: Arc<CartridgeHost>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) mounts: Arc<Mounts>,
    pub(crate) conformance: Conformance,
    pub(crate) shadows: Shadows,
    pub(crate) limiter: Limiter,
    pub(crate) wake: Wake,
    pub(crate) jobs: Jobs,
    pub(crate) group: Group,
    grouping: JoinSet<()>,
    appender: Appender,
    appending: JoinHandle<()>,
    sequencing: JoinHandle<()>,
    following: JoinHandle<()>,
    /// Ends the sequencer and the follower of the registry.
    stop: CancellationToken,
    running: TaskTracker,
}

/// What a syscall's body gives back.
pub(crate) struct Done {
    pub(crate) answer: Value,
    pub(crate) recorded: Recorded,
}

/// Whether the audit row is in the log already.
pub(crate) enum Recorded {
    /// In the transaction of the work itself.
    WithWork,
    /// Not yet.
    Pending(Ending),
}

impl Gate {
    /// Opens the gate and starts its tasks: the appender, the sequencer, the one that
    /// follows the driver registry, and the worker for jobs.
    pub fn open(config: GateConfig) -> Arc<Self> {
        let wake = Wake::default();
        let store = config.store;
        let (appender, appending) = Appender::start(store.clone(), wake.clone());
        let (group, grouping) = Group::start(&store);
        let stop = CancellationToken::new();
        let sequencing = sequencer::start(store.clone(), wake.clone(), stop.clone());
        let registry = registry(config.baseline, config.cartridges, config.sidecars);
        let (host, compiler) = (config.host.clone(), config.compiler);
        let mounts = Mounts::new(store.clone(), host, compiler, registry.clone());
        let following = drivers::start(mounts.clone(), stop.clone());
        let gate = Arc::new(Self {
            store,
            embedder: config.embedder,
            model: config.model,
            host: config.host,
            registry,
            mounts,
            conformance: config.conformance,
            shadows: Shadows::default(),
            limiter: Limiter::default(),
            wake,
            jobs: Jobs::new(),
            group,
            grouping,
            appender,
            appending,
            sequencing,
            following,
            stop,
            running: TaskTracker::new(),
        });
        let (store, wake) = (gate.store.clone(), gate.wake.clone());
        gate.jobs.start(store, wake, write::handlers(&gate));
        gate
    }

    /// Makes one syscall.
    ///
    /// It runs to its end in a task of its own: a caller that goes away cannot
    /// stop it between its effect and its audit row.
    ///
    /// # Errors
    /// See [`Refusal`]. The audit row of a refused call is durable too, unless the
    /// refusal says that the store or the log is unavailable.
    pub async fn call(self: &Arc<Self>, call: Call) -> Result<Answer, Refusal> {
        let gate = self.clone();
        let task = self.running.spawn(async move { gate.run(call).await });
        task.await.unwrap_or_else(|error| {
            let why = error.to_string();
            Err(Refusal::Internal { why })
        })
    }

    /// Opens what calls would otherwise wait for. Once, before serving.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`] when the store gives fewer connections than configured.
    pub async fn warm(&self) -> Result<(), Refusal> {
        self.store.warm().await?;
        Ok(self.mounts.refresh().await?)
    }

    /// Drivers that policies name and that do not serve.
    pub fn drivers_missing(&self) -> Vec<MissingDriver> {
        self.registry.snapshot().missing.clone()
    }

    /// Appends a row that no transaction carries.
    pub(crate) async fn append(&self, row: Sealed) -> Result<(), Refusal> {
        self.appender.append(row).await
    }

    pub(crate) fn appender(&self) -> Appender {
        self.appender.clone()
    }

    /// Runs work beside the calls; closing waits for it.
    pub(crate) fn track(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.running.spawn(work));
    }

    /// Whether the kernel can serve: the store answers.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`].
    pub async fn ready(&self) -> Result<(), Refusal> {
        Ok(self.store.ping().await?)
    }

    /// Waits for the calls and jobs that run, chains what they logged, and closes the
    /// store. No call may be made afterwards.
    pub async fn close(self: Arc<Self>) {
        self.running.close();
        self.running.wait().await;
        // After the calls, since one may keep the lease of a job.
        self.jobs.stop().await;
        // A finished task may still hold its clone for a moment.
        let mut gate = self;
        let gate = loop {
            match Arc::try_unwrap(gate) {
                Ok(gate) => break gate,
                Err(shared) => {
                    gate = shared;
                    tokio::task::yield_now().await;
                }
            }
        };
        gate.finish().await;
    }

    async fn finish(self) {
        let Self {
            store,
            appender,
            appending,
            group,
            grouping,
            sequencing,
            following,
            stop,
            registry,
            mounts,
            host,
            ..
        } = self;
        drop((appender, group, registry, mounts, host));
        grouping.join_all().await;
        stop.cancel();
        for task in [appending, sequencing, following] {
            if let Err(error) = task.await {
                tracing::warn!(%error, "a task of the gate failed");
            }
        }
        if let Err(error) = sequencer::drain(&store).await {
            tracing::warn!(%error, "audit rows wait to be chained at the next start");
        }
        match Arc::try_unwrap(store) {
            Ok(store) => store.close().await,
            Err(_) => tracing::warn!("the store is still in use and was not closed"),
        }
    }

    async fn run(&self, call: Call) -> Result<Answer, Refusal> {
        let started = Instant::now();
        let mut trail = Trail::new(call.id, call.op.as_str(), call.agent);
        let attempt = AssertUnwindSafe(self.attempt(&call, &mut trail)).catch_unwind();
        let outcome = attempt.await.unwrap_or_else(|_| {
            let why = "the call panicked".to_owned();
            Err(Refusal::Internal { why })
        });
        let (answer, recorded) = match outcome {
            Ok(done) => (Ok(Answer(done.answer)), done.recorded),
            Err(refusal) => {
                let ending = Ending {
                    result: refusal.outcome(),
                    detail: refusal.detail(),
                };
                log_refusal(&call, &refusal);
                (Err(refusal), Recorded::Pending(ending))
            }
        };
        let result = match &recorded {
            Recorded::WithWork => halofy_audit::Outcome::Ok,
            Recorded::Pending(ending) => ending.result,
        };
        if let Recorded::Pending(ending) = recorded {
            // No durable audit row, no answer.
            self.appender.append(trail.seal(&ending)).await?;
        } else {
            self.wake.notify();
        }
        // Whoever reads the metrics must not learn which ids exist.
        let counted = match &answer {
            Err(Refusal::NotFound { .. }) => halofy_audit::Outcome::Miss,
            _ => result,
        };
        metrics::syscall(call.op.as_str(), counted, started.elapsed());
        answer
    }

    async fn attempt(&self, call: &Call, trail: &mut Trail) -> Result<Done, Refusal> {
        let authorized = self.authorize(call, trail).await?;
        let bytes = match &call.body {
            Body::Bytes(bytes) => bytes,
            Body::TooLarge { limit } => return Err(Refusal::TooLarge { limit: *limit }),
            Body::Incomplete => return Err(Refusal::Incomplete),
        };
        match self.claim_of(call, &authorized, bytes)? {
            Some(claim) => {
                let authorized = authorized.claiming(claim);
                self.once(call.op, &authorized, bytes, trail).await
            }
            None => self.dispatch(call.op, &authorized, bytes, trail).await,
        }
    }

    pub(crate) async fn dispatch(
        &self,
        op: Op,
        caller: &Authorized,
        bytes: &[u8],
        trail: &mut Trail,
    ) -> Result<Done, Refusal> {
        match op {
            Op::Write => self.write(caller, &crate::body::read(bytes)?, trail).await,
            Op::Search => self.search(caller, &crate::body::read(bytes)?, trail).await,
            Op::Read => self.read(caller, &crate::body::read(bytes)?, trail).await,
            Op::Stats => self.stats(caller, &crate::body::read(bytes)?).await,
            Op::History => {
                self.history(caller, &crate::body::read(bytes)?, trail)
                    .await
            }
            Op::Disputes => self.disputes(caller, &crate::body::read(bytes)?).await,
            Op::Resolve => {
                self.resolve(caller, &crate::body::read(bytes)?, trail)
                    .await
            }
            Op::Forget => self.forget(caller, &crate::body::read(bytes)?, trail).await,
            Op::Ticket => self.ticket(caller, &crate::body::read(bytes)?, trail).await,
        }
    }
}

/// The drivers that need no database. A name that no policy can spell is left out.
fn registry(
    baseline: Arc<Cartridge>,
    cartridges: Vec<Arc<Cartridge>>,
    sidecars: Vec<Arc<Sidecar>>,
) -> Arc<Registry> {
    let digest = Some(baseline.digest());
    let built_in = Driver {
        name: DriverName::default(),
        version: baseline.version().to_owned(),
        digest,
        engine: Engine::Cartridge(baseline),
        origin: Origin::BuiltIn,
        faults: Faults::of_cartridge(),
    };
    let cartridges = cartridges.into_iter();
    let cartridges = cartridges.filter_map(|one| Driver::of(one, Origin::Configured));
    let sidecars = sidecars.into_iter().map(Driver::of_sidecar);
    let configured = cartridges.chain(sidecars).map(Arc::new).collect();
    Arc::new(Registry::new(Arc::new(built_in), configured))
}

fn log_refusal(call: &Call, refusal: &Refusal) {
    metrics::refused(refusal.code());
    if let Refusal::Unavailable { why, .. }
    | Refusal::NoVector { why }
    | Refusal::Internal { why } = refusal
    {
        tracing::error!(call = %call.id, op = %call.op, code = refusal.code(), why, "a call failed");
    }
}
