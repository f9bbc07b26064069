//! Jobs: what one is, queueing one, looking at them, and an operator's changes.
//!
//! Not here: running one (`jobs/claim.rs`, `jobs/lease.rs`; the handlers are the gate's),
//! erasing what one holds (`jobs/scrub.rs`), what the audit log says of its end.

mod claim;
mod lease;
mod prune;
mod scrub;

use halofy_core::{JobId, JobKind, JobState, KeyId, Namespace};
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use time::OffsetDateTime;

pub use claim::Turn;
pub use lease::{Failed, Job, Lease, Stale};
pub use prune::{Kept, Pruned};
pub use scrub::JobsOf;

use crate::idempotency::free_of_jobs;
use crate::retrieval::as_limit;
use crate::scope::subtree_pattern;
use crate::{Store, StoreError, Transaction};

/// A job to be queued.
#[derive(Debug)]
pub struct NewJob<'a> {
    /// Its id, and its ticket.
    pub id: JobId,
    /// What sort of work it is.
    pub kind: JobKind,
    /// Where its effects go.
    pub namespace: &'a Namespace,
    /// Who asked for it.
    pub actor: &'a str,
    /// With which key; none for the kernel's own.
    pub key: Option<&'a KeyId>,
    /// What is to be done.
    pub payload: &'a Value,
    /// Tries until it is dead.
    pub max_attempts: u32,
}

/// A job as it stands.
#[derive(Debug, Clone)]
pub struct JobRecord {
    /// Its id.
    pub id: JobId,
    /// What sort of work it is.
    pub kind: JobKind,
    /// Where its effects go.
    pub namespace: Namespace,
    /// Who asked for it.
    pub actor: String,
    /// With which key; none for the kernel's own.
    pub key: Option<KeyId>,
    /// Where it stands.
    pub state: JobState,
    /// Tries begun.
    pub attempts: u32,
    /// Tries until it is dead.
    pub max_attempts: u32,
    /// No try before this moment.
    pub run_after: OffsetDateTime,
    /// How long its worker has it, while it runs.
    pub lease_until: Option<OffsetDateTime>,
    /// What came of it.
    pub result: Option<Value>,
    /// Why the last try failed.
    pub error: Option<String>,
    /// When it was queued.
    pub created_at: OffsetDateTime,
    /// When it came to its end.
    pub finished_at: Option<OffsetDateTime>,
    /// When what it held was erased.
    pub erased_at: Option<OffsetDateTime>,
}

impl JobRecord {
    /// Whether it was an erasure that brought it to its end.
    pub fn ended_by_erasure(&self) -> bool {
        self.erased_at.is_some() && self.erased_at == self.finished_at
    }
}

/// Which jobs to list.
#[derive(Debug, Clone, Default)]
pub struct JobFilter {
    /// Only in these states; in any if empty.
    pub states: Vec<JobState>,
    /// Only of these kinds; of any if empty.
    pub kinds: Vec<JobKind>,
    /// Only in a namespace and what lies below it.
    pub under: Option<Namespace>,
    /// At most so many, the newest.
    pub limit: usize,
}

/// What came of an operator's change.
#[derive(Debug)]
pub enum JobChange {
    /// It is now this.
    Changed(Box<JobRecord>),
    /// There is no such job.
    Missing,
    /// It stands where the change does not apply, and stays as it is.
    Unfit(Box<JobRecord>),
}

/// A filter as [`passes!`] takes it.
struct Bound<'a> {
    under: Option<&'a str>,
    below: Option<String>,
    states: Vec<&'static str>,
    kinds: Vec<&'static str>,
    limit: i64,
}

impl<'a> Bound<'a> {
    fn of(filter: &'a JobFilter) -> Self {
        let under = filter.under.as_ref();
        Self {
            under: under.map(Namespace::as_str),
            below: under.map(subtree_pattern),
            states: filter.states.iter().map(|state| state.as_str()).collect(),
            kinds: filter.kinds.iter().map(|kind| kind.as_str()).collect(),
            limit: as_limit(filter.limit),
        }
    }
}

/// The jobs that pass the filter whose parts are bound as `$1` to `$4`.
macro_rules! passes {
    () => {
        concat!(
            "($1::text is null or ",
            $crate::scope::in_subtree!(),
            ") and (cardinality($3::text[]) = 0 or state = any($3))
               and (cardinality($4::text[]) = 0 or kind = any($4))"
        )
    };
}

/// The columns of a [`JobRecord`].
macro_rules! job_columns {
    () => {
        "id, kind, namespace, actor, key_id, state, attempts, max_attempts, run_after,
         lease_until, result, error, created_at, finished_at, erased_at"
    };
}
pub(crate) use job_columns;

impl Store {
    /// The job with this id.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn job_read(&self, id: &JobId) -> Result<Option<JobRecord>, StoreError> {
        let row = sqlx::query(concat!(
            "select ",
            job_columns!(),
            " from jobs where id = $1"
        ))
        .bind(id.to_string())
        .fetch_optional(self.pool())
        .await?;
        row.as_ref().map(read_record).transpose()
    }

    /// The newest jobs that pass the filter, newest first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn job_list(&self, filter: &JobFilter) -> Result<Vec<JobRecord>, StoreError> {
        let bound = Bound::of(filter);
        let rows = sqlx::query(concat!(
            "select ",
            job_columns!(),
            " from jobs where ",
            passes!(),
            " order by id desc limit $5"
        ))
        .bind(bound.under)
        .bind(bound.below)
        .bind(bound.states)
        .bind(bound.kinds)
        .bind(bound.limit)
        .fetch_all(self.pool())
        .await?;
        rows.iter().map(read_record).collect()
    }

    /// How many jobs wait, run, and are dead.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn jobs_unsettled(&self) -> Result<[(JobState, u64); 3], StoreError> {
        let row = sqlx::query(
            "select count(*) filter (where state = 'queued') as queued,
                    count(*) filter (where state = 'running') as running,
                    count(*) filter (where state = 'dead') as dead
               from jobs where state in ('queued', 'running', 'dead')",
        )
        .fetch_one(self.pool())
        .await?;
        let count =
            |column: &str| Ok::<_, sqlx::Error>(row.try_get::<i64, _>(column)?.unsigned_abs());
        Ok([
            (JobState::Queued, count("queued")?),
            (JobState::Running, count("running")?),
            (JobState::Dead, count("dead")?),
        ])
    }
}

impl Transaction<'_> {
    /// Queues a job, due at once. Tell the worker after the commit.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn job_insert(&mut self, job: &NewJob<'_>) -> Result<(), StoreError> {
        sqlx::query(
            "insert into jobs (id, kind, namespace, actor, key_id, payload, max_attempts)
             values ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(job.id.to_string())
        .bind(job.kind.as_str())
        .bind(job.namespace.as_str())
        .bind(job.actor)
        .bind(job.key.map(|key| key.0.as_str()))
        .bind(Json(job.payload))
        .bind(i32::try_from(job.max_attempts).unwrap_or(i32::MAX))
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// Brings a dead or cancelled job back, with all its tries and what it had got done.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn job_retry(&mut self, id: &JobId) -> Result<JobChange, StoreError> {
        let row = sqlx::query(concat!(
            "update jobs set state = 'queued', attempts = 0, waits = 0, run_after = now(),
                    error = null, finished_at = null
              where id = $1 and state in ('dead', 'cancelled') and erased_at is null
              returning ",
            job_columns!()
        ))
        .bind(id.to_string())
        .fetch_optional(self.connection())
        .await?;
        self.change(id, row).await
    }

    /// Brings dead or cancelled jobs that pass the filter back, as [`Transaction::job_retry`]
    /// does one: the oldest `filter.limit`. Gives how many.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn jobs_retry(&mut self, filter: &JobFilter) -> Result<u64, StoreError> {
        let bound = Bound::of(filter);
        let done = sqlx::query(concat!(
            "with back as materialized (
                 select id as job from jobs
                  where state in ('dead', 'cancelled') and erased_at is null and ",
            passes!(),
            "     order by id limit $5 for update skip locked)
             update jobs set state = 'queued', attempts = 0, waits = 0, run_after = now(),
                    error = null, finished_at = null
               from back where id = job"
        ))
        .bind(bound.under)
        .bind(bound.below)
        .bind(bound.states)
        .bind(bound.kinds)
        .bind(bound.limit)
        .execute(self.connection())
        .await?;
        Ok(done.rows_affected())
    }

    /// Stops a job that has not come to its end. One that runs loses its lease: what its
    /// worker has not committed, it cannot commit any more. The key of the call that it
    /// was to finish is free again.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn job_cancel(&mut self, id: &JobId) -> Result<JobChange, StoreError> {
        let row = sqlx::query(concat!(
            "update jobs set state = 'cancelled', lease_token = null, lease_until = null,
                    finished_at = now()
              where id = $1 and state in ('queued', 'running') returning ",
            job_columns!()
        ))
        .bind(id.to_string())
        .fetch_optional(self.connection())
        .await?;
        if row.is_some() {
            free_of_jobs(self.connection(), &[id.to_string()]).await?;
        }
        self.change(id, row).await
    }

    async fn change(
        &mut self,
        id: &JobId,
        changed: Option<PgRow>,
    ) -> Result<JobChange, StoreError> {
        if let Some(row) = changed {
            return Ok(JobChange::Changed(Box::new(read_record(&row)?)));
        }
        let row = sqlx::query(concat!(
            "select ",
            job_columns!(),
            " from jobs where id = $1"
        ))
        .bind(id.to_string())
        .fetch_optional(self.connection())
        .await?;
        match row {
            Some(row) => Ok(JobChange::Unfit(Box::new(read_record(&row)?))),
            None => Ok(JobChange::Missing),
        }
    }
}

fn damaged(error: halofy_core::Invalid) -> StoreError {
    StoreError::Corrupt(error.to_string())
}

fn read_count(row: &PgRow, column: &str) -> Result<u32, StoreError> {
    Ok(row.try_get::<i32, _>(column)?.unsigned_abs())
}

fn read_record(row: &PgRow) -> Result<JobRecord, StoreError> {
    let text = |column: &str| row.try_get::<&str, _>(column);
    let result: Option<Json<Value>> = row.try_get("result")?;
    Ok(JobRecord {
        id: JobId::parse(text("id")?).map_err(damaged)?,
        kind: text("kind")?.parse().map_err(damaged)?,
        namespace: Namespace::parse(text("namespace")?).map_err(damaged)?,
        actor: row.try_get("actor")?,
        key: row.try_get::<Option<String>, _>("key_id")?.map(KeyId),
        state: text("state")?.parse().map_err(damaged)?,
        attempts: read_count(row, "attempts")?,
        max_attempts: read_count(row, "max_attempts")?,
        run_after: row.try_get("run_after")?,
        lease_until: row.try_get("lease_until")?,
        result: result.map(|value| value.0),
        error: row.try_get("error")?,
        created_at: row.try_get("created_at")?,
        finished_at: row.try_get("finished_at")?,
        erased_at: row.try_get("erased_at")?,
    })
}
