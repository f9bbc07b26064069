//! How a kernel learns that the driver registry changed: a server tells, the embedded
//! database is asked. Either way nothing is missed, only learned later.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgListener;

use crate::Store;
use crate::drivers::CHANGED;

/// How often the embedded database is asked: its one connection is needed elsewhere.
const POLL: Duration = Duration::from_millis(500);
/// How often a server that tells is asked all the same.
const RECHECK: Duration = Duration::from_secs(5);

/// A watch on the registry.
pub struct RegistryChanges {
    store: Arc<Store>,
    listener: Option<PgListener>,
    seen: Option<i64>,
}

impl RegistryChanges {
    /// Begins to watch. The first [`RegistryChanges::next`] returns at once.
    pub fn watch(store: Arc<Store>) -> Self {
        Self {
            store,
            listener: None,
            seen: None,
        }
    }

    /// Waits until the registry may have changed, and gives its revision. Dropping the
    /// future loses nothing.
    pub async fn next(&mut self) -> i64 {
        loop {
            match self.store.registry_revision().await {
                Ok(revision) if self.seen != Some(revision) => {
                    self.seen = Some(revision);
                    return revision;
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "the driver registry cannot be read"),
            }
            self.wait().await;
        }
    }

    /// Makes the next [`RegistryChanges::next`] return at once: what it gave before was
    /// not taken up.
    pub fn again(&mut self) {
        self.seen = None;
    }

    async fn wait(&mut self) {
        if self.store.is_embedded() {
            return tokio::time::sleep(POLL).await;
        }
        let Some(listener) = &mut self.listener else {
            self.listener = self.listen().await;
            // What changed while nobody listened is asked for once more.
            if self.listener.is_none() {
                tokio::time::sleep(POLL).await;
            }
            return;
        };
        // A time-out is the recheck.
        if let Ok(Err(error)) = tokio::time::timeout(RECHECK, listener.recv()).await {
            tracing::warn!(%error, "the server no longer tells of changes");
            self.listener = None;
        }
    }

    /// On a connection of its own: the pool's are for calls.
    async fn listen(&self) -> Option<PgListener> {
        let connect = async {
            let pool = sqlx::postgres::PgPoolOptions::new()
                .max_connections(1)
                .max_lifetime(None)
                .idle_timeout(None)
                .connect_with(self.store.pool().connect_options().as_ref().clone())
                .await?;
            let mut listener = PgListener::connect_with(&pool).await?;
            listener.listen(CHANGED).await?;
            Ok::<_, sqlx::Error>(listener)
        };
        let listener = connect.await;
        listener
            .inspect_err(|error| tracing::warn!(%error, "the server is asked, it cannot tell"))
            .ok()
    }
}
