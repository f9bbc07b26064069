//! What an operator does with jobs: look, bring back, stop.

use halofy_audit::{Detail, Sealed};
use halofy_core::{Invalid, JobId, JobKind, JobState, Namespace};
use halofy_store::{JobChange, JobFilter, JobRecord, Transaction};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use time::OffsetDateTime;

use super::Ended;
use crate::Refusal;
use crate::audit::{EVERYWHERE, Ending, Trail};
use crate::gate::Gate;

const MAX_LIST: usize = 1_000;

/// Which jobs to list.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobQuery {
    /// Only in these states; in any if empty.
    #[serde(default)]
    pub states: Vec<JobState>,
    /// Only of these kinds; of any if empty.
    #[serde(default)]
    pub kinds: Vec<JobKind>,
    /// Only in a namespace and what lies below it.
    pub under: Option<Namespace>,
    /// The newest so many, 1,000 at most.
    pub limit: usize,
}

impl JobQuery {
    fn filter(&self) -> JobFilter {
        JobFilter {
            states: self.states.clone(),
            kinds: self.kinds.clone(),
            under: self.under.clone(),
            limit: self.limit.min(MAX_LIST),
        }
    }

    /// The audit row of a batch that was brought back.
    fn retried(&self, batch: u64) -> Sealed {
        let states: Vec<_> = self.states.iter().map(|state| state.as_str()).collect();
        let kinds: Vec<_> = self.kinds.iter().map(|kind| kind.as_str()).collect();
        let mut detail = Detail::new()
            .field("jobs", batch)
            .field("state", states.join(","));
        if !kinds.is_empty() {
            detail = detail.field("kind", kinds.join(","));
        }
        let namespace = self.under.as_ref().map_or(EVERYWHERE, Namespace::as_str);
        Trail::operator("job_retry", namespace).seal(&Ending::ok(detail))
    }
}

/// How many jobs were brought back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobsRetried {
    /// So many.
    pub retried: u64,
}

/// A job without what it holds.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSummary {
    /// Its id, and its ticket.
    pub id: JobId,
    /// What sort of work it is.
    pub kind: JobKind,
    /// Where it stands.
    pub state: JobState,
    /// Where its effects go.
    pub namespace: String,
    /// Who asked for it.
    pub actor: String,
    /// With which key; absent for the kernel's own.
    pub key: Option<String>,
    /// Tries begun.
    pub attempts: u32,
    /// Tries until it is dead.
    pub max_attempts: u32,
    /// No try before this moment.
    #[serde(with = "time::serde::rfc3339")]
    pub run_after: OffsetDateTime,
    /// How long its worker has it, while it runs.
    #[serde(with = "time::serde::rfc3339::option")]
    pub lease_until: Option<OffsetDateTime>,
    /// Why the last try failed.
    pub error: Option<String>,
    /// What came of it.
    pub result: Option<Value>,
    /// When it was queued.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When it came to its end.
    #[serde(with = "time::serde::rfc3339::option")]
    pub finished_at: Option<OffsetDateTime>,
    /// Whether what it held was erased.
    pub erased: bool,
}

impl From<JobRecord> for JobSummary {
    fn from(job: JobRecord) -> Self {
        Self {
            id: job.id,
            kind: job.kind,
            state: job.state,
            namespace: job.namespace.to_string(),
            actor: job.actor,
            key: job.key.map(|key| key.0),
            attempts: job.attempts,
            max_attempts: job.max_attempts,
            run_after: job.run_after,
            lease_until: job.lease_until,
            error: job.error,
            result: job.result,
            created_at: job.created_at,
            finished_at: job.finished_at,
            erased: job.erased_at.is_some(),
        }
    }
}

impl Gate {
    /// The newest jobs that pass, newest first.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn job_list(&self, query: &JobQuery) -> Result<Vec<JobSummary>, Refusal> {
        let jobs = self.store.job_list(&query.filter()).await?;
        Ok(jobs.into_iter().map(JobSummary::from).collect())
    }

    /// One job.
    ///
    /// # Errors
    /// [`Refusal::NotFound`]; [`Refusal::Invalid`] for what is no job's id.
    pub async fn job_show(&self, id: &str) -> Result<JobSummary, Refusal> {
        let job = self.store.job_read(&JobId::parse(id)?).await?;
        let job = job.ok_or(Refusal::NotFound { hidden: false })?;
        Ok(job.into())
    }

    /// Brings a dead or cancelled job back, with all its tries.
    ///
    /// # Errors
    /// [`Refusal::JobUnfit`] for any other, and for an erased one; [`Refusal::NotFound`].
    pub async fn job_retry(&self, id: &str) -> Result<JobSummary, Refusal> {
        let id = JobId::parse(id)?;
        let mut tx = self.store.begin().await?;
        let job = changed(tx.job_retry(&id).await?)?;
        self.commit_job(tx, "job_retry", &job).await?;
        self.jobs.queued();
        Ok(job.into())
    }

    /// Brings dead and cancelled jobs that pass back, the oldest first, each as
    /// [`Gate::job_retry`] does; `limit` of the query does not matter. A batch at a time, each
    /// with its audit row.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] when no state is named, or one that is neither dead nor cancelled.
    pub async fn jobs_retry(&self, query: &JobQuery) -> Result<JobsRetried, Refusal> {
        let back = |state: &JobState| matches!(state, JobState::Dead | JobState::Cancelled);
        if query.states.is_empty() || !query.states.iter().all(back) {
            return Err(Invalid::new("state", "must be dead or cancelled, or both").into());
        }
        let filter = JobFilter {
            limit: MAX_LIST,
            ..query.filter()
        };
        let mut retried = 0;
        loop {
            let mut tx = self.store.begin().await?;
            let batch = tx.jobs_retry(&filter).await?;
            // The command has one row even where there is nothing to retry.
            if batch > 0 || retried == 0 {
                tx.audit_insert(&query.retried(batch)).await?;
                tx.commit().await?;
                self.wake.notify();
                self.jobs.queued();
            }
            retried += batch;
            if batch < MAX_LIST as u64 {
                return Ok(JobsRetried { retried });
            }
        }
    }

    /// Stops a job that has not come to its end: one that runs can have no effect any more.
    ///
    /// # Errors
    /// [`Refusal::JobUnfit`] for one that has; [`Refusal::NotFound`].
    pub async fn job_cancel(&self, id: &str) -> Result<JobSummary, Refusal> {
        let id = JobId::parse(id)?;
        let mut tx = self.store.begin().await?;
        let job = changed(tx.job_cancel(&id).await?)?;
        // The operator's act, and the job's end: whoever counts ends finds each under `job`.
        tx.audit_insert(&Ended::of_record(&job, "cancelled").row())
            .await?;
        self.commit_job(tx, "job_cancel", &job).await?;
        Ok(job.into())
    }

    async fn commit_job(
        &self,
        mut tx: Transaction<'_>,
        op: &'static str,
        job: &JobRecord,
    ) -> Result<(), Refusal> {
        let detail = Detail::new().field("job", job.id).field("kind", job.kind);
        let row = Trail::operator(op, job.namespace.as_str()).seal(&Ending::ok(detail));
        tx.audit_insert(&row).await?;
        tx.commit().await?;
        self.wake.notify();
        Ok(())
    }
}

fn changed(change: JobChange) -> Result<JobRecord, Refusal> {
    match change {
        JobChange::Changed(job) => Ok(*job),
        JobChange::Missing => Err(Refusal::NotFound { hidden: false }),
        JobChange::Unfit(job) => Err(Refusal::JobUnfit {
            state: job.state,
            erased: job.erased_at.is_some(),
        }),
    }
}
