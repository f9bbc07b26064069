//! Running jobs under leases: extending them, committing under the fence, and
//! taking back what a worker that went away left.
//!
//! Invariant: every statement here that changes a job which runs names the token of its
//! lease, or takes the token away.

use std::time::Duration;

use halofy_core::{JobId, JobKind, KeyId, Namespace};
use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use time::OffsetDateTime;

use super::{JobRecord, damaged, job_columns, read_count, read_record};
use crate::idempotency::free_of_jobs;
use crate::{Store, StoreError, Transaction};

/// The most leases that are taken back at a time.
const REAP_BATCH: i64 = 200;

/// The right to give a job its effects, until it runs out or is taken away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Which job.
    pub job: JobId,
    token: String,
}

/// A job that a worker holds.
#[derive(Debug, Clone)]
pub struct Job {
    /// Its id, and the right to it.
    pub lease: Lease,
    /// What sort of work it is.
    pub kind: JobKind,
    /// Where its effects go.
    pub namespace: Namespace,
    /// Who asked for it.
    pub actor: String,
    /// With which key; none for the kernel's own.
    pub key: Option<KeyId>,
    /// What is to be done.
    pub payload: Value,
    /// Which effects are there already.
    pub progress: Option<Value>,
    /// Tries begun, this one included.
    pub attempts: u32,
    /// Tries until it is dead.
    pub max_attempts: u32,
    /// Tries that ended because a service was away; `attempts` has none of them.
    pub waits: u32,
    /// When it was queued, by the database's clock.
    pub created_at: OffsetDateTime,
}

impl Job {
    /// Its id, and its ticket.
    pub fn id(&self) -> JobId {
        self.lease.job
    }

    /// Whether no try comes after this one.
    pub fn is_last_try(&self) -> bool {
        self.attempts >= self.max_attempts
    }
}

/// What becomes of a job whose try failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failed {
    /// It is tried again after so long.
    Retry(Duration),
    /// The same, and the try counts as a wait for a service that was away.
    Wait(Duration),
    /// The same, and the try does not count: it had not begun in earnest.
    Postpone(Duration),
    /// It is not tried again.
    Dead,
}

/// Which leases to take back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stale {
    /// Those that ran out.
    Expired,
    /// All. Only where no worker can be running: on the embedded database, which has one
    /// kernel, before that kernel's worker starts.
    All,
}

macro_rules! leased_columns {
    () => {
        "j.id, j.lease_token, j.kind, j.namespace, j.actor, j.key_id, j.payload, j.progress,
         j.attempts, j.max_attempts, j.waits, j.created_at"
    };
}
pub(super) use leased_columns;

impl Store {
    /// Prolongs a lease: it ends so long from now.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]: somebody else may have the job. Else see [`StoreError`].
    pub async fn job_extend(&self, lease: &Lease, by: Duration) -> Result<(), StoreError> {
        let done = sqlx::query(
            "update jobs set lease_until = now() + make_interval(secs => $3)
              where id = $1 and lease_token = $2",
        )
        .bind(lease.job.to_string())
        .bind(&lease.token)
        .bind(by.as_secs_f64())
        .execute(self.pool())
        .await?;
        held(done.rows_affected())
    }

    /// Gives a job back untried: its worker stops. It is due at once.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]. Else see [`StoreError`].
    pub async fn job_release(&self, lease: &Lease) -> Result<(), StoreError> {
        let done = sqlx::query(
            "update jobs set state = 'queued', attempts = greatest(attempts - 1, 0),
                    run_after = now(), lease_token = null, lease_until = null
              where id = $1 and lease_token = $2",
        )
        .bind(lease.job.to_string())
        .bind(&lease.token)
        .execute(self.pool())
        .await?;
        held(done.rows_affected())
    }
}

impl Transaction<'_> {
    /// Holds a job to the end of the transaction: nobody cancels, erases or takes it back
    /// meanwhile. The first statement of a transaction with a job's effects, since an
    /// erasure locks jobs before memories too.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]: the transaction must be rolled back. Else see
    /// [`StoreError`].
    pub async fn job_hold(&mut self, lease: &Lease) -> Result<(), StoreError> {
        let row =
            sqlx::query("select 1 from jobs where id = $1 and lease_token = $2 for no key update")
                .bind(lease.job.to_string())
                .bind(&lease.token)
                .fetch_optional(self.connection())
                .await?;
        held(u64::from(row.is_some()))
    }

    /// Waits no longer than that for whatever others have locked; the transaction fails with
    /// [`StoreError::Raced`] then. For one that holds a job and changes memories which exist:
    /// an erasure locks memories and then what is about them, and must not lose to a check.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn wait_at_most(&mut self, longest: Duration) -> Result<(), StoreError> {
        sqlx::query("select set_config('lock_timeout', $1, true)")
            .bind(format!("{}ms", longest.as_millis()))
            .execute(self.connection())
            .await?;
        Ok(())
    }

    /// Notes which effects are there, in the transaction of the effects.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]: the transaction must be rolled back. Else see
    /// [`StoreError`].
    pub async fn job_progress(
        &mut self,
        lease: &Lease,
        progress: &Value,
    ) -> Result<(), StoreError> {
        let done = sqlx::query("update jobs set progress = $3 where id = $1 and lease_token = $2")
            .bind(lease.job.to_string())
            .bind(&lease.token)
            .bind(Json(progress))
            .execute(self.connection())
            .await?;
        held(done.rows_affected())
    }

    /// Brings a job to its good end, in the transaction of its last effect.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]: the transaction must be rolled back. Else see
    /// [`StoreError`].
    pub async fn job_finish(&mut self, lease: &Lease, result: &Value) -> Result<(), StoreError> {
        let done = sqlx::query(
            // What was done is kept where it was done: the text waits for no erasure here. Its
            // source stays, so that an erasure of that finds the result.
            "update jobs set state = 'done', result = $3, progress = null, memories = $4,
                    payload = jsonb_strip_nulls(
                        jsonb_build_object('source', payload -> 'source')),
                    error = null, lease_token = null,
                    lease_until = null, finished_at = now()
              where id = $1 and lease_token = $2",
        )
        .bind(lease.job.to_string())
        .bind(&lease.token)
        .bind(Json(result))
        .bind(memories_of(result))
        .execute(self.connection())
        .await?;
        held(done.rows_affected())
    }

    /// Ends a try that failed. A dead job frees the key of the call that it was to finish.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`]. Else see [`StoreError`].
    pub async fn job_fail(
        &mut self,
        lease: &Lease,
        error: &str,
        failed: Failed,
    ) -> Result<(), StoreError> {
        let (dead, delay) = match failed {
            Failed::Retry(delay) | Failed::Wait(delay) | Failed::Postpone(delay) => (false, delay),
            Failed::Dead => (true, Duration::ZERO),
        };
        let waited = matches!(failed, Failed::Wait(_));
        let uncounted = waited || matches!(failed, Failed::Postpone(_));
        let done = sqlx::query(
            "update jobs set state = case when $4 then 'dead' else 'queued' end, error = $3,
                    finished_at = case when $4 then now() end, lease_token = null,
                    lease_until = null, run_after = now() + make_interval(secs => $5),
                    attempts = case when $6 then greatest(attempts - 1, 0) else attempts end,
                    waits = waits + case when $7 then 1 else 0 end
              where id = $1 and lease_token = $2",
        )
        .bind(lease.job.to_string())
        .bind(&lease.token)
        .bind(error)
        .bind(dead)
        .bind(delay.as_secs_f64())
        .bind(uncounted)
        .bind(waited)
        .execute(self.connection())
        .await?;
        held(done.rows_affected())?;
        if dead {
            free_of_jobs(self.connection(), &[lease.job.to_string()]).await?;
        }
        Ok(())
    }

    /// Takes back leases of workers that went away: their jobs are due again, or dead when
    /// they have no try left. Gives them as they are now; at most 200 at a time.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn jobs_reap(&mut self, stale: Stale) -> Result<Vec<JobRecord>, StoreError> {
        let rows = sqlx::query(concat!(
            "with stale as materialized (
                 select id as job from jobs
                  where state = 'running' and ($1 or lease_until < now())
                  order by lease_until limit $2 for update skip locked)
             update jobs set
                    state = case when attempts >= max_attempts then 'dead' else 'queued' end,
                    finished_at = case when attempts >= max_attempts then now() end,
                    lease_token = null, lease_until = null, run_after = now(),
                    error = 'its worker went away'
               from stale where id = job returning ",
            job_columns!()
        ))
        .bind(stale == Stale::All)
        .bind(REAP_BATCH)
        .fetch_all(self.connection())
        .await?;
        let reaped = rows
            .iter()
            .map(read_record)
            .collect::<Result<Vec<_>, _>>()?;
        let dead = reaped.iter().filter(|job| job.state.is_end());
        let dead: Vec<_> = dead.map(|job| job.id.to_string()).collect();
        free_of_jobs(self.connection(), &dead).await?;
        Ok(reaped)
    }
}

/// Whether a statement under the fence met its job.
fn held(rows: u64) -> Result<(), StoreError> {
    match rows {
        0 => Err(StoreError::LeaseLost),
        _ => Ok(()),
    }
}

/// The memories that a write's result speaks of.
fn memories_of(result: &Value) -> Vec<&str> {
    let lists = ["stored", "deduplicated", "disputed"].map(|list| result[list].as_array());
    let ids = lists.into_iter().flatten().flatten();
    ids.filter_map(Value::as_str).collect()
}

pub(super) fn read_job(row: &PgRow) -> Result<Job, StoreError> {
    let text = |column: &str| row.try_get::<&str, _>(column);
    let payload: Json<Value> = row.try_get("payload")?;
    let progress: Option<Json<Value>> = row.try_get("progress")?;
    Ok(Job {
        lease: Lease {
            job: JobId::parse(text("id")?).map_err(damaged)?,
            token: row.try_get("lease_token")?,
        },
        kind: text("kind")?.parse().map_err(damaged)?,
        namespace: Namespace::parse(text("namespace")?).map_err(damaged)?,
        actor: row.try_get("actor")?,
        key: row.try_get::<Option<String>, _>("key_id")?.map(KeyId),
        payload: payload.0,
        progress: progress.map(|value| value.0),
        attempts: read_count(row, "attempts")?,
        max_attempts: read_count(row, "max_attempts")?,
        waits: read_count(row, "waits")?,
        created_at: row.try_get("created_at")?,
    })
}
