//! What a namespace spent on the language model, a day.

use halofy_core::Namespace;
use sqlx::Row;
use time::Date;

use crate::{Store, StoreError};

impl Store {
    /// Tokens that a namespace spent on a day (UTC).
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn model_usage(&self, namespace: &Namespace, day: Date) -> Result<u64, StoreError> {
        let row = sqlx::query("select tokens from model_usage where namespace = $1 and day = $2")
            .bind(namespace.as_str())
            .bind(day)
            .fetch_optional(self.pool())
            .await?;
        let tokens: Option<i64> = row.map(|row| row.try_get("tokens")).transpose()?;
        Ok(tokens.unwrap_or_default().try_into().unwrap_or_default())
    }

    /// Adds to what a namespace spent on a day (UTC).
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn model_usage_add(
        &self,
        namespace: &Namespace,
        day: Date,
        tokens: u64,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "insert into model_usage as u (namespace, day, calls, tokens) values ($1, $2, 1, $3)
             on conflict (namespace, day)
             do update set calls = u.calls + 1, tokens = u.tokens + excluded.tokens",
        )
        .bind(namespace.as_str())
        .bind(day)
        .bind(i64::try_from(tokens).unwrap_or(i64::MAX))
        .execute(self.pool())
        .await?;
        Ok(())
    }
}
