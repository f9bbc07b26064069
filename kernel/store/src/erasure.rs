//! Erasure: the one way a memory goes away. In one transaction with its audit row.
//!
//! Not here: certificates.

use halofy_core::{MemoryId, Namespace};
use sqlx::Row;
use time::OffsetDateTime;

use crate::memory::read_id;
use crate::scope::{in_subtree, subtree_pattern};
use crate::{StoreError, Transaction};

/// What is to be erased, within the caller's namespace and what lies below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErasureTarget {
    /// One memory.
    Memory(MemoryId),
    /// What came from one document, episode or the like.
    Source(String),
    /// A namespace and what lies below it.
    Namespace(Namespace),
}

/// What was erased.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erased {
    /// The memories.
    pub memories: Vec<MemoryId>,
    /// Entities that nothing is left of.
    pub entities: u64,
    /// Decisions about erased memories.
    pub conflicts: u64,
    /// Memories that were put aside against an erased one, and ended with it.
    pub ended: u64,
}

impl Transaction<'_> {
    /// Erases memories: rows with their vectors, decisions about them, entities that no
    /// memory of their namespace speaks of any more. Links of the surviving rows into them
    /// are cut, and each leaves a tombstone. What was put aside against an erased memory ends:
    /// nobody can settle that dispute any more, and it must not keep its text from being said.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_erase(
        &mut self,
        ids: Vec<MemoryId>,
        call: &str,
        now: OffsetDateTime,
    ) -> Result<Erased, StoreError> {
        let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let run = async |this: &mut Self, sql: &'static str| -> Result<u64, StoreError> {
            let done = sqlx::query(sql).bind(&names);
            Ok(done.execute(this.connection()).await?.rows_affected())
        };
        let ended = self.end_put_aside_against(&names, now).await?;
        let conflicts = run(
            self,
            "delete from conflicts where incoming = any($1) or incumbent = any($1)",
        )
        .await?;
        run(
            self,
            "update memory_objects set supersedes = null where supersedes = any($1)",
        )
        .await?;
        run(
            self,
            "update memory_objects set restores = null where restores = any($1)",
        )
        .await?;
        sqlx::query(
            "insert into tombstones (memory_id, namespace, erased_at, call_id)
             select id, namespace, $2, $3 from memory_objects where id = any($1)",
        )
        .bind(&names)
        .bind(now)
        .bind(call)
        .execute(self.connection())
        .await?;
        let entities = run(
            self,
            "with gone as (delete from memory_objects where id = any($1)
                           returning id, namespace, entities)
             delete from entity_registry e
              where exists (select from gone where gone.namespace = e.namespace
                               and e.canonical = any(gone.entities))
                and not exists (select from memory_objects m
                                 where m.namespace = e.namespace and m.id <> all($1)
                                   and e.canonical = any(m.entities))",
        )
        .await?;
        Ok(Erased {
            memories: ids,
            entities,
            conflicts,
            ended,
        })
    }

    async fn end_put_aside_against(
        &mut self,
        doomed: &[String],
        now: OffsetDateTime,
    ) -> Result<u64, StoreError> {
        let ended = sqlx::query(
            "update memory_objects m set t_valid_to = greatest(m.t_valid_from, $2), closed_at = $2
               from conflicts c
              where c.incumbent = any($1) and c.incoming = m.id and c.decision = 'disputed'
                and c.resolution is null and m.status = 'disputed' and m.t_valid_to is null
                and m.id <> all($1)",
        )
        .bind(doomed)
        .bind(now)
        .execute(self.connection())
        .await?;
        Ok(ended.rows_affected())
    }

    /// What the target names below `within`, with all that say it again or that it says again:
    /// the kernel's own copies. Locked, so that nobody replaces it meanwhile.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_doomed(
        &mut self,
        within: &Namespace,
        target: &ErasureTarget,
    ) -> Result<Vec<MemoryId>, StoreError> {
        let mut doomed = self.named(within, target).await?;
        loop {
            doomed = self.lock_for_erasure(doomed).await?;
            // A copy that was on its way is there once its original is locked, and no other
            // can come.
            let copies = self.copies(&doomed).await?;
            if copies.is_empty() {
                return Ok(doomed);
            }
            doomed.extend(copies);
        }
    }

    /// Locks decisions before memories, as whoever resolves one does. Gives the memories that
    /// are there still, in order.
    async fn lock_for_erasure(&mut self, ids: Vec<MemoryId>) -> Result<Vec<MemoryId>, StoreError> {
        let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
        sqlx::query(
            "select from conflicts where incoming = any($1) or incumbent = any($1)
              order by id for update",
        )
        .bind(&names)
        .execute(self.connection())
        .await?;
        let rows =
            sqlx::query("select id from memory_objects where id = any($1) order by id for update")
                .bind(names)
                .fetch_all(self.connection())
                .await?;
        rows.iter().map(|row| read_id(row.try_get("id")?)).collect()
    }

    /// What one of `ids` says again, and what says one of them again, and is none of them.
    /// Both are always in one namespace.
    async fn copies(&mut self, ids: &[MemoryId]) -> Result<Vec<MemoryId>, StoreError> {
        let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let rows = sqlx::query(
            "select id from memory_objects
              where (restores = any($1)
                     or id in (select here.restores from memory_objects here
                                where here.id = any($1) and here.restores is not null))
                and id <> all($1)",
        )
        .bind(names)
        .fetch_all(self.connection())
        .await?;
        rows.iter().map(|row| read_id(row.try_get("id")?)).collect()
    }

    async fn named(
        &mut self,
        within: &Namespace,
        target: &ErasureTarget,
    ) -> Result<Vec<MemoryId>, StoreError> {
        let (column, value) = match target {
            ErasureTarget::Memory(id) => ("id", id.to_string()),
            ErasureTarget::Source(reference) => ("source_ref", reference.clone()),
            ErasureTarget::Namespace(namespace) if !within.contains(namespace) => {
                return Ok(Vec::new());
            }
            ErasureTarget::Namespace(namespace) => {
                return self.doomed_below(namespace).await;
            }
        };
        let sql = match column {
            "id" => concat!(
                "select id from memory_objects where ",
                in_subtree!(),
                " and id = $3"
            ),
            _ => concat!(
                "select id from memory_objects where ",
                in_subtree!(),
                " and source_ref = $3"
            ),
        };
        let rows = sqlx::query(sql)
            .bind(within.as_str())
            .bind(subtree_pattern(within))
            .bind(value)
            .fetch_all(self.connection())
            .await?;
        rows.iter().map(|row| read_id(row.try_get("id")?)).collect()
    }

    /// Whether there is such a memory, whoever may see it: for the audit log, never for a
    /// caller.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_exists(&mut self, id: &MemoryId) -> Result<bool, StoreError> {
        let sql = "select exists (select from memory_objects where id = $1)";
        let row = sqlx::query(sql).bind(id.to_string());
        Ok(row.fetch_one(self.connection()).await?.try_get(0)?)
    }

    async fn doomed_below(&mut self, namespace: &Namespace) -> Result<Vec<MemoryId>, StoreError> {
        let rows = sqlx::query(concat!(
            "select id from memory_objects where ",
            in_subtree!(),
        ))
        .bind(namespace.as_str())
        .bind(subtree_pattern(namespace))
        .fetch_all(self.connection())
        .await?;
        rows.iter().map(|row| read_id(row.try_get("id")?)).collect()
    }
}
