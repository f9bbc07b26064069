//! SQL as it is, for tests that plant rows, tamper with them, or take the database
//! away. Exists only with the feature `testing`; no code of the kernel may use it.

use pgvector::Vector;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, ValueRef};

use crate::{NewMemory, Store, StoreError};

/// Rows of columns, each as the server writes it as text.
pub type RawRows = Vec<Vec<Option<String>>>;

impl Store {
    /// Runs statements on the store's own connection: the embedded database has no
    /// other. Several statements are one transaction, unless they say otherwise.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn raw_sql(&self, sql: &str) -> Result<RawRows, StoreError> {
        let statements = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        read(&statements.fetch_all(self.pool()).await?)
    }

    /// Inserts a memory as a bare client would: one statement, committed by itself, without
    /// looking for what says the same.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn raw_insert(&self, new: &NewMemory<'_>) -> Result<(), StoreError> {
        let mut stems = halofy_retrieval::terms(new.content);
        stems.sort_unstable();
        stems.dedup();
        sqlx::query(
            "insert into memory_objects
                    (id, namespace, actor, kind, content, content_key, lexemes, assertion_time,
                     t_valid_from, classification, embedding, source, trust, key_id, call_id)
             values ($1, $2, $3, $4, $5, $6, array_to_tsvector($7), $8, $8, $9, $10, $11, $12,
                     $13, $14)",
        )
        .bind(new.id.to_string())
        .bind(new.namespace.as_str())
        .bind(new.actor)
        .bind(new.kind.as_str())
        .bind(new.content)
        .bind(new.content_key())
        .bind(stems)
        .bind(new.asserted_at)
        .bind(Json(new.classification))
        .bind(new.embedding.clone().map(Vector::from))
        .bind(new.provenance.source.as_str())
        .bind(new.provenance.source.trust())
        .bind(new.key)
        .bind(new.call)
        .execute(self.pool())
        .await?;
        self.sync().await
    }

    /// Takes the database away, as an outage does: from now on no connection is to
    /// be had.
    pub async fn raw_cut_off(&self) {
        self.pool().close().await;
    }
}

/// Runs statements on a server, on a connection of their own.
///
/// # Errors
/// See [`StoreError`].
pub async fn raw_sql_at(url: &str, sql: &str) -> Result<RawRows, StoreError> {
    let mut connection = PgConnection::connect(url).await?;
    let statements = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
    let rows = statements.fetch_all(&mut connection).await?;
    connection.close().await?;
    read(&rows)
}

fn read(rows: &[PgRow]) -> Result<RawRows, StoreError> {
    let row = |row: &PgRow| (0..row.len()).map(|at| read_text(row, at)).collect();
    rows.iter().map(row).collect()
}

/// Statements without arguments are answered in text, whatever the type.
fn read_text(row: &PgRow, at: usize) -> Result<Option<String>, StoreError> {
    let value = row.try_get_raw(at)?;
    if value.is_null() {
        return Ok(None);
    }
    let text = value
        .as_str()
        .map_err(|error| StoreError::Corrupt(error.to_string()))?;
    Ok(Some(text.to_owned()))
}
