//! SQL as it is, for tests that plant rows, tamper with them, or take the database
//! away. Exists only with the feature `testing`; no code of the kernel may use it.

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, ValueRef};

use crate::{Store, StoreError};

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
