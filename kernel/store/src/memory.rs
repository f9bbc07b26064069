//! Memories: what is stored, and fetching one by id.
//!
//! Not here: the insertion (`insert.rs`), what is said again (`retold.rs`), what becomes of the
//! one that it contradicts (`chain.rs`, `conflicts.rs`).

use halofy_core::{
    Classification, Kind, Memory, MemoryId, Namespace, Origin, Provenance, SourceAccess, Status,
    Telemetry, Validity,
};
use sha2::{Digest, Sha256};
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::scope::{in_scope, visible};
use crate::{Scope, Store, StoreError};

/// A memory to be stored: classified and embedded.
#[derive(Debug, Clone)]
pub struct NewMemory<'a> {
    /// The id that it gets if it is new.
    pub id: MemoryId,
    /// Where it goes.
    pub namespace: &'a Namespace,
    /// Who writes it.
    pub actor: &'a str,
    /// With which key.
    pub key: &'a str,
    /// In which call.
    pub call: &'a str,
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
    /// When its writer told it: `asserted_at`, or before it.
    pub told_at: OffsetDateTime,
    /// Its protection label.
    pub classification: &'a Classification,
    /// What the writer attached.
    pub metadata: Option<&'a serde_json::Value>,
    /// Its vector, in the store's space; absent when its text may not leave for one.
    pub embedding: Option<Vec<f32>>,
    /// Where it comes from.
    pub provenance: &'a Provenance,
    /// The language model that drew it from a text.
    pub model: Option<&'a str>,
    /// What it fills.
    pub slot: Option<&'a str>,
    /// Canonical names of the entities it speaks of.
    pub entities: &'a [String],
    /// Whether its writer may not read it.
    pub unread: bool,
}

impl NewMemory<'_> {
    /// From when on it is believed: when it happened, unless that is yet to come.
    pub fn valid_from(&self) -> OffsetDateTime {
        self.event_time
            .map_or(self.told_at, |at| at.min(self.told_at))
    }

    /// Invariant: what only some may read is another fact than the same text for all, and
    /// what its writer may not read another than what its readers wrote, so that a
    /// duplicate tells nobody of what he cannot read. What fills a slot is another fact than
    /// the same text elsewhere, so that each slot can hold it.
    pub fn content_key(&self) -> [u8; 32] {
        self.keyed(self.normal_form, self.slot)
    }

    pub(crate) fn slot_key(&self) -> Option<[u8; 32]> {
        self.slot.map(|slot| self.keyed(slot, None))
    }

    fn keyed(&self, text: &str, slot: Option<&str>) -> [u8; 32] {
        let readers = self.readers().unwrap_or_default();
        let writer = self.unread.then_some(self.actor);
        // No text, reader, slot or actor holds the separator.
        let mut hash = Sha256::new_with_prefix(text);
        for reader in &readers {
            hash.update("\0");
            hash.update(reader);
        }
        for (name, part) in [("slot", slot), ("writer", writer)] {
            if let Some(part) = part {
                hash.update(format!("\0{name}\0{part}"));
            }
        }
        hash.finalize().into()
    }

    pub(crate) fn readers(&self) -> Option<Vec<String>> {
        self.provenance.source_access.readers()
    }
}

/// Where a new memory stands among those that are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// It is believed from now on, in place of another or of none.
    Current {
        /// The memory that it replaces, closed in the same transaction.
        supersedes: Option<MemoryId>,
    },
    /// It was believed until then: another that begins there is known already.
    Historical {
        /// The end of its interval.
        until: OffsetDateTime,
    },
    /// It is put aside: another that ranks higher says otherwise.
    Disputed,
}

/// What became of a [`NewMemory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upserted {
    /// It is a new row.
    Inserted(MemoryId),
    /// The namespace believes it already: that row was bumped, and holds the higher rank and
    /// the tighter label of both.
    Deduplicated(MemoryId),
    /// The namespace has put the same aside, from a source that ranks no lower: that row was
    /// bumped.
    Disputed(MemoryId),
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

/// The columns of a [`Memory`], of `memory_objects m`, for the scope bound as `$1`: a link to
/// what only others may read is not shown.
macro_rules! memory_columns {
    () => {
        "m.id, m.namespace, m.actor, m.kind, m.content, m.event_time, m.assertion_time,
         m.t_valid_from, m.t_valid_to, m.closed_at, m.status,
         (select was.id from memory_objects was where was.id = m.supersedes
             and (was.readers is null or was.readers && $1)) as supersedes,
         (select was.id from memory_objects was where was.id = m.restores
             and (was.readers is null or was.readers && $1)) as restores,
         m.classification, m.metadata, m.access_count, m.fault_count, m.source, m.trust,
         m.trust_raised, m.raised_by_call, m.source_ref, m.importer, m.model, m.key_id, m.call_id,
         m.readers, m.slot, m.entities"
    };
}
pub(crate) use memory_columns;

impl Store {
    /// The memory with this id.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_read(&self, scope: &Scope, id: &MemoryId) -> Result<Found, StoreError> {
        let row = sqlx::query(concat!(
            "select ",
            in_scope!(),
            " as in_scope, ",
            memory_columns!(),
            " from memory_objects m where m.id = $2"
        ))
        .bind(scope.bound())
        .bind(id.to_string())
        .fetch_optional(self.pool())
        .await?;
        match row {
            None => Ok(Found::Missing),
            Some(row) if !row.try_get::<bool, _>("in_scope")? => Ok(Found::Hidden),
            Some(row) => Ok(Found::Memory(Box::new(read_memory(&row)?))),
        }
    }

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
        .bind(scope.bound())
        .bind(ids)
        .fetch_all(self.pool())
        .await?;
        rows.iter().map(|row| Ok(row.try_get("id")?)).collect()
    }
}

pub(crate) fn read_id(text: &str) -> Result<MemoryId, StoreError> {
    MemoryId::parse(text).map_err(|error| StoreError::Corrupt(error.to_string()))
}

pub(crate) fn read_memory(row: &PgRow) -> Result<Memory, StoreError> {
    let damaged = |error: halofy_core::Invalid| StoreError::Corrupt(error.to_string());
    let text = |column: &str| row.try_get::<&str, _>(column);
    let id = |column: &str| -> Result<Option<MemoryId>, StoreError> {
        let id: Option<&str> = row.try_get(column)?;
        id.map(read_id).transpose()
    };
    let classification: Json<Classification> = row.try_get("classification")?;
    let metadata: Option<Json<serde_json::Value>> = row.try_get("metadata")?;
    Ok(Memory {
        id: read_id(text("id")?)?,
        namespace: Namespace::parse(text("namespace")?).map_err(damaged)?,
        actor: row.try_get("actor")?,
        kind: text("kind")?.parse().map_err(damaged)?,
        content: row.try_get("content")?,
        validity: Validity {
            event_time: row.try_get("event_time")?,
            assertion_time: row.try_get("assertion_time")?,
            valid_from: row.try_get("t_valid_from")?,
            valid_to: row.try_get("t_valid_to")?,
            closed_at: row.try_get("closed_at")?,
        },
        status: text("status")?.parse::<Status>().map_err(damaged)?,
        supersedes: id("supersedes")?,
        restores: id("restores")?,
        slot: row.try_get("slot")?,
        entities: row.try_get("entities")?,
        provenance: read_origin(row)?,
        classification: classification.0,
        metadata: metadata.map(|value| value.0),
        telemetry: Telemetry {
            access_count: row.try_get("access_count")?,
            fault_count: row.try_get("fault_count")?,
        },
    })
}

fn read_origin(row: &PgRow) -> Result<Origin, StoreError> {
    let damaged = |error: halofy_core::Invalid| StoreError::Corrupt(error.to_string());
    let readers: Option<Vec<String>> = row.try_get("readers")?;
    Ok(Origin {
        provenance: Provenance {
            source: row.try_get::<&str, _>("source")?.parse().map_err(damaged)?,
            reference: row.try_get("source_ref")?,
            importer: row.try_get("importer")?,
            source_access: SourceAccess::of_readers(readers.as_deref().unwrap_or_default()),
        },
        trust: row.try_get("trust")?,
        trust_raised: row.try_get("trust_raised")?,
        raised_by_call: row.try_get("raised_by_call")?,
        key: row.try_get("key_id")?,
        call: row.try_get("call_id")?,
        model: row.try_get("model")?,
    })
}
