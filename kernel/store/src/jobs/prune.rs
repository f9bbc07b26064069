//! What is left of jobs that went well or were stopped, and for how long it is kept. Memories
//! and audit rows are no part of it: those are never deleted.

use std::time::Duration;

use sqlx::Row;

use crate::retrieval::as_limit;
use crate::{StoreError, Transaction};

/// For how long a job is kept once it is done or cancelled. Dead ones are kept for ever.
#[derive(Debug, Clone, Copy)]
pub struct Kept {
    /// The kernel's own.
    pub checks: Duration,
    /// Those that a caller has a ticket for.
    pub tickets: Duration,
}

/// What went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// The kernel's own.
    pub checks: u64,
    /// Those that a caller had a ticket for.
    pub tickets: u64,
}

impl Transaction<'_> {
    /// Deletes done and cancelled jobs that were kept long enough: at most `limit`, the oldest
    /// of each sort. The answer under the key of a call that one finished stays.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn jobs_prune(&mut self, kept: Kept, limit: usize) -> Result<Pruned, StoreError> {
        let row = sqlx::query(
            "with checks as materialized (
                 select id from jobs
                  where state in ('done', 'cancelled') and key_id is null
                    and finished_at < now() - make_interval(secs => $1)
                  order by finished_at limit $3 for update skip locked),
             tickets as materialized (
                 select id from jobs
                  where state in ('done', 'cancelled') and key_id is not null
                    and finished_at < now() - make_interval(secs => $2)
                  order by finished_at
                  limit $3 - (select count(*) from checks) for update skip locked),
             gone as (
                 delete from jobs
                  where id in (select id from checks union all select id from tickets))
             select (select count(*) from checks) as checks,
                    (select count(*) from tickets) as tickets",
        )
        .bind(kept.checks.as_secs_f64())
        .bind(kept.tickets.as_secs_f64())
        .bind(as_limit(limit))
        .fetch_one(self.connection())
        .await?;
        let count =
            |column: &str| Ok::<_, sqlx::Error>(row.try_get::<i64, _>(column)?.unsigned_abs());
        Ok(Pruned {
            checks: count("checks")?,
            tickets: count("tickets")?,
        })
    }
}
