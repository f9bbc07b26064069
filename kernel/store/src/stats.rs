//! Counts over what a caller sees.

use std::collections::BTreeMap;

use halofy_core::Namespace;
use sqlx::Row;

use crate::scope::in_scope;
use crate::{Scope, Store, StoreError};

/// Counts for one caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// Visible memories that are believed now.
    pub current: i64,
    /// Visible memories that were replaced.
    pub superseded: i64,
    /// Audit rows of the caller's own namespace, by op and result (`search ok`).
    pub audit: BTreeMap<String, i64>,
}

impl Store {
    /// Counts memories that `namespace` sees, and its own audit rows.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn stats(&self, namespace: &Namespace) -> Result<Stats, StoreError> {
        let memories = sqlx::query(concat!(
            "select count(*) filter (where m.t_valid_to is null) as current,
                    count(*) filter (where m.t_valid_to is not null) as superseded
               from memory_objects m where m.status = 'active' and ",
            in_scope!()
        ))
        .bind(Scope::of(namespace).namespaces())
        .fetch_one(self.pool())
        .await?;
        let audit = sqlx::query(
            // Hidden and missing are one figure: told apart, they would say which
            // ids exist.
            "select op || ' ' || case when op = 'read' and result = 'denied' then 'miss'
                                      else result end as outcome, count(*) as rows
               from audit_log where namespace = $1 group by 1",
        )
        .bind(namespace.as_str())
        .fetch_all(self.pool())
        .await?;
        let read =
            |row: &sqlx::postgres::PgRow| Ok((row.try_get("outcome")?, row.try_get("rows")?));
        Ok(Stats {
            current: memories.try_get("current")?,
            superseded: memories.try_get("superseded")?,
            audit: audit.iter().map(read).collect::<Result<_, StoreError>>()?,
        })
    }
}
