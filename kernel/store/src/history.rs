//! A chain as it is shown: a memory with those that it replaced and those that replaced it,
//! page by page; and the one of them that held at a moment.

use halofy_core::{Memory, MemoryId};
use sqlx::Row;
use time::OffsetDateTime;

use crate::memory::{memory_columns, read_memory};
use crate::scope::in_scope;
use crate::{Scope, Store, StoreError};

/// Memories on one page.
const PAGE_ROWS: i64 = 1_000;
/// Bytes of contents and metadata on one page, unless its first memory alone has more.
const PAGE_BYTES: i64 = 1 << 20;

/// A part of a chain, oldest first.
#[derive(Debug, Clone, Default)]
pub struct HistoryPage {
    /// The memories.
    pub memories: Vec<Memory>,
    /// Whether more of the chain come after these.
    pub truncated: bool,
}

/// The table `chain (id)` of all that `$2` is linked with, when the scope bound as `$1` sees
/// it; some of them may not be the caller's to see.
macro_rules! chain {
    () => {
        concat!(
            "with recursive chain (id) as (
                 select m.id from memory_objects m where m.id = $2 and ",
            in_scope!(),
            " union
                 select linked.id
                   from chain
                   join memory_objects here on here.id = chain.id
                   cross join lateral (
                        select here.supersedes as id union all select here.restores
                        union all
                        select later.id from memory_objects later
                         where later.supersedes = here.id or later.restores = here.id) linked
                  where linked.id is not null)"
        )
    };
}

impl Store {
    /// The members of a memory's chain, oldest first: from its beginning, or those behind
    /// `after`. Empty when the caller cannot see the memory itself, when nothing is behind
    /// `after`, and when that is no member.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_history(
        &self,
        scope: &Scope,
        id: &MemoryId,
        after: Option<&MemoryId>,
    ) -> Result<HistoryPage, StoreError> {
        let rows = sqlx::query(concat!(
            chain!(),
            " select ",
            memory_columns!(),
            ", m.members > row_number() over (order by m.t_valid_from, m.id) as more
               from (select m.*, count(*) over () as members,
                            sum(octet_length(m.content)
                                + coalesce(octet_length(m.metadata::text), 0))
                                over (order by m.t_valid_from, m.id
                                      rows between unbounded preceding and 1 preceding) as before
                       from chain join memory_objects m on m.id = chain.id
                      where ",
            in_scope!(),
            "           and ($3::text is null
                             or (m.t_valid_from, m.id) >
                                (select last.t_valid_from, last.id
                                   from chain join memory_objects last on last.id = chain.id
                                  where last.id = $3))) m
              where coalesce(m.before, 0) < $5
              order by m.t_valid_from, m.id limit $4"
        ))
        .bind(scope.bound())
        .bind(id.to_string())
        .bind(after.map(ToString::to_string))
        .bind(PAGE_ROWS)
        .bind(PAGE_BYTES)
        .fetch_all(self.pool())
        .await?;
        let truncated = rows.last().map(|row| row.try_get("more")).transpose()?;
        Ok(HistoryPage {
            memories: rows.iter().map(read_memory).collect::<Result<_, _>>()?,
            truncated: truncated.unwrap_or(false),
        })
    }

    /// Whether the caller sees both memories, and they are of one chain.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memories_linked(
        &self,
        scope: &Scope,
        a: &MemoryId,
        b: &MemoryId,
    ) -> Result<bool, StoreError> {
        let row = sqlx::query(concat!(
            chain!(),
            " select exists (select from chain join memory_objects m on m.id = chain.id
                              where m.id = $3 and ",
            in_scope!(),
            ") as linked"
        ))
        .bind(scope.bound())
        .bind(a.to_string())
        .bind(b.to_string())
        .fetch_one(self.pool())
        .await?;
        Ok(row.try_get("linked")?)
    }

    /// The one of a memory's chain that held at a moment. After a decision was undone, two may
    /// have: the named one then, unless the other replaces it; else the later.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_held(
        &self,
        scope: &Scope,
        id: &MemoryId,
        at: OffsetDateTime,
    ) -> Result<Option<Memory>, StoreError> {
        let row = sqlx::query(concat!(
            chain!(),
            ", held as (
                 select m.* from chain join memory_objects m on m.id = chain.id
                  where ",
            in_scope!(),
            "       and m.status = 'active' and m.t_valid_from <= $3
                    and (m.t_valid_to is null or m.t_valid_to > $3))
             select ",
            memory_columns!(),
            "  from held m
              order by m.id = $2 and not exists (select from held next where next.supersedes = $2)
                       desc,
                       m.t_valid_from desc, m.id desc
              limit 1"
        ))
        .bind(scope.bound())
        .bind(id.to_string())
        .bind(at)
        .fetch_optional(self.pool())
        .await?;
        row.as_ref().map(read_memory).transpose()
    }
}
