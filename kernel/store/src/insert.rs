//! Inserting memories: any number in one statement, each deduplicated against what its
//! namespace holds.

use std::collections::HashMap;

use halofy_core::Classification;
use halofy_retrieval::terms;
use pgvector::Vector;
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::memory::read_id;
use crate::retold::{Met, is_met_by, said_again};
use crate::{NewMemory, Placement, StoreError, Transaction, Upserted};

/// Stands in no name and in no stem: joins what one array cannot hold as an array.
const JOINT: &str = "\u{1f}";

/// The columns of many memories, each as one array.
#[derive(Default)]
struct Columns<'a> {
    ids: Vec<String>,
    namespaces: Vec<&'a str>,
    actors: Vec<&'a str>,
    keys: Vec<&'a str>,
    calls: Vec<&'a str>,
    kinds: Vec<&'a str>,
    contents: Vec<&'a str>,
    content_keys: Vec<Vec<u8>>,
    stems: Vec<String>,
    event_times: Vec<Option<OffsetDateTime>>,
    asserted: Vec<OffsetDateTime>,
    valid_from: Vec<OffsetDateTime>,
    until: Vec<Option<OffsetDateTime>>,
    disputed: Vec<bool>,
    supersedes: Vec<Option<String>>,
    classifications: Vec<Json<&'a Classification>>,
    metadata: Vec<Option<Json<&'a serde_json::Value>>>,
    embeddings: Vec<Option<Vector>>,
    sources: Vec<&'a str>,
    trust: Vec<i16>,
    references: Vec<Option<&'a str>>,
    importers: Vec<Option<&'a str>>,
    models: Vec<Option<&'a str>>,
    readers: Vec<Option<String>>,
    slots: Vec<Option<&'a str>>,
    slot_keys: Vec<Option<Vec<u8>>>,
    entities: Vec<String>,
    told: Vec<Option<OffsetDateTime>>,
}

impl<'a> Columns<'a> {
    fn push(&mut self, new: &'a NewMemory<'_>, placement: Placement) {
        let (supersedes, until, disputed) = match placement {
            Placement::Current { supersedes } => (supersedes, None, false),
            Placement::Historical { until } => (None, Some(until), false),
            Placement::Disputed => (None, None, true),
        };
        let provenance = new.provenance;
        self.ids.push(new.id.to_string());
        self.namespaces.push(new.namespace.as_str());
        self.actors.push(new.actor);
        self.keys.push(new.key);
        self.calls.push(new.call);
        self.kinds.push(new.kind.as_str());
        self.contents.push(new.content);
        self.content_keys.push(new.content_key().to_vec());
        self.stems.push(stems(new.content));
        self.event_times.push(new.event_time);
        self.asserted.push(new.asserted_at);
        self.valid_from.push(new.valid_from());
        self.until.push(until);
        self.disputed.push(disputed);
        self.supersedes.push(supersedes.map(|id| id.to_string()));
        self.classifications.push(Json(new.classification));
        self.metadata.push(new.metadata.map(Json));
        self.embeddings
            .push(new.embedding.clone().map(Vector::from));
        self.sources.push(provenance.source.as_str());
        self.trust.push(provenance.source.trust());
        self.references.push(provenance.reference.as_deref());
        self.importers.push(provenance.importer.as_deref());
        self.models.push(new.model);
        self.readers
            .push(new.readers().map(|readers| readers.join(JOINT)));
        self.slots.push(new.slot);
        self.slot_keys.push(new.slot_key().map(Vec::from));
        self.entities.push(new.entities.join(JOINT));
        let told = (new.told_at != new.asserted_at).then_some(new.told_at);
        self.told.push(told);
    }
}

impl Transaction<'_> {
    /// Inserts a memory, or bumps the one that says the same in the same namespace.
    ///
    /// # Errors
    /// [`StoreError::Raced`] when another writer filled the slot or replaced the same memory.
    pub async fn memory_upsert(
        &mut self,
        new: &NewMemory<'_>,
        placement: Placement,
    ) -> Result<Upserted, StoreError> {
        let mut upserted = self.memories_upsert(&[(new, placement)]).await?;
        upserted
            .pop()
            .ok_or_else(|| StoreError::Corrupt("an insertion says nothing".to_owned()))
    }

    /// Inserts memories, or bumps those that say the same in the same namespaces, in one
    /// statement. No two of them may say the same in one namespace.
    ///
    /// # Errors
    /// As [`Transaction::memory_upsert`]; nothing is stored then.
    pub async fn memories_upsert(
        &mut self,
        new: &[(&NewMemory<'_>, Placement)],
    ) -> Result<Vec<Upserted>, StoreError> {
        let mut columns = Columns::default();
        for (memory, placement) in new {
            columns.push(memory, *placement);
        }
        let rows = sqlx::query(concat!(
            "insert into memory_objects as m
                    (id, namespace, actor, kind, content, content_key, lexemes, event_time,
                     assertion_time, t_valid_from, classification, metadata, embedding,
                     t_valid_to, closed_at, status, disputed_at, supersedes, source, trust,
                     source_ref, importer, model, key_id, call_id, readers, slot, slot_key,
                     entities, told_at)
             select n.id, n.namespace, n.actor, n.kind, n.content, n.content_key,
                    array_to_tsvector(string_to_array(n.stems, $28)), n.event_time,
                    n.asserted,
                    -- Where the one that it replaces ends, if that one replaced another:
                    -- it must not reach into the interval of the one before.
                    greatest(n.valid_from, (select was.t_valid_to from memory_objects was
                                             where was.id = n.supersedes
                                               and was.supersedes is not null)),
                    n.classification, n.metadata, n.embedding,
                    n.until, case when n.until is not null then n.asserted end,
                    case when n.disputed then 'disputed' else 'active' end,
                    case when n.disputed then n.asserted end, n.supersedes, n.source, n.trust,
                    n.reference, n.importer, n.model, n.key, n.call,
                    string_to_array(n.readers, $28), n.slot, n.slot_key,
                    string_to_array(n.entities, $28), n.told
               from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[],
                           $6::text[], $7::text[], $8::bytea[], $9::text[], $10::timestamptz[],
                           $11::timestamptz[], $12::timestamptz[], $13::timestamptz[],
                           $14::boolean[], $15::text[], $16::jsonb[], $17::jsonb[],
                           $18::vector[], $19::text[], $20::smallint[], $21::text[], $22::text[],
                           $23::text[], $24::text[], $25::text[], $26::bytea[], $27::text[],
                           $29::timestamptz[])
                    as n (id, namespace, actor, key, call, kind, content, content_key, stems,
                          event_time, asserted, valid_from, until, disputed, supersedes,
                          classification, metadata, embedding, source, trust, reference,
                          importer, model, readers, slot, slot_key, entities, told)
              -- In one order, so that two who say the same things do not wait for each other.
              order by n.namespace, n.content_key
             on conflict (namespace, content_key) where t_valid_to is null do update set ",
            said_again!(
                "excluded.trust",
                "excluded.call_id",
                "excluded.assertion_time"
            ),
            " where ",
            is_met_by!("excluded.trust"),
            " returning m.id, m.id = any($1) as inserted, m.status, m.namespace, m.content_key,
                       m.classification",
        ))
        .bind(&columns.ids)
        .bind(&columns.namespaces)
        .bind(&columns.actors)
        .bind(&columns.keys)
        .bind(&columns.calls)
        .bind(&columns.kinds)
        .bind(&columns.contents)
        .bind(&columns.content_keys)
        .bind(&columns.stems)
        .bind(&columns.event_times)
        .bind(&columns.asserted)
        .bind(&columns.valid_from)
        .bind(&columns.until)
        .bind(&columns.disputed)
        .bind(&columns.supersedes)
        .bind(&columns.classifications)
        .bind(&columns.metadata)
        .bind(&columns.embeddings)
        .bind(&columns.sources)
        .bind(&columns.trust)
        .bind(&columns.references)
        .bind(&columns.importers)
        .bind(&columns.models)
        .bind(&columns.readers)
        .bind(&columns.slots)
        .bind(&columns.slot_keys)
        .bind(&columns.entities)
        .bind(JOINT)
        .bind(&columns.told)
        .fetch_all(self.connection())
        .await?;
        let mut found = HashMap::with_capacity(rows.len());
        for row in &rows {
            let namespace: String = row.try_get("namespace")?;
            let key: Vec<u8> = row.try_get("content_key")?;
            found.insert((namespace, key), row);
        }
        let mut upserted = Vec::with_capacity(new.len());
        for (key, (memory, _)) in columns.content_keys.into_iter().zip(new) {
            let of = (memory.namespace.to_string(), key);
            // One that was put aside is not met by what ranks higher.
            let outranked = || StoreError::Raced("what says the same was put aside".to_owned());
            let row = found.get(&of).ok_or_else(outranked)?;
            upserted.push(self.upserted(row, memory).await?);
        }
        Ok(upserted)
    }

    async fn upserted(&mut self, row: &PgRow, new: &NewMemory<'_>) -> Result<Upserted, StoreError> {
        let id = read_id(row.try_get("id")?)?;
        if row.try_get("inserted")? {
            return Ok(Upserted::Inserted(id));
        }
        self.memory_tighten(&Met::read(row)?, new.classification)
            .await?;
        Ok(match row.try_get("status")? {
            "active" => Upserted::Deduplicated(id),
            _ => Upserted::Disputed(id),
        })
    }
}

/// The distinct stems of a text, joined.
fn stems(content: &str) -> String {
    let mut stems = terms(content);
    stems.sort_unstable();
    stems.dedup();
    stems.join(JOINT)
}
