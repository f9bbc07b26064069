//! The PostgreSQL that runs inside this process: its directory, lock, socket, durability.
//! No schema, no pool and no SQL of the store belong here.
//!
//! # What survives what
//! The engine (`pglite-oxide`) writes through the host's page cache and never syncs, neither
//! on commit nor in a checkpoint. Three rules make up for it.
//!
//! * **`kill -9` of the process**: every transaction whose COMMIT was answered survives, with
//!   or without [`Embedded::sync_wal`]: the log is written before the answer, and the page
//!   cache outlives the process. Open transactions are rolled back at the next start.
//! * **Power cut or kernel panic**: every transaction that committed before a
//!   [`Embedded::sync_wal`] that returned `Ok` survives; a later one may be lost, whole. Log
//!   on disk is not enough, because an unsynced checkpoint may reach the disk in any order.
//!   So recovery after an unclean stop never trusts the cluster's own control file: it
//!   restarts from the *base*, a copy made only once everything its checkpoint relies on is
//!   synced (`base.rs`), and replays the log, whose full-page images repair torn pages.
//! * **The remaining gap**: a data page evicted from the 128 MB of shared buffers can reach
//!   the disk before its log record when neither a commit nor `sync_wal` follows for as long
//!   as the host keeps dirty pages (30 s by default on Linux). After a power cut in that
//!   window such a page may hold changes of a transaction the log does not know. Calling
//!   `sync_wal` after every commit, as the store does, keeps the window to one transaction.
//!
//! One connection has these limits, all measured: a second connection waits; a statement
//! cannot be cancelled and `statement_timeout` does nothing, so one whose caller left runs to
//! its end; `LISTEN` and `NOTIFY` on the same connection confuse sqlx.
//!
//! The engine checkpoints only when a connection closes, at recovery, and when told to.
//! [`Embedded::checkpoint_due`] says when; without it the log grows without bound.

mod base;
mod directory;
mod relay;
mod wal;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};

use base::Base;
pub use directory::relocate_cache;
use relay::Relay;
use wal::WalSync;

/// User and database inside the embedded cluster.
const USER: &str = "postgres";
/// See [`USER`].
const DATABASE: &str = "postgres";

/// Why the embedded database did not start, sync or stop.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedError {
    /// Another process, or another part of this one, has the directory open.
    #[error("the data directory {} is in use by a running server", dir.display())]
    AlreadyRunning {
        /// The directory asked for.
        dir: PathBuf,
    },
    /// The engine unpacks itself into the user's cache directory, which cannot be written.
    #[error(
        "the cache directory {} cannot be written ({source}); set XDG_CACHE_HOME to one that can",
        path.display()
    )]
    Cache {
        /// The cache directory, as found from `XDG_CACHE_HOME` and `HOME`.
        path: PathBuf,
        /// What the attempt to write into it said.
        source: io::Error,
    },
    /// A file operation on the data directory failed.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was attempted, as a present participle.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The log could not be made durable. Final: what a failed sync left unwritten is
    /// unknown, so every later sync fails too until the process starts anew.
    #[error("the write-ahead log could not be synced: {0}")]
    Sync(Arc<io::Error>),
    /// The engine did not start or stop.
    #[error("the embedded database engine: {0}")]
    Engine(String),
    /// `CHECKPOINT` was refused.
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

impl EmbeddedError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }
}

/// A running embedded PostgreSQL with pgvector. It serves ONE connection at a time, over a
/// Unix socket only its own user can reach; a second connection waits until the first ends.
pub(crate) struct Embedded {
    relay: Option<Relay>,
    wal: Arc<WalSync>,
    base: Arc<Base>,
    socket_dir: PathBuf,
    /// Released by the kernel when the process dies, however it dies.
    _lock: File,
}

impl Embedded {
    /// Starts the database whose files live in `dir`, made with mode 0700 when missing.
    /// Blocks (seconds at the very first start, when the engine is unpacked).
    ///
    /// # Errors
    /// [`EmbeddedError::AlreadyRunning`] when `dir` is in use, in this process or another.
    pub(crate) fn start(dir: &Path) -> Result<Self, EmbeddedError> {
        let (dir, lock) = directory::open(dir)?;
        let cache = directory::writable_cache()?;
        let root = dir.join("pg");
        let socket_dir = directory::socket_dir(&dir)?;
        let fresh_cache = !cache.join("runtime").exists();
        relay::prepare_cluster(&root, &cache, &socket_dir)?;
        let base = Base::open(&dir, &root, fresh_cache.then_some(cache))
            .map_err(EmbeddedError::io("opening", &root))?;
        let base = Arc::new(base);
        base.restore()
            .map_err(EmbeddedError::io("restoring the base in", &dir))?;
        let wal = Arc::new(WalSync::start(&base.wal_dir())?);
        let relay = Relay::start(
            root,
            socket_dir.clone(),
            Arc::clone(&base),
            Arc::clone(&wal),
        )?;
        Ok(Self {
            relay: Some(relay),
            wal,
            base,
            socket_dir,
            _lock: lock,
        })
    }

    /// How to connect. The pool must hold exactly one connection, and should keep it: each
    /// new connection is a new backend.
    pub(crate) fn connect_options(&self) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .socket(&self.socket_dir)
            .port(relay::PORT)
            .username(USER)
            .database(DATABASE)
            .ssl_mode(PgSslMode::Disable)
    }

    /// Makes every transaction that has committed before the call durable against a power
    /// cut. Concurrent callers share one sync that began after the last of their commits.
    ///
    /// # Errors
    /// [`EmbeddedError::Sync`], for good, once a sync has failed.
    pub(crate) async fn sync_wal(&self) -> Result<(), EmbeddedError> {
        self.wal.sync().await
    }

    /// Whether enough log was written since the last checkpoint that [`Self::checkpoint`]
    /// should run. Cheap; ask now and then, for example after a commit.
    pub(crate) fn checkpoint_due(&self) -> bool {
        self.wal.segments_since_base() >= base::CHECKPOINT_SEGMENTS
    }

    /// Checkpoints through the one connection, makes the result durable, and so lets the
    /// engine reuse old log. Must not run inside a transaction.
    ///
    /// # Errors
    /// [`EmbeddedError::Sql`] from `CHECKPOINT`, [`EmbeddedError::Sync`] or
    /// [`EmbeddedError::Io`] when the result could not be made durable: the old base stays.
    pub(crate) async fn checkpoint(&self, conn: &mut PgConnection) -> Result<(), EmbeddedError> {
        self.wal.sync().await?;
        sqlx::query("CHECKPOINT").execute(&mut *conn).await?;
        let (base, wal) = (Arc::clone(&self.base), Arc::clone(&self.wal));
        tokio::task::spawn_blocking(move || base.secure(&wal))
            .await
            .map_err(|join| EmbeddedError::Engine(join.to_string()))?
    }

    /// Stops cleanly: ends the open connection (an unfinished transaction is rolled back),
    /// makes everything durable, and releases the directory. Blocks until a running
    /// statement has ended. Dropping does the same, with errors only logged.
    ///
    /// # Errors
    /// The data are safe even then: the next start recovers as after a crash.
    pub(crate) fn stop(mut self) -> Result<(), EmbeddedError> {
        self.shut_down()
    }

    fn shut_down(&mut self) -> Result<(), EmbeddedError> {
        let Some(relay) = self.relay.take() else {
            return Ok(());
        };
        let stopped = relay.stop();
        directory::remove_socket_dir(&self.socket_dir);
        stopped?;
        self.base.settle()
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down() {
            tracing::warn!(%error, "the embedded database did not stop cleanly");
        }
    }
}
