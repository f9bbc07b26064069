//! The entity registry: which entity a mention stands for, and new entities.

use halofy_core::{Namespace, normalize_for_dedupe};
use sqlx::Row;
use time::OffsetDateTime;

use crate::scope::in_namespaces;
use crate::{Scope, Store, StoreError, Transaction};

/// What a mention stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The mention, as asked.
    pub mention: String,
    /// Its form without regard to case and spacing: two mentions with the same one are one
    /// entity.
    pub folded: String,
    /// The entity that has it for a name or an alias; absent when there is none yet.
    pub canonical: Option<String>,
}

impl Store {
    /// What each of the mentions stands for, without regard to case, in the order of their
    /// folded forms. The caller's own namespace wins over its ancestors.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn entities_named(
        &self,
        scope: &Scope,
        mentions: &[String],
    ) -> Result<Vec<Named>, StoreError> {
        if mentions.is_empty() {
            return Ok(Vec::new());
        }
        let folded: Vec<String> = mentions
            .iter()
            .map(|name| normalize_for_dedupe(name))
            .collect();
        let rows = sqlx::query(concat!(
            "select distinct on (asked.folded, asked.name)
                    asked.name, asked.folded, m.canonical
               from unnest($2::text[], $3::text[]) as asked (name, folded)
               left join entity_registry m
                 on (coalesce(m.folded, lower(m.canonical)) = asked.folded
                     or exists (select from unnest(m.aliases) alias
                                 where lower(alias) = asked.folded))
                and ",
            in_namespaces!(),
            " order by asked.folded, asked.name, length(m.namespace) desc, m.canonical"
        ))
        .bind(scope.bound())
        .bind(mentions)
        .bind(folded)
        .fetch_all(self.pool())
        .await?;
        rows.iter()
            .map(|row| {
                Ok(Named {
                    mention: row.try_get("name")?,
                    folded: row.try_get("folded")?,
                    canonical: row.try_get("canonical")?,
                })
            })
            .collect()
    }
}

impl Transaction<'_> {
    /// Registers an entity under its canonical name.
    ///
    /// # Errors
    /// [`StoreError::Raced`] when the name was registered meanwhile: look again.
    pub async fn entity_insert(
        &mut self,
        id: &str,
        namespace: &Namespace,
        canonical: &str,
        now: OffsetDateTime,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "insert into entity_registry (id, namespace, canonical, folded, created_at)
             values ($1, $2, $3, $4, $5)",
        )
        .bind(id)
        .bind(namespace.as_str())
        .bind(canonical)
        .bind(normalize_for_dedupe(canonical))
        .bind(now)
        .execute(self.connection())
        .await?;
        Ok(())
    }
}
