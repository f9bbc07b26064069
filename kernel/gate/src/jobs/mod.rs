//! Jobs: work that outlives its call. A worker in each kernel takes due ones under a lease
//! and hands them to the handler of their kind; a job comes to its end in the transaction
//! of its last effect, with its audit row.
//!
//! Not here: what a job does (its handler's module), SQL.

mod admin;
mod backoff;
mod handler;
pub(crate) mod lease;
mod prune;
mod ticket;
mod turns;
mod worker;
#[cfg(test)]
mod worker_tests;

use halofy_audit::{Detail, Outcome, Sealed};
use halofy_core::{JobId, JobKind, JobState, MemoryId, Namespace};
use halofy_store::{Failed, Job, JobRecord, StoreError, Transaction};
use serde_json::Value;

pub use admin::{JobQuery, JobSummary, JobsRetried};
pub(crate) use handler::{Again, Finished, Handlers, JobFailure, Run};
pub(crate) use worker::Jobs;

use crate::audit::{Ending, Trail};

/// Tries of a job unless it says otherwise.
pub(crate) const MAX_ATTEMPTS: u32 = 5;

/// A job's end, for the audit log.
pub(crate) struct Ended<'a> {
    id: JobId,
    kind: JobKind,
    namespace: &'a Namespace,
    attempts: u32,
    state: JobState,
    /// A stable word; nothing where all went well.
    reason: Option<&'static str>,
}

impl<'a> Ended<'a> {
    pub(crate) fn of(job: &'a Job, state: JobState, reason: Option<&'static str>) -> Self {
        Self {
            id: job.id(),
            kind: job.kind,
            namespace: &job.namespace,
            attempts: job.attempts,
            state,
            reason,
        }
    }

    /// Of a job that came to its end without its worker: it went away, or somebody
    /// cancelled or erased.
    pub(crate) fn of_record(job: &'a JobRecord, reason: &'static str) -> Self {
        Self {
            id: job.id,
            kind: job.kind,
            namespace: &job.namespace,
            attempts: job.attempts,
            state: job.state,
            reason: Some(reason),
        }
    }

    /// The row, for the transaction that sets the state.
    pub(crate) fn row(&self) -> Sealed {
        let detail = Detail::new()
            .field("job", self.id)
            .field("kind", self.kind)
            .field("state", self.state)
            .field("attempts", self.attempts);
        let detail = match self.reason {
            Some(reason) => detail.field("reason", reason),
            None => detail,
        };
        let result = match self.state {
            JobState::Dead => Outcome::Error,
            _ => Outcome::Ok,
        };
        Trail::kernel("job", self.namespace.as_str()).seal(&Ending { result, detail })
    }
}

/// Brings a job to its good end in the transaction of its last effect: state, result, the
/// answer of the call that it finishes, and the audit row. `memories` are those that the
/// result speaks of.
///
/// # Errors
/// When the lease is lost: the transaction must be dropped.
pub(crate) async fn finish(
    tx: &mut Transaction<'_>,
    job: &Job,
    result: &Value,
    memories: &[MemoryId],
) -> Result<(), StoreError> {
    tx.job_finish(&job.lease, result).await?;
    tx.idempotency_answer_job(&job.id(), result, memories)
        .await?;
    let row = Ended::of(job, JobState::Done, None).row();
    tx.audit_insert(&row).await
}

/// Ends a job for good without its effects: state, error and audit row. The key of the call
/// that it was to finish is free again.
///
/// # Errors
/// When the lease is lost: the transaction must be dropped.
pub(crate) async fn give_up(
    tx: &mut Transaction<'_>,
    job: &Job,
    failure: &JobFailure,
) -> Result<(), StoreError> {
    tx.job_fail(&job.lease, &failure.why, Failed::Dead).await?;
    let row = Ended::of(job, JobState::Dead, Some(failure.reason)).row();
    tx.audit_insert(&row).await
}
