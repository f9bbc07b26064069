//! The order of a chain in time: where a memory that tells of an earlier time stands in it.
//!
//! Invariant: an interval that was closed stays as it was closed. A memory that began while
//! another held is linked between that one and its successor; from where it begins, the
//! predicate for a moment (`visible_at!`) shows it in place of that one.

use halofy_core::{MemoryId, Namespace};
use sqlx::Row;
use time::OffsetDateTime;

use crate::memory::read_id;
use crate::{StoreError, Transaction};

/// A place in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Between {
    /// The last member that begins no later, if there is one.
    pub after: Option<MemoryId>,
    /// The first member behind that.
    pub before: MemoryId,
    /// Where the members behind it begin.
    pub until: OffsetDateTime,
}

impl Transaction<'_> {
    /// Waits until nobody else decides what the slot of a namespace holds; until the end of
    /// the transaction nobody else does.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn slot_lock(&mut self, namespace: &Namespace, slot: &str) -> Result<(), StoreError> {
        sqlx::query("select pg_advisory_xact_lock(hashtextextended($1, hashtext($2)))")
            .bind(format!("halofy/slot/{namespace}"))
            .bind(slot)
            .execute(self.connection())
            .await?;
        Ok(())
    }

    /// Waits until nobody else replaces a memory of `namespace` under this name. Those who
    /// name another of its chain are not waited for: they find out when they close it.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_lock(
        &mut self,
        namespace: &Namespace,
        id: &MemoryId,
    ) -> Result<(), StoreError> {
        sqlx::query("select from memory_objects where id = $1 and namespace = $2 for update")
            .bind(id.to_string())
            .bind(namespace.as_str())
            .execute(self.connection())
            .await?;
        Ok(())
    }

    /// Where a memory that is believed from `from` on stands in the chain that ends in
    /// `last`, which begins later or was told of later.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_between(
        &mut self,
        last: &MemoryId,
        from: OffsetDateTime,
    ) -> Result<Between, StoreError> {
        let rows = sqlx::query(
            "with recursive line (id, supersedes, t_valid_from, depth) as (
                 select id, supersedes, t_valid_from, 0 from memory_objects where id = $1
                 union all
                 select was.id, was.supersedes, was.t_valid_from, line.depth + 1
                   from line join memory_objects was on was.id = line.supersedes
                  where line.depth = 0 or line.t_valid_from > $2)
             select id, depth > 0 and t_valid_from <= $2 as reached,
                    min(t_valid_from) filter (where depth = 0 or t_valid_from > $2) over ()
                        as until
               from line order by depth desc limit 2",
        )
        .bind(last.to_string())
        .bind(from)
        .fetch_all(self.connection())
        .await?;
        let mut after = None;
        for row in &rows {
            let id = read_id(row.try_get("id")?)?;
            match row.try_get::<bool, _>("reached")? {
                true => after = Some(id),
                false => {
                    return Ok(Between {
                        after,
                        before: id,
                        until: row.try_get("until")?,
                    });
                }
            }
        }
        Err(StoreError::Raced(format!("{last} is gone")))
    }

    /// Links a closed memory into its place. One that has another predecessor keeps it, and
    /// the chain stays as it is.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_splice(
        &mut self,
        id: &MemoryId,
        place: &Between,
    ) -> Result<(), StoreError> {
        let after = place.after.map(|id| id.to_string());
        let linked = sqlx::query(
            "update memory_objects set supersedes = $2
              where id = $1 and (supersedes is null or supersedes = $2)",
        )
        .bind(id.to_string())
        .bind(&after)
        .execute(self.connection())
        .await?;
        if linked.rows_affected() == 1 {
            sqlx::query(
                "update memory_objects set supersedes = $2
                  where id = $1 and supersedes is not distinct from $3",
            )
            .bind(place.before.to_string())
            .bind(id.to_string())
            .bind(&after)
            .execute(self.connection())
            .await?;
        }
        Ok(())
    }
}
