//! Which erasures there were, for calls that began before one and would store what it took
//! after it: a text may be with the language model meanwhile.
//!
//! Not here: the erasing itself (`erasure.rs`).

use halofy_core::Namespace;
use sha2::{Digest, Sha256};
use sqlx::Row;

use crate::{ErasureTarget, Store, StoreError, Transaction};

/// A moment in the order of a tenant's erasures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ErasureMark(i64);

impl Store {
    /// What was erased in the namespace's tenant so far.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn erasure_mark(&self, namespace: &Namespace) -> Result<ErasureMark, StoreError> {
        let row = sqlx::query("select coalesce(max(id), 0) from erasures where tenant = $1")
            .bind(namespace.root())
            .fetch_one(self.pool())
            .await?;
        Ok(ErasureMark(row.try_get(0)?))
    }
}

impl Transaction<'_> {
    /// Notes an erasure below `within`, and waits for the tenant's writes that hold on in
    /// [`Transaction::erased_since`]. Those that come later learn of it.
    ///
    /// Invariant: the numbers of a tenant's erasures are given and committed in one order.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn erasure_note(
        &mut self,
        within: &Namespace,
        target: &ErasureTarget,
    ) -> Result<(), StoreError> {
        let (namespace, source) = match target {
            // What a call that is under way will store has no name yet.
            ErasureTarget::Memory(_) => return Ok(()),
            ErasureTarget::Source(reference) => (within, Some(digest(reference))),
            ErasureTarget::Namespace(namespace) => (namespace, None),
        };
        sqlx::query("select pg_advisory_xact_lock(hashtextextended($1, 0))")
            .bind(lock(within))
            .execute(self.connection())
            .await?;
        sqlx::query("insert into erasures (tenant, namespace, source_key) values ($1, $2, $3)")
            .bind(within.root())
            .bind(namespace.as_str())
            .bind(source)
            .execute(self.connection())
            .await?;
        Ok(())
    }

    /// Whether what a write of `namespace` quotes was erased since the mark. None is until the
    /// end of the transaction.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn erased_since(
        &mut self,
        namespace: &Namespace,
        source: Option<&str>,
        mark: ErasureMark,
    ) -> Result<bool, StoreError> {
        sqlx::query("select pg_advisory_xact_lock_shared(hashtextextended($1, 0))")
            .bind(lock(namespace))
            .execute(self.connection())
            .await?;
        // A statement of its own, so that it sees what was waited for.
        let row = sqlx::query(
            "select exists (select from erasures
              where tenant = $1 and id > $2 and namespace = any($3)
                and (source_key is null or source_key = $4))",
        )
        .bind(namespace.root())
        .bind(mark.0)
        .bind(namespace.visible())
        .bind(source.map(digest))
        .fetch_one(self.connection())
        .await?;
        Ok(row.try_get(0)?)
    }
}

fn lock(namespace: &Namespace) -> String {
    format!("halofy/erasures/{}", namespace.root())
}

fn digest(reference: &str) -> Vec<u8> {
    Sha256::digest(reference).to_vec()
}
