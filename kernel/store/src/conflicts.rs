//! Memories that contradict each other: neighbours to compare with, what was decided, and
//! how that was resolved. What decides is not here.

use halofy_core::{Classification, MemoryId, Namespace, Standing};
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::chain::{read_incumbent, standing};
use crate::memory::read_id;
use crate::retrieval::as_limit;
use crate::scope::{current, readable};
use crate::{Incumbent, Scope, Store, StoreError, Transaction};

/// What was done about two memories that contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decision {
    /// The incumbent was closed.
    Superseded,
    /// The incoming tells of an earlier time, and was closed where the incumbent begins.
    Historical,
    /// The incoming was put aside.
    Disputed,
    /// Nothing: somebody has to decide.
    Review,
}

impl Decision {
    /// The name as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Superseded => "superseded",
            Self::Historical => "historical",
            Self::Disputed => "disputed",
            Self::Review => "review",
        }
    }

    /// Whether somebody has to decide.
    pub fn waits(self) -> bool {
        matches!(self, Self::Disputed | Self::Review)
    }

    fn read(name: &str) -> Result<Self, StoreError> {
        let all = [
            Self::Superseded,
            Self::Historical,
            Self::Disputed,
            Self::Review,
        ];
        let found = all.into_iter().find(|one| one.as_str() == name);
        found.ok_or_else(|| StoreError::Corrupt(format!("{name} is no decision")))
    }
}

/// A decision to be stored.
#[derive(Debug, Clone, Copy)]
pub struct NewConflict<'a> {
    /// Names it.
    pub id: &'a str,
    /// Where both live.
    pub namespace: &'a Namespace,
    /// The one that came later to the kernel.
    pub incoming: &'a MemoryId,
    /// The one that was there.
    pub incumbent: &'a MemoryId,
    /// What was done.
    pub decision: Decision,
    /// Who found it: a model, or `caller`.
    pub found_by: &'a str,
    /// Now.
    pub at: OffsetDateTime,
}

/// A stored decision.
#[derive(Debug, Clone)]
pub struct Conflict {
    /// Names it.
    pub id: String,
    /// Where both live.
    pub namespace: String,
    /// The one that came later to the kernel.
    pub incoming: MemoryId,
    /// What that one says.
    pub incoming_content: String,
    /// The one that was there.
    pub incumbent: MemoryId,
    /// What that one says.
    pub incumbent_content: String,
    /// What was done.
    pub decision: Decision,
    /// Who found it: a model, or `caller`.
    pub found_by: String,
    /// When.
    pub decided_at: OffsetDateTime,
    /// What came of it, if somebody resolved it.
    pub resolution: Option<String>,
    /// Who did.
    pub resolved_by: Option<String>,
    /// When.
    pub resolved_at: Option<OffsetDateTime>,
    /// Whether both fill one slot.
    pub one_slot: bool,
    /// Whether the incoming one was written to replace the incumbent.
    pub replacement: bool,
}

/// A memory that waits to be compared with its neighbours.
#[derive(Debug, Clone)]
pub struct Contender {
    /// What it weighs.
    pub incumbent: Incumbent,
    /// What it says.
    pub content: String,
    /// Its protection label.
    pub classification: Classification,
}

/// `select … from conflicts c`, with both memories: `m` is the incoming, `was` the incumbent.
macro_rules! select_conflicts {
    () => {
        "select c.id, c.namespace, c.incoming, c.incumbent, c.decision, c.found_by, c.decided_at,
                c.resolution, c.resolved_by, c.resolved_at,
                m.content as incoming_content, was.content as incumbent_content,
                coalesce(m.slot_key = was.slot_key, false) as one_slot,
                c.found_by = 'caller' and m.assertion_time = c.decided_at as replacement
           from conflicts c
           join memory_objects m on m.id = c.incoming
           join memory_objects was on was.id = c.incumbent"
    };
}

/// That the caller bound as `$1` is among the readers of both memories.
macro_rules! both_readable {
    () => {
        concat!(
            "(",
            readable!(),
            " and (was.readers is null or was.readers && $1))"
        )
    };
}

impl Store {
    /// A current memory of `namespace`, and its nearest current neighbours there that the
    /// same may read, nearest first. Nothing when it is not current any more.
    ///
    /// A memory without a vector has no neighbours.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn conflict_candidates(
        &self,
        namespace: &Namespace,
        id: &MemoryId,
        limit: usize,
    ) -> Result<Option<(Contender, Vec<Contender>)>, StoreError> {
        let rows = sqlx::query(concat!(
            "select near.* from memory_objects m cross join lateral (
                 select ",
            standing!("other"),
            ",
                        other.content, other.classification,
                        other.embedding <=> m.embedding as distance
                   from memory_objects other
                  where other.namespace = m.namespace and other.t_valid_to is null
                    and other.status = 'active' and other.id <> m.id
                    and other.readers is not distinct from m.readers
                    and other.embedding is not null and m.embedding is not null
                    and not exists (select from conflicts known
                                     where known.incoming in (m.id, other.id)
                                       and known.incumbent in (m.id, other.id))
                  order by (other.embedding <=> m.embedding) + 0, other.id limit $3
                 ) near
              where m.id = $2 and m.namespace = $1 and ",
            current!(),
            " order by near.distance, near.id"
        ))
        .bind(namespace.as_str())
        .bind(id.to_string())
        .bind(as_limit(limit))
        .fetch_all(self.pool())
        .await?;
        let own = sqlx::query(concat!(
            "select ",
            standing!("m"),
            ", m.content, m.classification
               from memory_objects m where m.namespace = $1 and m.id = $2 and ",
            current!()
        ))
        .bind(namespace.as_str())
        .bind(id.to_string())
        .fetch_optional(self.pool())
        .await?;
        let Some(own) = own else { return Ok(None) };
        let near = rows.iter().map(read_contender).collect::<Result<_, _>>()?;
        Ok(Some((read_contender(&own)?, near)))
    }

    /// Decisions about memories of the caller's own namespace, newest first: those that can
    /// still be resolved, or all; behind `after`, and about `memory`, if they are given. Only
    /// where the caller may read both.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn conflict_list(
        &self,
        scope: &Scope,
        only_open: bool,
        memory: Option<&MemoryId>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Conflict>, StoreError> {
        let rows = sqlx::query(concat!(
            select_conflicts!(),
            " where c.namespace = $2 and ",
            both_readable!(),
            " and (not $3 or (c.resolution is null and c.decision in ('disputed', 'review')))
              and ($5::text is null or c.id < $5)
              and ($6::text is null or $6 in (c.incoming, c.incumbent))
              order by c.id desc limit $4"
        ))
        .bind(scope.bound())
        .bind(scope.own().as_str())
        .bind(only_open)
        .bind(as_limit(limit))
        .bind(after)
        .bind(memory.map(ToString::to_string))
        .fetch_all(self.pool())
        .await?;
        rows.iter().map(read_conflict).collect()
    }
}

impl Transaction<'_> {
    /// Stores a decision.
    ///
    /// # Errors
    /// [`StoreError::Raced`] when the pair was decided already.
    pub async fn conflict_insert(&mut self, new: &NewConflict<'_>) -> Result<(), StoreError> {
        sqlx::query(
            "insert into conflicts
                    (id, namespace, incoming, incumbent, decision, found_by, decided_at)
             values ($1, $2, $3, $4, $5, $6, $7)",
        )
        .bind(new.id)
        .bind(new.namespace.as_str())
        .bind(new.incoming.to_string())
        .bind(new.incumbent.to_string())
        .bind(new.decision.as_str())
        .bind(new.found_by)
        .bind(new.at)
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// The decision with this id, for a caller who may read both memories. Locked until the
    /// end of the transaction.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn conflict_lock(
        &mut self,
        scope: &Scope,
        id: &str,
    ) -> Result<Option<Conflict>, StoreError> {
        let row = sqlx::query(concat!(
            select_conflicts!(),
            " where c.id = $2 and c.namespace = $3 and ",
            both_readable!(),
            " for update of c"
        ))
        .bind(scope.bound())
        .bind(id)
        .bind(scope.own().as_str())
        .fetch_optional(self.connection())
        .await?;
        row.as_ref().map(read_conflict).transpose()
    }

    /// The open disputes of a memory that was put aside, oldest first, whoever may see them.
    /// Locked until the end of the transaction.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn conflicts_of(&mut self, aside: &MemoryId) -> Result<Vec<Conflict>, StoreError> {
        let rows = sqlx::query(concat!(
            select_conflicts!(),
            " where c.incoming = $1 and c.decision = 'disputed' and c.resolution is null
              order by c.id for update of c"
        ))
        .bind(aside.to_string())
        .fetch_all(self.connection())
        .await?;
        rows.iter().map(read_conflict).collect()
    }

    /// Whether there is such a decision, whoever may see it: for the audit log, never for a
    /// caller.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn conflict_exists(&mut self, id: &str) -> Result<bool, StoreError> {
        let sql = "select exists (select from conflicts where id = $1)";
        let row = sqlx::query(sql).bind(id);
        Ok(row.fetch_one(self.connection()).await?.try_get(0)?)
    }

    /// Notes how a decision was resolved.
    ///
    /// # Errors
    /// [`StoreError::Raced`] when somebody did already.
    pub async fn conflict_resolve(
        &mut self,
        id: &str,
        resolution: &str,
        by: &str,
        at: OffsetDateTime,
    ) -> Result<(), StoreError> {
        let resolved = sqlx::query(
            "update conflicts set resolution = $2, resolved_by = $3, resolved_at = $4
              where id = $1 and resolution is null",
        )
        .bind(id)
        .bind(resolution)
        .bind(by)
        .bind(at)
        .execute(self.connection())
        .await?;
        match resolved.rows_affected() {
            1 => Ok(()),
            _ => Err(StoreError::Raced(format!("{id} was resolved already"))),
        }
    }

    /// Whether the pair was decided already, in either order.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn conflict_known(&mut self, a: &MemoryId, b: &MemoryId) -> Result<bool, StoreError> {
        let row = sqlx::query(
            "select exists (select from conflicts
                             where incoming = any($1) and incumbent = any($1)) as known",
        )
        .bind([a.to_string(), b.to_string()])
        .fetch_one(self.connection())
        .await?;
        Ok(row.try_get("known")?)
    }

    /// What a memory of `namespace` weighs, while it is current; it stays so until the end
    /// of the transaction.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_standing(
        &mut self,
        namespace: &Namespace,
        id: &MemoryId,
    ) -> Result<Option<Standing>, StoreError> {
        let row = sqlx::query(concat!(
            "select ",
            standing!("m"),
            " from memory_objects m
              where m.namespace = $1 and m.id = $2 and ",
            current!(),
            " for update"
        ))
        .bind(namespace.as_str())
        .bind(id.to_string())
        .fetch_optional(self.connection())
        .await?;
        let incumbent = row.as_ref().map(read_incumbent).transpose()?;
        Ok(incumbent.map(|one| one.standing))
    }
}

fn read_contender(row: &PgRow) -> Result<Contender, StoreError> {
    let classification: Json<Classification> = row.try_get("classification")?;
    Ok(Contender {
        incumbent: read_incumbent(row)?,
        content: row.try_get("content")?,
        classification: classification.0,
    })
}

fn read_conflict(row: &PgRow) -> Result<Conflict, StoreError> {
    Ok(Conflict {
        id: row.try_get("id")?,
        namespace: row.try_get("namespace")?,
        incoming: read_id(row.try_get("incoming")?)?,
        incoming_content: row.try_get("incoming_content")?,
        incumbent: read_id(row.try_get("incumbent")?)?,
        incumbent_content: row.try_get("incumbent_content")?,
        decision: Decision::read(row.try_get("decision")?)?,
        found_by: row.try_get("found_by")?,
        decided_at: row.try_get("decided_at")?,
        resolution: row.try_get("resolution")?,
        resolved_by: row.try_get("resolved_by")?,
        resolved_at: row.try_get("resolved_at")?,
        one_slot: row.try_get("one_slot")?,
        replacement: row.try_get("replacement")?,
    })
}
