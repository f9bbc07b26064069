//! What a handler is given, and what it gives back.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use halofy_core::JobKind;
use halofy_store::{Job, StoreError};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::Refusal;

/// One try of a job.
#[derive(Debug)]
pub(crate) struct Run {
    /// The job, under a lease that is prolonged while the handler runs.
    pub(crate) job: Job,
    /// Cancelled when going on is no use: the lease is lost, the try takes too long, or the
    /// kernel stops. Whoever waits for something slow should wait for this too.
    pub(crate) give_up: CancellationToken,
}

/// How a try ended well.
#[derive(Debug)]
pub(crate) enum Finished {
    /// With this result; the worker brings the job to its end.
    With(Value),
    /// The handler brought it to its end itself, with [`super::finish`] in the transaction
    /// of its last effect.
    Already,
}

/// Whether another try may do better, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// None would.
    Never,
    /// Soon: within seconds at first.
    Soon,
    /// A service is away, and may be for as long as an hour. Counted apart from other tries.
    Patiently,
    /// Not before so long: nothing was tried, so no try is counted. The next jobs of its kind
    /// and namespace are left alone for a while.
    Postponed(Duration),
}

/// How a try failed.
#[derive(Debug)]
pub(crate) struct JobFailure {
    /// What becomes of the job.
    pub(crate) again: Again,
    /// A stable word, for the audit log.
    pub(crate) reason: &'static str,
    /// For whoever holds the ticket: no content, and none of the store's own words.
    pub(crate) why: String,
}

impl From<Refusal> for JobFailure {
    fn from(refusal: Refusal) -> Self {
        let again = match refusal {
            Refusal::NoVector { .. }
            | Refusal::Unavailable {
                what: "embedder", ..
            } => Again::Patiently,
            Refusal::Unavailable { .. } | Refusal::Overloaded | Refusal::RateLimited { .. } => {
                Again::Soon
            }
            _ => Again::Never,
        };
        if let Refusal::Unavailable { why, .. }
        | Refusal::NoVector { why }
        | Refusal::Internal { why } = &refusal
        {
            tracing::warn!(code = refusal.code(), why, "a job's try failed");
        }
        Self {
            again,
            reason: refusal.code(),
            why: refusal.to_string(),
        }
    }
}

impl From<StoreError> for JobFailure {
    fn from(error: StoreError) -> Self {
        Refusal::from(error).into()
    }
}

pub(super) type Outcome = Result<Finished, JobFailure>;
type Handler = Arc<dyn Fn(Run) -> BoxFuture<'static, Outcome> + Send + Sync>;

/// Who runs jobs of which kind. Jobs of a kind without a handler wait.
#[derive(Clone, Default)]
pub(crate) struct Handlers(HashMap<JobKind, Handler>);

impl Handlers {
    /// Registers the handler of a kind, in the place of one before it.
    ///
    /// It may hold no strong reference to the gate: closing waits for the last one.
    pub(crate) fn on<F, Fut>(mut self, kind: JobKind, handler: F) -> Self
    where
        F: Fn(Run) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let boxed = move |run| handler(run).boxed();
        self.0.insert(kind, Arc::new(boxed));
        self
    }

    pub(super) fn get(&self, kind: JobKind) -> Option<Handler> {
        self.0.get(&kind).cloned()
    }
}
