//! Memories: storing one, and fetching one by id.

use halofy_core::{Classification, Kind, Memory, MemoryId, Namespace, Telemetry, Validity};
use halofy_retrieval::terms;
use pgvector::Vector;
use sha2::{Digest, Sha256};
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::scope::{current, in_scope, visible};
use crate::{Scope, Store, StoreError, Transaction};

/// A memory to be stored: verbatim, classified and embedded.
#[derive(Debug)]
pub struct NewMemory<'a> {
    /// The id that it gets if it is new.
    pub id: MemoryId,
    /// Where it goes.
    pub namespace: &'a Namespace,
    /// Who writes it.
    pub actor: &'a str,
    /// What sort of thing it is.
    pub kind: Kind,
    /// What it says.
    pub content: &'a str,
    /// The form in which equal facts are equal.
    pub normal_form: &'a str,
    /// When its subject happened.
    pub event_time: Option<OffsetDateTime>,
    /// Now.
    pub asserted_at: OffsetDateTime,
    /// Its protection label.
    pub classification: &'a Classification,
    /// What the writer attached.
    pub metadata: Option<&'a serde_json::Value>,
    /// Its vector, in the store's space.
    pub embedding: Vec<f32>,
}

/// What became of a [`NewMemory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upserted {
    /// It is a new row.
    Inserted(MemoryId),
    /// The namespace believes it already: that row's telemetry was bumped.
    Deduplicated(MemoryId),
}

/// What an id leads to, for one caller. The caller is told the same in the
/// last two cases; the audit log is told the difference.
#[derive(Debug)]
pub enum Found {
    /// A memory in scope.
    Memory(Box<Memory>),
    /// A memory of somebody else.
    Hidden,
    /// Nothing.
    Missing,
}

impl Store {
    /// The memory with this id.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_read(&self, scope: &Scope, id: &MemoryId) -> Result<Found, StoreError> {
        let row = sqlx::query(concat!(
            "select ",
            in_scope!(),
            " as in_scope, m.id, m.namespace, m.actor, m.kind, m.content, m.event_time,
                    m.assertion_time, m.t_valid_from, m.t_valid_to, m.supersedes,
                    m.classification, m.metadata, m.access_count, m.fault_count
               from memory_objects m where m.id = $2"
        ))
        .bind(scope.namespaces())
        .bind(id.to_string())
        .fetch_optional(self.pool())
        .await?;
        match row {
            None => Ok(Found::Missing),
            Some(row) if !row.try_get::<bool, _>("in_scope")? => Ok(Found::Hidden),
            Some(row) => Ok(Found::Memory(Box::new(read_memory(&row)?))),
        }
    }
}

impl Store {
    /// Which of these memories are believed now.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memories_current(
        &self,
        scope: &Scope,
        ids: &[String],
    ) -> Result<Vec<String>, StoreError> {
        let rows = sqlx::query(concat!(
            "select m.id from memory_objects m where ",
            visible!(),
            " and m.id = any($2)"
        ))
        .bind(scope.namespaces())
        .bind(ids)
        .fetch_all(self.pool())
        .await?;
        rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
    }
}

impl Transaction<'_> {
    /// Inserts a memory, or bumps the one that says the same in the same namespace.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_upsert(&mut self, new: &NewMemory<'_>) -> Result<Upserted, StoreError> {
        let mut stems = terms(new.content);
        stems.sort_unstable();
        stems.dedup();
        let row = sqlx::query(
            "insert into memory_objects as m
                    (id, namespace, actor, kind, content, content_key, lexemes, event_time,
                     assertion_time, t_valid_from, classification, metadata, embedding)
             values ($1, $2, $3, $4, $5, $6, array_to_tsvector($7), $8, $9, $9, $10, $11, $12)
             on conflict (namespace, content_key) where t_valid_to is null and status = 'active'
             do update set access_count = m.access_count + 1, last_accessed = excluded.assertion_time
             returning m.id, m.id = $1 as inserted",
        )
        .bind(new.id.to_string())
        .bind(new.namespace.as_str())
        .bind(new.actor)
        .bind(new.kind.as_str())
        .bind(new.content)
        .bind(Sha256::digest(new.normal_form.as_bytes()).as_slice())
        .bind(stems)
        .bind(new.event_time)
        .bind(new.asserted_at)
        .bind(Json(new.classification))
        .bind(new.metadata.map(Json))
        .bind(Vector::from(new.embedding.clone()))
        .fetch_one(self.connection())
        .await?;
        let id = read_id(row.try_get("id")?)?;
        match row.try_get("inserted")? {
            true => Ok(Upserted::Inserted(id)),
            false => Ok(Upserted::Deduplicated(id)),
        }
    }
}

pub(crate) fn read_id(text: &str) -> Result<MemoryId, StoreError> {
    MemoryId::parse(text).map_err(|error| StoreError::Corrupt(error.to_string()))
}

fn read_memory(row: &PgRow) -> Result<Memory, StoreError> {
    let damaged = |error: halofy_core::Invalid| StoreError::Corrupt(error.to_string());
    let namespace: &str = row.try_get("namespace")?;
    let kind: &str = row.try_get("kind")?;
    let supersedes: Option<&str> = row.try_get("supersedes")?;
    let classification: Json<Classification> = row.try_get("classification")?;
    let metadata: Option<Json<serde_json::Value>> = row.try_get("metadata")?;
    Ok(Memory {
        id: read_id(row.try_get("id")?)?,
        namespace: Namespace::parse(namespace).map_err(damaged)?,
        actor: row.try_get("actor")?,
        kind: kind.parse().map_err(damaged)?,
        content: row.try_get("content")?,
        validity: Validity {
            event_time: row.try_get("event_time")?,
            assertion_time: row.try_get("assertion_time")?,
            valid_from: row.try_get("t_valid_from")?,
            valid_to: row.try_get("t_valid_to")?,
        },
        supersedes: supersedes.map(read_id).transpose()?,
        classification: classification.0,
        metadata: metadata.map(|value| value.0),
        telemetry: Telemetry {
            access_count: row.try_get("access_count")?,
            fault_count: row.try_get("fault_count")?,
        },
    })
}
