//! Chains of supersedence: closing an interval, linking one memory to another, and finding
//! what holds now. Not here: a chain as it is shown (`history.rs`).
//!
//! Invariant: an interval is closed once. [`Transaction::memory_close`] matches only what is
//! current, and says when somebody else was first.

use halofy_core::{MemoryId, Namespace, Standing};
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;

use crate::memory::read_id;
use crate::scope::{current, in_scope, readable};
use crate::{NewMemory, Scope, StoreError, Transaction};

/// What is weighed of `memory_objects` under the name `$m`, as [`read_incumbent`] reads it.
macro_rules! standing {
    ($m:literal) => {
        concat!(
            $m,
            ".id, greatest(",
            $m,
            ".trust, ",
            $m,
            ".trust_raised) as trust, ",
            $m,
            ".t_valid_from, coalesce(",
            $m,
            ".told_at, ",
            $m,
            ".assertion_time) as assertion_time"
        )
    };
}
pub(crate) use standing;

/// A current memory that another may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incumbent {
    /// Its name.
    pub id: MemoryId,
    /// What it weighs.
    pub standing: Standing,
}

/// What a memory that a caller wants to replace leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Successor {
    /// The one that holds now: the memory itself, or what replaced it.
    Current(Incumbent),
    /// It ended, and nothing took its place.
    Ended,
    /// It lives in an ancestor of the caller's namespace.
    Ancestors,
    /// Somebody else's.
    Hidden,
    /// Nothing has this name.
    Missing,
}

impl Transaction<'_> {
    /// Ends the interval of a current memory of `namespace` at `until`, or where it begins
    /// if that is later.
    ///
    /// # Errors
    /// [`StoreError::Raced`] when it is not current any more.
    pub async fn memory_close(
        &mut self,
        namespace: &Namespace,
        id: &MemoryId,
        until: OffsetDateTime,
        now: OffsetDateTime,
    ) -> Result<(), StoreError> {
        self.close_where_open(namespace, id, until, now, "active")
            .await
    }

    /// Ends a memory that was put aside.
    ///
    /// # Errors
    /// [`StoreError::Raced`] when somebody settled it already.
    pub async fn memory_drop_disputed(
        &mut self,
        namespace: &Namespace,
        id: &MemoryId,
        now: OffsetDateTime,
    ) -> Result<(), StoreError> {
        self.close_where_open(namespace, id, now, now, "disputed")
            .await
    }

    async fn close_where_open(
        &mut self,
        namespace: &Namespace,
        id: &MemoryId,
        until: OffsetDateTime,
        now: OffsetDateTime,
        status: &str,
    ) -> Result<(), StoreError> {
        let closed = sqlx::query(
            "update memory_objects
                set t_valid_to = greatest(t_valid_from, $3), closed_at = $4
              where id = $1 and namespace = $2 and t_valid_to is null and status = $5",
        )
        .bind(id.to_string())
        .bind(namespace.as_str())
        .bind(until)
        .bind(now)
        .bind(status)
        .execute(self.connection())
        .await?;
        match closed.rows_affected() {
            1 => Ok(()),
            _ => Err(StoreError::Raced(format!(
                "{id} is not {status} and open any more"
            ))),
        }
    }

    /// Puts a current memory aside as disputed.
    ///
    /// # Errors
    /// [`StoreError::Raced`] when it is not current any more.
    pub async fn memory_put_aside(
        &mut self,
        namespace: &Namespace,
        id: &MemoryId,
        now: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let put = sqlx::query(
            "update memory_objects set status = 'disputed', disputed_at = $3
              where id = $1 and namespace = $2 and t_valid_to is null and status = 'active'",
        )
        .bind(id.to_string())
        .bind(namespace.as_str())
        .bind(now)
        .execute(self.connection())
        .await?;
        match put.rows_affected() {
            1 => Ok(()),
            _ => Err(StoreError::Raced(format!("{id} is not current any more"))),
        }
    }

    /// Names the predecessor of a current memory that has none, unless that predecessor has
    /// a current successor already.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_link(
        &mut self,
        id: &MemoryId,
        predecessor: &MemoryId,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "update memory_objects set supersedes = $2
              where id = $1 and supersedes is null
                and not exists (select from memory_objects other
                                 where other.supersedes = $2 and other.t_valid_to is null
                                   and other.status = 'active')",
        )
        .bind(id.to_string())
        .bind(predecessor.to_string())
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// Says a memory again that was closed or put aside: a new row `copy` with its text, vector
    /// and provenance, believed from `now` on.
    ///
    /// Returns whether it did: not when the namespace believes the text already.
    ///
    /// # Errors
    /// [`StoreError::Raced`] when its slot is filled, or the text is put aside.
    pub async fn memory_restore(
        &mut self,
        id: &MemoryId,
        copy: MemoryId,
        supersedes: Option<&MemoryId>,
        call: &str,
        now: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let row = sqlx::query(
            "insert into memory_objects
                    (id, namespace, actor, kind, content, content_key, lexemes, event_time,
                     assertion_time, t_valid_from, supersedes, restores, classification, metadata,
                     embedding, source, trust, trust_raised, raised_by_call, source_ref,
                     importer, model, key_id, call_id,
                     readers, slot, slot_key, entities)
             select $2, namespace, actor, kind, content, content_key, lexemes, event_time,
                    $4, $4,
                    -- Nothing takes the place of what only waits for a decision.
                    (select was.id from memory_objects was
                      where was.id = $3 and was.t_valid_to is not null),
                    id, classification, metadata,
                    embedding, source, trust, trust_raised, raised_by_call, source_ref, importer, model, key_id, $5,
                    readers, slot, slot_key, entities
               from memory_objects where id = $1
             on conflict (namespace, content_key) where t_valid_to is null do nothing
             returning id",
        )
        .bind(id.to_string())
        .bind(copy.to_string())
        .bind(supersedes.map(ToString::to_string))
        .bind(now)
        .bind(call)
        .fetch_optional(self.connection())
        .await?;
        match row {
            Some(_) => Ok(true),
            None => self.expect_believed(id).await.map(|()| false),
        }
    }

    /// Whether what `id` says is believed by its namespace, and not put aside.
    async fn expect_believed(&mut self, id: &MemoryId) -> Result<(), StoreError> {
        let row = sqlx::query(concat!(
            "select m.id from memory_objects was join memory_objects m
                 on m.namespace = was.namespace and m.content_key = was.content_key
              where was.id = $1 and ",
            current!()
        ))
        .bind(id.to_string())
        .fetch_optional(self.connection())
        .await?;
        match row {
            Some(_) => Ok(()),
            None => Err(StoreError::Raced(format!("what {id} says is disputed"))),
        }
    }

    /// The memory `id`, or the one that says it again, whichever holds now.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_incarnation(
        &mut self,
        namespace: &Namespace,
        id: &MemoryId,
    ) -> Result<Option<MemoryId>, StoreError> {
        let row = sqlx::query(concat!(
            "with recursive said (id) as (
                 select $2::text
                 union
                 select again.id from said join memory_objects again on again.restores = said.id)
             select m.id from said join memory_objects m on m.id = said.id
              where m.namespace = $1 and ",
            current!(),
            " order by m.id desc limit 1"
        ))
        .bind(namespace.as_str())
        .bind(id.to_string())
        .fetch_optional(self.connection())
        .await?;
        row.map(|row| read_id(row.try_get("id")?)).transpose()
    }

    /// The current memory in the slot that `new` fills, if there is one; it stays
    /// so until the end of the transaction.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_in_slot(
        &mut self,
        new: &NewMemory<'_>,
    ) -> Result<Option<Incumbent>, StoreError> {
        let Some(slot) = new.slot_key() else {
            return Ok(None);
        };
        let row = sqlx::query(concat!(
            "select ",
            standing!("m"),
            " from memory_objects m
              where m.namespace = $1 and m.slot_key = $2 and m.slot_key is not null and ",
            current!(),
            " for update"
        ))
        .bind(new.namespace.as_str())
        .bind(slot)
        .fetch_optional(self.connection())
        .await?;
        row.as_ref().map(read_incumbent).transpose()
    }

    /// The memory that holds now in place of `id`: itself, or the last of those that
    /// replaced it. It stays so until the end of the transaction.
    ///
    /// # Errors
    /// [`StoreError::Raced`] when it was replaced a moment ago.
    pub async fn memory_successor(
        &mut self,
        scope: &Scope,
        id: &MemoryId,
    ) -> Result<Successor, StoreError> {
        let start = sqlx::query(concat!(
            "select m.namespace, ",
            in_scope!(),
            " as in_scope from memory_objects m where m.id = $2"
        ))
        .bind(scope.bound())
        .bind(id.to_string())
        .fetch_optional(self.connection())
        .await?;
        match start {
            None => return Ok(Successor::Missing),
            Some(row) if !row.try_get::<bool, _>("in_scope")? => return Ok(Successor::Hidden),
            Some(row) if row.try_get::<&str, _>("namespace")? != scope.own().as_str() => {
                return Ok(Successor::Ancestors);
            }
            Some(_) => {}
        }
        let row = sqlx::query(concat!(
            "with recursive later (id) as (
                 select $2::text
                 union
                 select next.id from later
                   join memory_objects next on next.supersedes = later.id or next.restores = later.id)
             select m.id from later join memory_objects m on m.id = later.id
              where m.namespace = $3 and ",
            readable!(),
            " and ",
            current!(),
            " order by m.id = $2 desc, m.id desc limit 1"
        ))
        .bind(scope.bound())
        .bind(id.to_string())
        .bind(scope.own().as_str())
        .fetch_optional(self.connection())
        .await?;
        let Some(row) = row else {
            return Ok(Successor::Ended);
        };
        let id = read_id(row.try_get("id")?)?;
        match self.memory_standing(scope.own(), &id).await? {
            Some(standing) => Ok(Successor::Current(Incumbent { id, standing })),
            None => Err(StoreError::Raced(format!("{id} was replaced a moment ago"))),
        }
    }
}

pub(crate) fn read_incumbent(row: &PgRow) -> Result<Incumbent, StoreError> {
    Ok(Incumbent {
        id: read_id(row.try_get("id")?)?,
        standing: Standing {
            trust: row.try_get("trust")?,
            valid_from: row.try_get("t_valid_from")?,
            assertion_time: row.try_get("assertion_time")?,
        },
    })
}
