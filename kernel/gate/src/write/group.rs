//! Group commit of plain writes: one fact each, which takes nobody's place. Those that arrive
//! while one transaction runs share the next, each with an audit row of its own.
//!
//! Invariant: a memory and its audit row are one transaction, here as everywhere. A batch
//! that fails before its commit stores nothing, and each write goes its own way.

use std::collections::HashSet;
use std::sync::Arc;

use halofy_core::{Identity, JobId, JobKind, normalize_for_dedupe};
use halofy_store::{NewJob, NewMemory, Placement, Store, StoreError, Upserted};
use serde_json::json;
use time::OffsetDateTime;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinSet;
use ulid::Ulid;

use super::draft::Draft;
use super::outcome::WriteOutcome;
use super::prepare::Prepared;
use crate::Refusal;
use crate::audit::{Ending, KERNEL, Trail};
use crate::jobs;

const MAX_BATCH: usize = 64;
const MAX_QUEUE: usize = 4_096;
/// Transactions at once on a server: an index is extended by one backend at a time.
const COMMITTERS: usize = 3;

/// A write of one fact that needs nothing else of its transaction.
pub(super) struct Plain {
    pub(super) writer: Identity,
    pub(super) draft: Arc<Draft>,
    pub(super) fact: Arc<Prepared>,
    pub(super) told_at: OffsetDateTime,
    /// Of the call, so far.
    pub(super) trail: Trail,
    pub(super) outcome: WriteOutcome,
    /// Whether the fact is compared with its neighbours afterwards.
    pub(super) checked: bool,
}

/// Why a batch did not store a write.
pub(super) enum Ungrouped {
    /// Nothing was stored: the write has to be committed by itself.
    Alone,
    /// Whether anything was stored is not known.
    Refused(Refusal),
}

type Waiting = (Plain, oneshot::Sender<Result<WriteOutcome, Ungrouped>>);

/// The way into the next batch.
#[derive(Clone)]
pub(crate) struct Group {
    queue: mpsc::Sender<Waiting>,
}

impl Group {
    /// Starts the committers; they end when the group is dropped and the queue is empty.
    pub(crate) fn start(store: &Arc<Store>) -> (Self, JoinSet<()>) {
        let (queue, waiting) = mpsc::channel(MAX_QUEUE);
        let waiting = Arc::new(Mutex::new(waiting));
        let committers = if store.is_embedded() { 1 } else { COMMITTERS };
        let mut tasks = JoinSet::new();
        for _ in 0..committers {
            tasks.spawn(run(store.clone(), waiting.clone()));
        }
        (Self { queue }, tasks)
    }

    /// Returns when the write is durable, or why it is not.
    pub(super) async fn commit(&self, write: Plain) -> Result<WriteOutcome, Ungrouped> {
        let (done, outcome) = oneshot::channel();
        if self.queue.send((write, done)).await.is_err() {
            return Err(Ungrouped::Alone);
        }
        outcome.await.unwrap_or_else(|_| {
            let why = "the committer has stopped".to_owned();
            Err(Ungrouped::Refused(Refusal::Internal { why }))
        })
    }
}

async fn run(store: Arc<Store>, waiting: Arc<Mutex<mpsc::Receiver<Waiting>>>) {
    let mut batch: Vec<Waiting> = Vec::with_capacity(MAX_BATCH);
    loop {
        if waiting.lock().await.recv_many(&mut batch, MAX_BATCH).await == 0 {
            return;
        }
        while !batch.is_empty() {
            let (once, again) = without_repeats(std::mem::take(&mut batch));
            commit(&store, once).await;
            batch = again;
        }
    }
}

/// One statement cannot say the same thing twice: what repeats waits for the next one.
fn without_repeats(batch: Vec<Waiting>) -> (Vec<Waiting>, Vec<Waiting>) {
    let mut seen = HashSet::with_capacity(batch.len());
    batch.into_iter().partition(|(write, _)| {
        let normal_form = normal_form(write);
        let key = write.as_new("", &normal_form).content_key();
        seen.insert((write.writer.namespace.clone(), key))
    })
}

async fn commit(store: &Store, batch: Vec<Waiting>) {
    let (mut writes, callers): (Vec<Plain>, Vec<_>) = batch.into_iter().unzip();
    crate::metrics::write_batch(writes.len());
    let outcome = store_all(store, &mut writes).await;
    for (write, caller) in writes.into_iter().zip(callers) {
        let outcome = match &outcome {
            Ok(()) => Ok(write.outcome),
            Err(Failed::Before) => Err(Ungrouped::Alone),
            Err(Failed::Committing(why)) => Err(Ungrouped::Refused(Refusal::Unavailable {
                what: "store",
                why: why.clone(),
            })),
        };
        // The caller may be gone; its memory is there all the same.
        drop(caller.send(outcome));
    }
}

enum Failed {
    /// Nothing is stored.
    Before,
    /// Perhaps everything is.
    Committing(String),
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        tracing::debug!(%error, "a batch of writes is committed one by one");
        Self::Before
    }
}

async fn store_all(store: &Store, writes: &mut [Plain]) -> Result<(), Failed> {
    let mut tx = store.begin().await?;
    let calls: Vec<(String, String)> = writes
        .iter()
        .map(|write| (write.trail.call(), normal_form(write)))
        .collect();
    let placement = Placement::Current { supersedes: None };
    let upserted = {
        let new: Vec<NewMemory<'_>> = writes
            .iter()
            .zip(&calls)
            .map(|(write, (call, normal_form))| write.as_new(call, normal_form))
            .collect();
        let new: Vec<_> = new.iter().map(|memory| (memory, placement)).collect();
        tx.memories_upsert(&new).await?
    };
    let mut rows = Vec::with_capacity(writes.len());
    for (write, upserted) in writes.iter_mut().zip(upserted) {
        let id = match upserted {
            Upserted::Inserted(id) => {
                write.outcome.stored.push(id);
                id
            }
            Upserted::Deduplicated(id) => {
                write.outcome.deduplicated.push(id);
                id
            }
            Upserted::Disputed(id) => {
                write.outcome.disputed.push(id);
                id
            }
        };
        write.trail.memory(id);
        rows.push(write.trail.seal(&Ending::ok(write.outcome.detail())));
    }
    tx.audit_insert_all(&rows).await?;
    for write in writes.iter().filter(|write| write.checked) {
        for id in &write.outcome.stored {
            let payload = json!({ "memory": id });
            let check = conflict_check(&write.writer.namespace, &payload);
            tx.job_insert(&check).await?;
        }
    }
    let committed = tx.commit().await;
    committed.map_err(|error| Failed::Committing(error.to_string()))
}

/// The kernel's own job of comparing a fact with its neighbours.
pub(super) fn conflict_check<'a>(
    namespace: &'a halofy_core::Namespace,
    payload: &'a serde_json::Value,
) -> NewJob<'a> {
    NewJob {
        id: JobId::new(Ulid::generate()),
        kind: JobKind::Conflict,
        namespace,
        actor: KERNEL,
        key: None,
        payload,
        max_attempts: jobs::MAX_ATTEMPTS,
    }
}

fn normal_form(write: &Plain) -> String {
    normalize_for_dedupe(write.fact.candidate.content.as_str())
}

impl Plain {
    fn as_new<'a>(&'a self, call: &'a str, normal_form: &'a str) -> NewMemory<'a> {
        let (draft, fact) = (&self.draft, &self.fact);
        fact.as_new(&self.writer, draft, self.told_at, call, normal_form, &[])
    }
}
