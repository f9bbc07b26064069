//! One transaction, with the methods of the modules that write in it.

use std::sync::atomic::Ordering;

use sqlx::{PgConnection, Postgres};

use crate::{Store, StoreError};

/// A unit of work: all of it is durable after [`Transaction::commit`], or none.
///
/// Dropping it rolls back. While it is open, nothing else may be asked of the
/// store by the same task: the embedded database has one connection.
#[must_use = "a transaction that is not committed is rolled back"]
pub struct Transaction<'s> {
    inner: sqlx::Transaction<'static, Postgres>,
    store: &'s Store,
}

impl Store {
    /// Begins a unit of work.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when no connection is to be had.
    pub async fn begin(&self) -> Result<Transaction<'_>, StoreError> {
        let inner = self.pool().begin().await?;
        Ok(Transaction { inner, store: self })
    }
}

impl Transaction<'_> {
    /// Makes the work durable: on return it survives a crash of the kernel, and
    /// a power cut.
    ///
    /// # Errors
    /// After an error the outcome is unknown when the connection broke, and
    /// nothing was stored otherwise.
    pub async fn commit(self) -> Result<(), StoreError> {
        self.inner.commit().await?;
        self.store.unanalysed.fetch_add(1, Ordering::Relaxed);
        self.store.sync().await
    }

    pub(crate) fn connection(&mut self) -> &mut PgConnection {
        &mut self.inner
    }
}
