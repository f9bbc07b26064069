//! The worker: looks for due jobs, runs them, settles what came of each, takes back what
//! workers that went away have left, and deletes what nobody needs any more.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use halofy_core::{JobKind, JobState};
use halofy_store::{Failed, Job, Stale, Store, StoreError, Turn};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::backoff::{MAX_WAITS, backoff, patience};
use super::handler::{Again, Outcome};
use super::lease::{LEASE, keep};
use super::prune::{Pruning, prune};
use super::turns::Turns;
use super::{Ended, Finished, Handlers, JobFailure, Run, finish, give_up};
use crate::metrics;
use crate::sequencer::Wake;

/// What is taken up first: somebody waits for it.
const ORDER: [JobKind; 3] = [JobKind::Write, JobKind::Embed, JobKind::Conflict];
/// How soon it looks again after it found something.
const SOON: Duration = Duration::from_millis(250);
/// How often it looks when there is never anything.
const IDLE: Duration = Duration::from_secs(2);
/// How often leases that ran out are looked for.
const REAP: Duration = Duration::from_secs(2);
/// How often jobs that nobody needs any more are looked for.
const PRUNE: Duration = Duration::from_secs(60);

/// The jobs of one kernel: started with the gate, stopped before it closes.
pub(crate) struct Jobs {
    wake: Arc<Notify>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Jobs {
    pub(crate) fn new() -> Self {
        Self {
            wake: Arc::default(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Begins to work.
    pub(crate) fn start(&self, store: Arc<Store>, chaining: Wake, handlers: Handlers) {
        let worker = Arc::new(Worker {
            store,
            chaining,
            handlers,
            turns: Turns::new(),
            wake: self.wake.clone(),
            stop: self.stop.clone(),
            tasks: self.tasks.clone(),
        });
        drop(self.tasks.spawn(worker.run()));
    }

    /// Says that a job was queued. After the commit.
    pub(crate) fn queued(&self) {
        self.wake.notify_one();
    }

    /// Takes no more jobs, tells those that run, and waits for them.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

struct Worker {
    store: Arc<Store>,
    chaining: Wake,
    handlers: Handlers,
    turns: Turns,
    wake: Arc<Notify>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Worker {
    async fn run(self: Arc<Self>) {
        if self.store.is_embedded() {
            // It has one kernel, and this is it: whatever runs was left by the one before.
            self.reap(Stale::All).await;
        }
        let mut idle = SOON;
        let mut reaped = Instant::now();
        // At once, and then from time to time.
        let mut pruned: Option<Instant> = None;
        while !self.stop.is_cancelled() {
            if reaped.elapsed() >= REAP {
                self.reap(Stale::Expired).await;
                reaped = Instant::now();
            }
            idle = match self.take_up().await {
                0 => (idle * 2).min(IDLE),
                _ => SOON,
            };
            if pruned.is_none_or(|at| at.elapsed() >= PRUNE) {
                pruned = match self.prune().await {
                    Pruning::More => None,
                    Pruning::Last | Pruning::Nothing => Some(Instant::now()),
                };
            }
            // Only waiting is given up half-way, never a statement.
            tokio::select! {
                () = tokio::time::sleep(idle) => {}
                () = self.wake.notified() => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    /// Starts what is due, as far as there are places. Gives how many it started.
    async fn take_up(self: &Arc<Self>) -> usize {
        let mut taken = 0;
        for kind in ORDER {
            if self.handlers.get(kind).is_some() {
                taken += self.take_up_of(kind).await;
            }
        }
        taken
    }

    async fn take_up_of(self: &Arc<Self>, kind: JobKind) -> usize {
        let free = self.turns.free(kind);
        if free == 0 {
            return 0;
        }
        let (after, passing) = (self.turns.served(kind), self.turns.left_alone(kind));
        let turn = Turn {
            after: after.as_ref(),
            passing: &passing,
        };
        let jobs = match self.store.job_claim(kind, turn, LEASE, free).await {
            Ok(jobs) => jobs,
            Err(error) => {
                tracing::warn!(%error, "jobs wait to be taken up");
                return 0;
            }
        };
        if let Some(last) = jobs.last() {
            self.turns.serve(kind, last.namespace.clone());
        }
        let taken = jobs.len();
        for job in jobs {
            let place = self.turns.take(kind);
            let worker = self.clone();
            drop(self.tasks.spawn(async move {
                worker.attempt(job).await;
                drop(place);
                worker.wake.notify_one();
            }));
        }
        taken
    }

    async fn attempt(self: &Arc<Self>, job: Job) {
        let started = Instant::now();
        let (over, give_up) = (CancellationToken::new(), self.stop.child_token());
        let beats = keep(
            self.store.clone(),
            job.lease.clone(),
            over.clone(),
            give_up.clone(),
        );
        let (outcome, ()) = tokio::join!(
            async {
                let outcome = self.handle(&job, give_up).await;
                over.cancel();
                outcome
            },
            beats
        );
        let result = match self.settle(&job, outcome).await {
            Ok(result) => result,
            Err(StoreError::LeaseLost) => "lost",
            Err(error) => {
                // Its lease runs out, and it is tried again.
                tracing::warn!(job = %job.id(), %error, "a job's end is not stored");
                "unsettled"
            }
        };
        metrics::job(job.kind, result, started.elapsed());
    }

    /// Runs the handler. Its panic is a failure of the job, not of the worker.
    async fn handle(&self, job: &Job, give_up: CancellationToken) -> Outcome {
        let run = Run {
            job: job.clone(),
            give_up,
        };
        let handler = self.handlers.get(job.kind);
        let work = async move {
            match handler {
                Some(handler) => handler(run).await,
                None => Err(JobFailure {
                    again: Again::Soon,
                    reason: "no_handler",
                    why: "nothing here runs such jobs".to_owned(),
                }),
            }
        };
        let outcome = AssertUnwindSafe(work).catch_unwind().await;
        outcome.unwrap_or_else(|_| {
            tracing::error!(job = %job.id(), kind = %job.kind, "a job's handler panicked");
            Err(JobFailure {
                again: Again::Soon,
                reason: "panicked",
                why: "the kernel failed".to_owned(),
            })
        })
    }

    /// Stores what came of a try. Gives a word for the metrics.
    async fn settle(&self, job: &Job, outcome: Outcome) -> Result<&'static str, StoreError> {
        let failure = match outcome {
            Ok(Finished::Already) => return Ok("done"),
            Ok(Finished::With(result)) => {
                let mut tx = self.store.begin().await?;
                finish(&mut tx, job, &result, &[]).await?;
                tx.commit().await?;
                self.chaining.notify();
                return Ok("done");
            }
            Err(failure) => failure,
        };
        if failure.again != Again::Never && self.stop.is_cancelled() {
            self.store.job_release(&job.lease).await?;
            return Ok("released");
        }
        let mut tx = self.store.begin().await?;
        let fate = fate(job, failure.again);
        match fate {
            Failed::Dead => give_up(&mut tx, job, &failure).await?,
            again => tx.job_fail(&job.lease, &failure.why, again).await?,
        }
        tx.commit().await?;
        Ok(match fate {
            Failed::Dead => {
                self.chaining.notify();
                "dead"
            }
            Failed::Postpone(wait) => {
                self.turns.leave_alone(job.kind, &job.namespace, wait);
                "postponed"
            }
            Failed::Retry(_) | Failed::Wait(_) => "retried",
        })
    }

    async fn prune(&self) -> Pruning {
        match prune(&self.store).await {
            Ok(Pruning::Nothing) => Pruning::Nothing,
            Ok(pruned) => {
                self.chaining.notify();
                pruned
            }
            Err(error) => {
                tracing::warn!(%error, "jobs that nobody needs any more stay for now");
                Pruning::Nothing
            }
        }
    }

    /// Takes back leases, each death with its audit row, and shows how many jobs wait.
    async fn reap(&self, stale: Stale) {
        if let Err(error) = self.try_reap(stale).await {
            tracing::warn!(%error, "jobs whose worker went away wait");
        }
    }

    async fn try_reap(&self, stale: Stale) -> Result<(), StoreError> {
        let mut tx = self.store.begin().await?;
        let reaped = tx.jobs_reap(stale).await?;
        if !reaped.is_empty() {
            for job in reaped.iter().filter(|job| job.state == JobState::Dead) {
                let row = Ended::of_record(job, "worker_gone").row();
                tx.audit_insert(&row).await?;
            }
            tx.commit().await?;
            self.chaining.notify();
        } else {
            drop(tx);
        }
        metrics::jobs_unsettled(&self.store.jobs_unsettled().await?);
        Ok(())
    }
}

/// What becomes of a job whose try failed.
fn fate(job: &Job, again: Again) -> Failed {
    match again {
        Again::Postponed(wait) => Failed::Postpone(wait),
        Again::Patiently if job.waits < MAX_WAITS => Failed::Wait(patience(job.waits, random())),
        Again::Soon if !job.is_last_try() => Failed::Retry(backoff(job.attempts, random())),
        Again::Never | Again::Soon | Again::Patiently => Failed::Dead,
    }
}

/// Where the system gives no randomness, the middle.
fn random() -> u32 {
    getrandom::u32().unwrap_or(u32::MAX / 2)
}
