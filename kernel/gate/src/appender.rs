//! Group commit of audit rows: callers wait until their row is durable, and rows
//! that arrive while one commit runs share the next.

use std::sync::Arc;

use halofy_audit::Sealed;
use halofy_store::{Store, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::Refusal;
use crate::sequencer::Wake;

const MAX_BATCH: usize = 512;
const MAX_QUEUE: usize = 8_192;

type Waiting = (Sealed, oneshot::Sender<Result<(), Refusal>>);

/// The one way into the log for rows that no transaction carries.
#[derive(Clone)]
pub(crate) struct Appender {
    queue: mpsc::Sender<Waiting>,
}

impl Appender {
    /// Starts the task; it ends when the appender is dropped and the queue is empty.
    pub(crate) fn start(store: Arc<Store>, wake: Wake) -> (Self, JoinHandle<()>) {
        let (queue, rows) = mpsc::channel(MAX_QUEUE);
        (Self { queue }, tokio::spawn(run(store, rows, wake)))
    }

    /// Returns when the row is durable.
    ///
    /// # Errors
    /// [`Refusal::Unavailable`]: the row is not in the log, and the caller must
    /// not get its answer.
    pub(crate) async fn append(&self, row: Sealed) -> Result<(), Refusal> {
        let (done, outcome) = oneshot::channel();
        let stopped = || unavailable("the appender has stopped");
        self.queue.send((row, done)).await.map_err(|_| stopped())?;
        outcome.await.map_err(|_| stopped())?
    }
}

async fn run(store: Arc<Store>, mut rows: mpsc::Receiver<Waiting>, wake: Wake) {
    let mut batch = Vec::with_capacity(MAX_BATCH);
    while rows.recv_many(&mut batch, MAX_BATCH).await > 0 {
        crate::metrics::audit_batch(batch.len());
        commit(&store, &mut batch).await;
        wake.notify();
    }
}

async fn commit(store: &Store, batch: &mut Vec<Waiting>) {
    let (rows, callers): (Vec<_>, Vec<_>) = batch.drain(..).unzip();
    match store.audit_append(&rows).await {
        Ok(()) => callers
            .into_iter()
            .for_each(|caller| answer(caller, Ok(()))),
        // One row that the database refuses must not take its neighbours along.
        Err(StoreError::Refused(_)) if rows.len() > 1 => {
            for (row, caller) in rows.iter().zip(callers) {
                let outcome = store.audit_append(std::slice::from_ref(row)).await;
                answer(caller, outcome.map_err(unavailable));
            }
        }
        Err(error) => {
            for caller in callers {
                answer(caller, Err(unavailable(&error)));
            }
        }
    }
}

/// The caller may be gone; its row is there all the same.
fn answer(caller: oneshot::Sender<Result<(), Refusal>>, outcome: Result<(), Refusal>) {
    drop(caller.send(outcome));
}

fn unavailable(why: impl ToString) -> Refusal {
    Refusal::Unavailable {
        what: "audit",
        why: why.to_string(),
    }
}
