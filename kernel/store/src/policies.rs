//! Policies: every version of every namespace's, the highest one in force.

use halofy_core::{Namespace, Policy};
use sqlx::Row;
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::{Store, StoreError, Transaction};

/// One version of a namespace's policy.
#[derive(Debug, Clone)]
pub struct PolicyRecord {
    /// Whose policy it is.
    pub namespace: Namespace,
    /// Counts up from 1.
    pub version: i32,
    /// What it says.
    pub policy: Policy,
    /// Who set it.
    pub set_by: String,
    /// When.
    pub set_at: OffsetDateTime,
}

impl Store {
    /// The policies in force for `namespace` and its ancestors, root first; only
    /// namespaces that have one.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when one cannot be read.
    pub async fn policy_chain(
        &self,
        namespace: &Namespace,
    ) -> Result<Vec<PolicyRecord>, StoreError> {
        let rows = sqlx::query(
            "select * from (
                 select distinct on (namespace) namespace, version, doc, set_by, set_at
                   from policies where namespace = any($1)
                  order by namespace, version desc) latest
              order by length(namespace)",
        )
        .bind(namespace.visible())
        .fetch_all(self.pool())
        .await?;
        rows.iter().map(read_policy).collect()
    }

    /// The policies in force, of every namespace that has one.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when one cannot be read.
    pub async fn policy_list(&self) -> Result<Vec<PolicyRecord>, StoreError> {
        let rows = sqlx::query(
            "select distinct on (namespace) namespace, version, doc, set_by, set_at
               from policies order by namespace, version desc",
        )
        .fetch_all(self.pool())
        .await?;
        rows.iter().map(read_policy).collect()
    }
}

impl Transaction<'_> {
    /// Adds the next version of a namespace's policy and returns its number.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when another operator set it at the same moment.
    pub async fn policy_insert(
        &mut self,
        namespace: &Namespace,
        policy: &Policy,
        set_by: &str,
        now: OffsetDateTime,
    ) -> Result<i32, StoreError> {
        let row = sqlx::query(
            "insert into policies (namespace, version, doc, set_by, set_at)
             select $1, coalesce(max(version), 0) + 1, $2, $3, $4
               from policies where namespace = $1
             returning version",
        )
        .bind(namespace.as_str())
        .bind(Json(policy))
        .bind(set_by)
        .bind(now)
        .fetch_one(self.connection())
        .await?;
        Ok(row.try_get("version")?)
    }
}

fn read_policy(row: &sqlx::postgres::PgRow) -> Result<PolicyRecord, StoreError> {
    let namespace: String = row.try_get("namespace")?;
    let doc: Json<Policy> = row.try_get("doc")?;
    Ok(PolicyRecord {
        namespace: Namespace::parse(&namespace)
            .map_err(|error| StoreError::Corrupt(error.to_string()))?,
        version: row.try_get("version")?,
        policy: doc.0,
        set_by: row.try_get("set_by")?,
        set_at: row.try_get("set_at")?,
    })
}
