//! Counts over what a caller sees.

use std::collections::BTreeMap;

use sqlx::Row;

use crate::scope::{current, in_scope};
use crate::{Scope, Store, StoreError};

/// Counts for one caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Visible memories that are believed now.
    pub current: i64,
    /// Visible memories that were replaced.
    pub superseded: i64,
    /// Visible memories that wait for somebody to decide.
    pub disputed: i64,
    /// Audit rows of the caller's own namespace, by op and result (`search ok`).
    pub audit: BTreeMap<String, i64>,
}

impl Store {
    /// Counts memories that a caller sees, and its namespace's own audit rows. Denials whose
    /// detail is `hidden` count as misses.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn stats(&self, scope: &Scope, hidden: &str) -> Result<Stats, StoreError> {
        let memories = sqlx::query(concat!(
            "select count(*) filter (where ",
            current!(),
            ") as current,
                    count(*) filter (where m.status = 'active' and m.t_valid_to is not null)
                        as superseded,
                    count(*) filter (where m.status = 'disputed' and m.t_valid_to is null)
                        as disputed
               from memory_objects m where ",
            in_scope!()
        ))
        .bind(scope.bound())
        .fetch_one(self.pool())
        .await?;
        let audit = sqlx::query(
            // Hidden and missing are one figure, whatever was asked: told apart, they would
            // say which ids exist.
            "select op || ' ' || case when result = 'denied' and detail = $2 then 'miss'
                                      else result end as outcome, count(*) as rows
               from audit_log where namespace = $1 group by 1",
        )
        .bind(scope.own().as_str())
        .bind(hidden)
        .fetch_all(self.pool())
        .await?;
        let read =
            |row: &sqlx::postgres::PgRow| Ok((row.try_get("outcome")?, row.try_get("rows")?));
        Ok(Stats {
            current: memories.try_get("current")?,
            superseded: memories.try_get("superseded")?,
            disputed: memories.try_get("disputed")?,
            audit: audit.iter().map(read).collect::<Result<_, StoreError>>()?,
        })
    }
}
