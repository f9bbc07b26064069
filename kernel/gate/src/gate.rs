//! The gate itself: one entry for every syscall, and exactly one audit row for
//! each, durable before the answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use halofy_cartridge::{CartridgeHost, Drivers};
use halofy_core::{AgentKind, Op};
use halofy_store::Store;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::appender::Appender;
use crate::audit::{Ending, Trail};
use crate::claims::Claim;
use crate::embed::Embedder;
use crate::limiter::Limiter;
use crate::prologue::Authorized;
use crate::sequencer::{self, Wake};
use crate::{CallId, Refusal, metrics};

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
    /// Runs cartridges.
    pub host: Arc<CartridgeHost>,
    /// The cartridges that are mounted.
    pub drivers: Arc<Drivers>,
}

/// The one door. Share it behind an [`Arc`]; end it with [`Gate::close`].
pub struct Gate {
    pub(crate) store: Arc<Store>,
    pub(crate) embedder: Arc<dyn Embedder>,
    pub(crate) host: Arc<CartridgeHost>,
    pub(crate) drivers: Arc<Drivers>,
    pub(crate) limiter: Limiter,
    pub(crate) wake: Wake,
    appender: Appender,
    appending: JoinHandle<()>,
    sequencing: JoinHandle<()>,
    stop_sequencing: CancellationToken,
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
    /// Opens the gate and starts its two tasks, the appender and the sequencer.
    pub fn open(config: GateConfig) -> Arc<Self> {
        let wake = Wake::default();
        let (appender, appending) = Appender::start(config.store.clone(), wake.clone());
        let stop_sequencing = CancellationToken::new();
        let sequencing =
            sequencer::start(config.store.clone(), wake.clone(), stop_sequencing.clone());
        Arc::new(Self {
            store: config.store,
            embedder: config.embedder,
            host: config.host,
            drivers: config.drivers,
            limiter: Limiter::default(),
            wake,
            appender,
            appending,
            sequencing,
            stop_sequencing,
            running: TaskTracker::new(),
        })
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
        Ok(self.store.warm().await?)
    }

    /// Whether the kernel can serve: the store answers.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`].
    pub async fn ready(&self) -> Result<(), Refusal> {
        Ok(self.store.ping().await?)
    }

    /// Waits for the calls that run, chains what they logged, and closes the
    /// store. No call may be made afterwards.
    pub async fn close(self: Arc<Self>) {
        self.running.close();
        self.running.wait().await;
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
            sequencing,
            stop_sequencing,
            drivers,
            host,
            ..
        } = self;
        drop((appender, drivers, host));
        stop_sequencing.cancel();
        for task in [appending, sequencing] {
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
        self.dispatch(call.op, &authorized, bytes, trail).await
    }

    async fn dispatch(
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
        }
    }
}

fn log_refusal(call: &Call, refusal: &Refusal) {
    metrics::refused(refusal.code());
    if let Refusal::Unavailable { why, .. } | Refusal::Internal { why } = refusal {
        tracing::error!(call = %call.id, op = %call.op, code = refusal.code(), why, "a call failed");
    }
}
