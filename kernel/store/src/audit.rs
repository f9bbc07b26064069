//! The audit tables: appending, sequencing, reading back.
//!
//! Not here: what a row says (the gate), how it is hashed and verified
//! (`halofy-audit`).

use halofy_audit::{Chain, ChainEntry, Columns, Head, Record, Sealed, StoredEntry, StoredRow};
use halofy_core::Namespace;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};
use time::OffsetDateTime;

use crate::retrieval::as_limit;
use crate::scope::{in_subtree, subtree_pattern};
use crate::{Store, StoreError, Transaction};

/// How many rows are sequenced in one transaction.
const SEQUENCE_BATCH: i64 = 2_000;

/// The last link of the chain.
pub type ChainHead = Head;

/// What one pass of the sequencer did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequenced {
    /// Another kernel is at it.
    Busy,
    /// So many rows were chained; more may be waiting when it is a full batch.
    Rows(usize),
}

impl Sequenced {
    /// Whether another pass may find more.
    pub fn is_full(self) -> bool {
        matches!(self, Self::Rows(rows) if as_limit(rows) == SEQUENCE_BATCH)
    }
}

/// Which audit rows to read.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// Only a namespace and what lies below it.
    pub under: Option<Namespace>,
    /// At most so many, the newest.
    pub limit: usize,
}

impl Transaction<'_> {
    /// Adds a row to the log, in the transaction of the work that it describes.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn audit_insert(&mut self, row: &Sealed) -> Result<(), StoreError> {
        insert(self.connection(), std::slice::from_ref(row)).await
    }

    /// Adds the rows of several calls' work, in the transaction of all of it.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn audit_insert_all(&mut self, rows: &[Sealed]) -> Result<(), StoreError> {
        insert(self.connection(), rows).await
    }
}

impl Store {
    /// Adds rows to the log in one commit; on return they are durable.
    ///
    /// A commit whose outcome is unknown, since the connection broke, is tried
    /// again: a row that is there already stays as it is.
    ///
    /// # Errors
    /// None of the rows may be taken as stored.
    pub async fn audit_append(&self, rows: &[Sealed]) -> Result<(), StoreError> {
        match self.append_once(rows).await {
            Err(error) if error.is_transient() => {
                let missing = self.audit_missing(rows).await?;
                self.append_once(&missing).await?;
            }
            outcome => outcome?,
        }
        self.sync().await
    }

    async fn append_once(&self, rows: &[Sealed]) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut connection = self.pool().acquire().await?;
        insert(&mut connection, rows).await
    }

    async fn audit_missing(&self, rows: &[Sealed]) -> Result<Vec<Sealed>, StoreError> {
        let ids: Vec<&str> = rows
            .iter()
            .map(|row| row.columns().call_id.as_str())
            .collect();
        let there = sqlx::query("select call_id from audit_log where call_id = any($1)")
            .bind(ids)
            .fetch_all(self.pool())
            .await?;
        let there: Vec<String> = there
            .iter()
            .map(|row| row.try_get("call_id"))
            .collect::<Result<_, _>>()?;
        let missing = |row: &&Sealed| !there.contains(&row.columns().call_id);
        Ok(rows.iter().filter(missing).cloned().collect())
    }

    /// Chains the next batch of rows whose transactions are all decided.
    ///
    /// Invariant: only rows below the snapshot's oldest running transaction are
    /// taken, in order of (transaction, sequence), so that a transaction that
    /// commits late is chained later and never skipped.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn audit_sequence(&self) -> Result<Sequenced, StoreError> {
        let mut tx = self.pool().begin().await?;
        let elected: bool = sqlx::query(
            "select pg_try_advisory_xact_lock(hashtext('halofy/sequencer')) as elected",
        )
        .fetch_one(&mut *tx)
        .await?
        .try_get("elected")?;
        if !elected {
            return Ok(Sequenced::Busy);
        }
        let (mut chain, cursor) = read_head(&mut tx).await?;
        let rows = sqlx::query(
            "select seq, xid::text::bigint as xid, canonical from audit_log
              where (xid, seq) > ($1::text::xid8, $2)
                and xid < pg_snapshot_xmin(pg_current_snapshot())
              order by xid, seq limit $3",
        )
        .bind(cursor.xid.to_string())
        .bind(cursor.seq)
        .bind(SEQUENCE_BATCH)
        .fetch_all(&mut *tx)
        .await?;
        let entries = rows
            .iter()
            .map(|row| {
                let canonical: &[u8] = row.try_get("canonical")?;
                let leaf = halofy_audit::leaf_hash(canonical);
                Ok(chain.extend(row.try_get("seq")?, read_xid(row)?, leaf))
            })
            .collect::<Result<Vec<_>, StoreError>>()?;
        if !entries.is_empty() {
            insert_entries(&mut tx, &entries).await?;
            tx.commit().await?;
        }
        Ok(Sequenced::Rows(entries.len()))
    }

    /// The last link of the chain, if there is one.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn audit_head(&self) -> Result<Option<ChainHead>, StoreError> {
        let mut connection = self.pool().acquire().await?;
        Ok(read_head(&mut connection).await?.0.head())
    }

    /// A page of chained rows with an index above `after`, in order.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn audit_page(
        &self,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<StoredRow>, StoreError> {
        let rows = sqlx::query(
            "select c.idx, c.seq as chain_seq, c.xid::text::bigint as chain_xid, c.leaf, c.hash,
                    l.seq, l.xid::text::bigint as xid, l.call_id, l.ts, l.actor, l.agent_id,
                    l.key_id, l.op, l.memory_id, l.namespace, l.purpose, l.result, l.detail,
                    l.canonical
               from audit_chain c left join audit_log l on l.seq = c.seq
              where c.idx > $1 order by c.idx limit $2",
        )
        .bind(after.unwrap_or(-1))
        .bind(as_limit(limit))
        .fetch_all(self.pool())
        .await?;
        rows.iter()
            .map(|row| {
                let entry = Some(read_entry(row)?);
                let there = row.try_get::<Option<i64>, _>("seq")?.is_some();
                let record = there.then(|| read_record(row)).transpose()?;
                Ok(StoredRow { entry, record })
            })
            .collect()
    }

    /// A page of rows that are not chained, with a sequence number above `after`.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn audit_pending(
        &self,
        after: Option<i64>,
        limit: usize,
    ) -> Result<Vec<StoredRow>, StoreError> {
        let rows = sqlx::query(
            "select l.seq, l.xid::text::bigint as xid, l.call_id, l.ts, l.actor, l.agent_id,
                    l.key_id, l.op, l.memory_id, l.namespace, l.purpose, l.result, l.detail,
                    l.canonical
               from audit_log l
              where l.seq > $1 and not exists (select from audit_chain c where c.seq = l.seq)
              order by l.seq limit $2",
        )
        .bind(after.unwrap_or(i64::MIN))
        .bind(as_limit(limit))
        .fetch_all(self.pool())
        .await?;
        rows.iter()
            .map(|row| {
                let record = Some(read_record(row)?);
                Ok(StoredRow {
                    entry: None,
                    record,
                })
            })
            .collect()
    }

    /// The row of that sequence number.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn audit_find(&self, seq: i64) -> Result<Option<Record>, StoreError> {
        let row = sqlx::query(
            "select seq, xid::text::bigint as xid, call_id, ts, actor, agent_id, key_id, op,
                    memory_id, namespace, purpose, result, detail, canonical
               from audit_log where seq = $1",
        )
        .bind(seq)
        .fetch_optional(self.pool())
        .await?;
        row.as_ref().map(read_record).transpose()
    }

    /// The newest rows that pass the filter, oldest of them first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn audit_tail(&self, filter: &AuditFilter) -> Result<Vec<Record>, StoreError> {
        let limit = as_limit(filter.limit);
        let mut rows = match &filter.under {
            Some(namespace) => {
                sqlx::query(concat!(
                    "select seq, xid::text::bigint as xid, call_id, ts, actor, agent_id, key_id, op,
                            memory_id, namespace, purpose, result, detail, canonical
                       from audit_log where ",
                    in_subtree!(),
                    " order by seq desc limit $3"
                ))
                .bind(namespace.as_str())
                .bind(subtree_pattern(namespace))
                .bind(limit)
                .fetch_all(self.pool())
                .await?
            }
            None => sqlx::query(
                "select seq, xid::text::bigint as xid, call_id, ts, actor, agent_id, key_id, op,
                            memory_id, namespace, purpose, result, detail, canonical
                       from audit_log order by seq desc limit $1",
            )
            .bind(limit)
            .fetch_all(self.pool())
            .await?,
        };
        rows.reverse();
        rows.iter().map(read_record).collect()
    }
}

async fn insert(connection: &mut PgConnection, rows: &[Sealed]) -> Result<(), StoreError> {
    let columns = || rows.iter().map(Sealed::columns);
    let each = |pick: fn(&Columns) -> &str| columns().map(pick).collect::<Vec<_>>();
    let maybe = |pick: fn(&Columns) -> Option<&str>| columns().map(pick).collect::<Vec<_>>();
    let times: Vec<OffsetDateTime> = columns().map(|c| c.ts).collect();
    let canonical: Vec<&[u8]> = rows.iter().map(Sealed::canonical).collect();
    sqlx::query(
        "insert into audit_log (call_id, ts, actor, agent_id, key_id, op, memory_id, namespace,
                                purpose, result, detail, canonical)
         select * from unnest($1::text[], $2::timestamptz[], $3::text[], $4::text[], $5::text[],
                              $6::text[], $7::text[], $8::text[], $9::text[], $10::text[],
                              $11::text[], $12::bytea[])",
    )
    .bind(each(|c| &c.call_id))
    .bind(times)
    .bind(each(|c| &c.actor))
    .bind(each(|c| &c.agent_id))
    .bind(maybe(|c| c.key_id.as_deref()))
    .bind(each(|c| &c.op))
    .bind(maybe(|c| c.memory_id.as_deref()))
    .bind(each(|c| &c.namespace))
    .bind(maybe(|c| c.purpose.as_deref()))
    .bind(each(|c| &c.result))
    .bind(maybe(|c| c.detail.as_deref()))
    .bind(canonical)
    .execute(connection)
    .await?;
    Ok(())
}

/// The chain so far, and its last entry's place in the order of sequencing.
struct Cursor {
    xid: u64,
    seq: i64,
}

async fn read_head(connection: &mut PgConnection) -> Result<(Chain, Cursor), StoreError> {
    let row = sqlx::query(
        "select idx, seq, xid::text::bigint as xid, hash from audit_chain
          order by idx desc limit 1",
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else {
        return Ok((Chain::new(), Cursor { xid: 0, seq: 0 }));
    };
    let index: i64 = row.try_get("idx")?;
    let hash: &[u8] = row.try_get("hash")?;
    let damaged = || StoreError::Corrupt("the head of the audit chain".to_owned());
    let head = Head {
        index: u64::try_from(index).map_err(|_| damaged())?,
        hash: hash.try_into().map_err(|_| damaged())?,
    };
    let cursor = Cursor {
        xid: read_xid(&row)?,
        seq: row.try_get("seq")?,
    };
    Ok((Chain::resume(head), cursor))
}

async fn insert_entries(
    connection: &mut PgConnection,
    entries: &[ChainEntry],
) -> Result<(), StoreError> {
    let stored: Vec<StoredEntry> = entries.iter().map(StoredEntry::from).collect();
    let xids: Vec<String> = entries.iter().map(|entry| entry.xid.to_string()).collect();
    sqlx::query(
        "insert into audit_chain (idx, seq, xid, leaf, hash)
         select idx, seq, xid::xid8, leaf, hash
           from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[], $5::bytea[])
                as entry (idx, seq, xid, leaf, hash)",
    )
    .bind(stored.iter().map(|entry| entry.index).collect::<Vec<_>>())
    .bind(stored.iter().map(|entry| entry.seq).collect::<Vec<_>>())
    .bind(xids)
    .bind(
        stored
            .iter()
            .map(|entry| entry.leaf.as_slice())
            .collect::<Vec<_>>(),
    )
    .bind(
        stored
            .iter()
            .map(|entry| entry.hash.as_slice())
            .collect::<Vec<_>>(),
    )
    .execute(connection)
    .await?;
    Ok(())
}

fn read_xid(row: &PgRow) -> Result<u64, StoreError> {
    Ok(row.try_get::<i64, _>("xid")?.cast_unsigned())
}

fn read_entry(row: &PgRow) -> Result<StoredEntry, StoreError> {
    Ok(StoredEntry {
        index: row.try_get("idx")?,
        seq: row.try_get("chain_seq")?,
        xid: row.try_get("chain_xid")?,
        leaf: row.try_get("leaf")?,
        hash: row.try_get("hash")?,
    })
}

fn read_record(row: &PgRow) -> Result<Record, StoreError> {
    Ok(Record {
        seq: row.try_get("seq")?,
        xid: row.try_get("xid")?,
        columns: Columns {
            call_id: row.try_get("call_id")?,
            ts: row.try_get("ts")?,
            actor: row.try_get("actor")?,
            agent_id: row.try_get("agent_id")?,
            key_id: row.try_get("key_id")?,
            op: row.try_get("op")?,
            memory_id: row.try_get("memory_id")?,
            namespace: row.try_get("namespace")?,
            purpose: row.try_get("purpose")?,
            result: row.try_get("result")?,
            detail: row.try_get("detail")?,
        },
        canonical: row.try_get("canonical")?,
    })
}
