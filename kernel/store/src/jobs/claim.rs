//! Claiming: whose turn it is. Namespaces take turns, so that one which has queued a great
//! deal keeps nobody else waiting.

use std::time::Duration;

use halofy_core::{JobKind, Namespace};
use sqlx::Row;

use super::lease::{leased_columns, read_job};
use crate::retrieval::as_limit;
use crate::{Job, Store, StoreError};

/// Whose turn it is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Turn<'a> {
    /// Who was served last: the next one in the order of names comes first.
    pub after: Option<&'a Namespace>,
    /// Who is passed over.
    pub passing: &'a [Namespace],
}

impl Store {
    /// Takes at most `limit` due jobs of a kind, each with a new lease and one try more: one
    /// of each namespace in turn, and of each the longest due first. In the order in which
    /// they were taken; the last one's namespace is the next turn's `after`. Several kernels
    /// may claim at once.
    ///
    /// Costs a probe of an index for each namespace that has jobs of the kind queued, until
    /// `limit` have one due; not more for those that have many.
    ///
    /// A claim that a power cut undoes is a try that nobody began.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn job_claim(
        &self,
        kind: JobKind,
        turn: Turn<'_>,
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<Job>, StoreError> {
        let passing: Vec<_> = turn.passing.iter().map(Namespace::as_str).collect();
        let rows = sqlx::query(concat!(
            // Each step finds the next namespace and the earliest of its jobs. Behind the last
            // one it begins a second lap, which ends where the first began.
            "with recursive walk (namespace, lap, due, found) as (
                 select $2::text, 0, false, 0
                 union all
                 select coalesce(next.namespace, ''),
                        walk.lap + case when next.namespace is null then 1 else 0 end,
                        coalesce(next.due, false),
                        walk.found + case when next.due then 1 else 0 end
                   from walk left join lateral (
                        select j.namespace,
                               j.run_after <= now() and j.namespace <> all($5::text[]) as due
                          from jobs j
                         where j.state = 'queued' and j.kind = $1
                           and j.namespace > walk.namespace
                         order by j.namespace, j.run_after, j.id limit 1) next on true
                  where walk.found < $4
                    and (walk.lap = 0 or (walk.lap = 1 and walk.namespace < $2))),
             turns as (
                 select namespace, row_number() over (order by lap, namespace) as turn
                   from walk where due and (lap = 0 or namespace <= $2)),
             free as materialized (
                 select due.id, due.run_after, turns.turn
                   from turns cross join lateral (
                        select j.id, j.run_after from jobs j
                         where j.state = 'queued' and j.kind = $1
                           and j.namespace = turns.namespace and j.run_after <= now()
                         order by j.run_after, j.id limit $4 for update skip locked) due),
             taken as (
                 select id, row_number() over (order by round, turn) as place from (
                     select id, turn,
                            row_number() over (partition by turn order by run_after, id) as round
                       from free) rounds
                  order by place limit $4)
             update jobs j set state = 'running', attempts = attempts + 1,
                    lease_token = gen_random_uuid()::text,
                    lease_until = now() + make_interval(secs => $3)
               from taken where j.id = taken.id returning taken.place, ",
            leased_columns!()
        ))
        .bind(kind.as_str())
        .bind(turn.after.map_or("", Namespace::as_str))
        .bind(lease.as_secs_f64())
        .bind(as_limit(limit))
        .bind(passing)
        .fetch_all(self.pool())
        .await?;
        let mut jobs = Vec::with_capacity(rows.len());
        for row in &rows {
            jobs.push((row.try_get::<i64, _>("place")?, read_job(row)?));
        }
        jobs.sort_by_key(|(place, _)| *place);
        Ok(jobs.into_iter().map(|(_, job)| job).collect())
    }
}
