//! Opening and closing: connections, migrations, the vector space.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use halofy_core::Namespace;
use moka::sync::Cache;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::embedded::Embedded;
use crate::retrieval::Size;
use crate::{Location, StoreConfig, StoreError, VectorSpace};

const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
/// Commits after which the planner's figures are renewed.
const ANALYSE_AFTER: u64 = 1_000;
/// Larger vectors do not fit a page beside a memory and go out of line.
const MAX_INLINE_DIMENSION: usize = 1_000;
/// The most dimensions that an HNSW index of `vector` takes.
const MAX_INDEXED_DIMENSION: usize = 2_000;

/// An open store. Cheap to share behind an `Arc`; close it with [`Store::close`].
pub struct Store {
    pool: PgPool,
    embedded: Option<Embedded>,
    space: VectorSpace,
    /// How much each namespace sees. Only chooses a plan.
    pub(crate) sizes: Cache<Namespace, Size>,
    /// Commits since the planner was last told what they wrote.
    pub(crate) unanalysed: AtomicU64,
}

impl Store {
    /// Opens the database, brings its schema up to date, and checks that its
    /// vectors are in `space` (which the first boot fixes).
    ///
    /// # Errors
    /// [`StoreError::Embedded`] when another kernel holds the directory;
    /// [`StoreError::OtherEmbedder`]; [`StoreError::Migration`];
    /// [`StoreError::Unavailable`].
    pub async fn open(config: StoreConfig, space: VectorSpace) -> Result<Self, StoreError> {
        let (options, embedded, connections) = match &config.location {
            Location::Embedded(dir) => {
                let embedded = start_embedded(dir).await?;
                (embedded.connect_options(), Some(embedded), 1)
            }
            Location::Server(url) => (server_options(url)?, None, config.max_connections),
        };
        let pool = connect(options, connections).await?;
        sqlx::migrate!("../../migrations")
            .run(&pool)
            .await
            .map_err(|error| StoreError::Migration(error.to_string()))?;
        let sizes = Cache::builder()
            .max_capacity(10_000)
            .time_to_live(Duration::from_secs(10))
            .build();
        let store = Self {
            pool,
            embedded,
            space,
            sizes,
            unanalysed: AtomicU64::new(0),
        };
        store.fix_vector_space().await?;
        store.sync().await?;
        Ok(store)
    }

    /// The space that the stored vectors are in.
    pub fn space(&self) -> &VectorSpace {
        &self.space
    }

    /// Whether the database runs inside this process, on one connection.
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// Whether the database answers now.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`].
    pub async fn ping(&self) -> Result<(), StoreError> {
        sqlx::query("select 1").execute(&self.pool).await?;
        Ok(())
    }

    /// Opens every connection that the pool may hold. Before serving: logging in to a
    /// server can take longer than a cartridge may wait for its view.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the server gives fewer.
    pub async fn warm(&self) -> Result<(), StoreError> {
        let most = self.pool.options().get_max_connections();
        let opening = (0..most).map(|_| self.pool.acquire());
        // Held together, so that none is handed out twice.
        let opened = futures_util::future::try_join_all(opening).await?;
        drop(opened);
        Ok(())
    }

    /// Closes every connection and, if embedded, stops the database.
    pub async fn close(self) {
        self.pool.close().await;
        if let Some(embedded) = self.embedded {
            let stopped = tokio::task::spawn_blocking(move || embedded.stop()).await;
            if let Ok(Err(error)) = stopped {
                tracing::warn!(%error, "the embedded database did not stop cleanly");
            }
        }
    }

    /// Upkeep between calls: fresh figures for the planner when many rows were
    /// written (a server's own come a minute late), and, embedded, a checkpoint when
    /// enough log was. Call it now and then.
    ///
    /// # Errors
    /// See [`StoreError`]; nothing is lost, a later call does it.
    pub async fn maintain(&self) -> Result<(), StoreError> {
        if self.unanalysed.load(Ordering::Relaxed) >= ANALYSE_AFTER {
            self.unanalysed.store(0, Ordering::Relaxed);
            sqlx::query("analyze memory_objects")
                .execute(&self.pool)
                .await?;
        }
        if let Some(embedded) = &self.embedded
            && embedded.checkpoint_due()
        {
            let mut connection = self.pool.acquire().await?;
            embedded.checkpoint(&mut connection).await?;
        }
        Ok(())
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Waits until what was committed before the call survives a power cut. A
    /// server sees to that itself; the embedded database never syncs.
    pub(crate) async fn sync(&self) -> Result<(), StoreError> {
        match &self.embedded {
            Some(embedded) => Ok(embedded.sync_wal().await?),
            None => Ok(()),
        }
    }

    async fn fix_vector_space(&self) -> Result<(), StoreError> {
        let mut tx = self.pool.begin().await?;
        // Two kernels may boot at once.
        tx.execute("select pg_advisory_xact_lock(hashtext('halofy/vector-space'))")
            .await?;
        let stored = sqlx::query("select embedder, dimension from kernel_settings")
            .fetch_optional(&mut *tx)
            .await?;
        match stored {
            Some(row) => check_space(&row, &self.space)?,
            None => create_space(&mut tx, &self.space).await?,
        }
        tx.commit().await?;
        Ok(())
    }
}

async fn start_embedded(dir: &Path) -> Result<Embedded, StoreError> {
    let dir = dir.to_owned();
    let started = tokio::task::spawn_blocking(move || Embedded::start(&dir)).await;
    let started = started.map_err(|error| StoreError::Unavailable(error.to_string()))?;
    Ok(started?)
}

fn server_options(url: &str) -> Result<PgConnectOptions, StoreError> {
    let options: PgConnectOptions = url
        .parse()
        .map_err(|error: sqlx::Error| StoreError::Unavailable(error.to_string()))?;
    Ok(options.application_name("halofy"))
}

async fn connect(options: PgConnectOptions, connections: u32) -> Result<PgPool, StoreError> {
    let pool = PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        // A ping before each acquire would double the round trips; a broken
        // connection shows as `Unavailable` once and is replaced.
        .test_before_acquire(false)
        .idle_timeout(None)
        .max_lifetime(None)
        .after_connect(|connection, _| Box::pin(configure(connection)))
        .connect_with(options)
        .await?;
    Ok(pool)
}

/// What every statement of the kernel runs under.
async fn configure(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    for setting in [
        "set timezone = 'UTC'",
        "set statement_timeout = '30s'",
        "set hnsw.iterative_scan = 'strict_order'",
        "set hnsw.ef_search = 200",
        // A scan that gives up early answers with rows that are not the nearest, and
        // says nothing: it must get past a crowd of rows that the caller cannot see.
        "set hnsw.max_scan_tuples = 1000000",
        "set hnsw.scan_mem_multiplier = 16",
        // Which plan fits how many rows is decided in `retrieval.rs`; planning anew
        // for each call costs as much as the call.
        "set plan_cache_mode = 'force_generic_plan'",
        // Such short statements never earn back a compilation.
        "set jit = off",
    ] {
        connection.execute(setting).await?;
    }
    Ok(())
}

fn check_space(row: &sqlx::postgres::PgRow, space: &VectorSpace) -> Result<(), StoreError> {
    let stored: String = row.try_get("embedder")?;
    let dimension: i32 = row.try_get("dimension")?;
    if stored == space.embedder && usize::try_from(dimension) == Ok(space.dimension) {
        return Ok(());
    }
    Err(StoreError::OtherEmbedder {
        stored: format!("{stored} ({dimension} dimensions)"),
        configured: format!("{} ({} dimensions)", space.embedder, space.dimension),
    })
}

async fn create_space(
    connection: &mut PgConnection,
    space: &VectorSpace,
) -> Result<(), StoreError> {
    let dimension = space.dimension;
    let as_column = i32::try_from(dimension).unwrap_or(i32::MAX);
    sqlx::query("insert into kernel_settings (embedder, dimension) values ($1, $2)")
        .bind(&space.embedder)
        .bind(as_column)
        .execute(&mut *connection)
        .await?;
    // A type modifier cannot be bound; `dimension` is a number and nothing else.
    // A memory that may not leave for an embedder outside has none.
    for (table, null) in [("memory_objects", ""), ("concepts", " not null")] {
        let add = format!("alter table {table} add column embedding vector({dimension}){null}");
        connection.execute(AssertSqlSafe(add)).await?;
    }
    if dimension <= MAX_INLINE_DIMENSION {
        connection
            .execute("alter table memory_objects alter column embedding set storage plain")
            .await?;
    }
    if dimension <= MAX_INDEXED_DIMENSION {
        connection
            .execute(
                "create index memory_objects_embedding_idx on memory_objects
                 using hnsw (embedding vector_cosine_ops)
                 where t_valid_to is null and status = 'active'",
            )
            .await?;
    }
    Ok(())
}
