//! What is said again: the memory that says the same is met, counted, and from then on holds
//! the highest rank and the tightest label of all who said it. Its own words and source stay.
//!
//! Not here: saying again what was closed, after a decision was undone (`chain.rs`).

use halofy_core::{Classification, MemoryId};
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::memory::read_id;
use crate::{NewMemory, StoreError, Transaction, Upserted};

/// The rank that `memory_objects m` is weighed with: its writer's, or that of whoever of higher
/// rank said the same since.
macro_rules! rank {
    () => {
        "greatest(m.trust, m.trust_raised)"
    };
}

/// What is set of `memory_objects m` where a source of the rank `$rank` says it again, in the
/// call `$call`, at the moment `$at`.
macro_rules! said_again {
    ($rank:literal, $call:literal, $at:literal) => {
        concat!(
            "access_count = m.access_count + 1, last_accessed = ",
            $at,
            ", trust_raised = case when ",
            $rank,
            " > ",
            $crate::retold::rank!(),
            " then ",
            $rank,
            " else m.trust_raised end, raised_by_call = case when ",
            $rank,
            " > ",
            $crate::retold::rank!(),
            " then ",
            $call,
            " else m.raised_by_call end"
        )
    };
}

/// A row `memory_objects m` that a source of the rank `$rank` meets: not what was put aside,
/// where it ranks higher.
macro_rules! is_met_by {
    ($rank:literal) => {
        concat!(
            "(m.status = 'active' or ",
            $crate::retold::rank!(),
            " >= ",
            $rank,
            ")"
        )
    };
}

pub(crate) use {is_met_by, rank, said_again};

/// A row that was met, and how it is protected.
pub(crate) struct Met {
    id: MemoryId,
    label: Classification,
}

impl Met {
    /// From the columns `id` and `classification`.
    pub(crate) fn read(row: &PgRow) -> Result<Self, StoreError> {
        let label: Json<Classification> = row.try_get("classification")?;
        Ok(Self {
            id: read_id(row.try_get("id")?)?,
            label: label.0,
        })
    }
}

impl Transaction<'_> {
    /// Bumps the memory that says the same in the same namespace, if there is one.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_bump(
        &mut self,
        new: &NewMemory<'_>,
    ) -> Result<Option<Upserted>, StoreError> {
        let row = sqlx::query(concat!(
            "update memory_objects m set ",
            said_again!("$4", "$5", "$3"),
            " where m.namespace = $1 and m.content_key = $2 and m.t_valid_to is null and ",
            is_met_by!("$4"),
            " returning m.id, m.status, m.classification"
        ))
        .bind(new.namespace.as_str())
        .bind(new.content_key())
        .bind(new.asserted_at)
        .bind(new.provenance.source.trust())
        .bind(new.call)
        .fetch_optional(self.connection())
        .await?;
        let Some(row) = row else { return Ok(None) };
        let id = self.met_again(&row, new).await?;
        Ok(Some(match row.try_get("status")? {
            "active" => Upserted::Deduplicated(id),
            _ => Upserted::Disputed(id),
        }))
    }

    /// Bumps the memory that ended and said the same from the same moment on, until `until`
    /// at least.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_bump_ended(
        &mut self,
        new: &NewMemory<'_>,
        until: OffsetDateTime,
    ) -> Result<Option<MemoryId>, StoreError> {
        let row = sqlx::query(concat!(
            "update memory_objects m set ",
            said_again!("$6", "$7", "$5"),
            " where m.id = (select told.id from memory_objects told
                             where told.namespace = $1 and told.content_key = $2
                               and told.t_valid_from = $3 and told.t_valid_to >= $4
                               and told.status = 'active'
                             order by told.id limit 1 for update)
             returning m.id, m.classification"
        ))
        .bind(new.namespace.as_str())
        .bind(new.content_key())
        .bind(new.valid_from())
        .bind(until)
        .bind(new.asserted_at)
        .bind(new.provenance.source.trust())
        .bind(new.call)
        .fetch_optional(self.connection())
        .await?;
        match row {
            Some(row) => self.met_again(&row, new).await.map(Some),
            None => Ok(None),
        }
    }

    /// The row that `new` met, with the label that both have from now on.
    async fn met_again(
        &mut self,
        row: &PgRow,
        new: &NewMemory<'_>,
    ) -> Result<MemoryId, StoreError> {
        let met = Met::read(row)?;
        self.memory_tighten(&met, new.classification).await?;
        Ok(met.id)
    }

    /// Tightens the label of a row that is locked, where the other one is tighter.
    pub(crate) async fn memory_tighten(
        &mut self,
        met: &Met,
        other: &Classification,
    ) -> Result<(), StoreError> {
        let tightened = met.label.tightened(other);
        if tightened == met.label {
            return Ok(());
        }
        sqlx::query("update memory_objects set classification = $2 where id = $1")
            .bind(met.id.to_string())
            .bind(Json(tightened))
            .execute(self.connection())
            .await?;
        Ok(())
    }

    /// What says the same and was put aside, if `new` ranks higher, and its label, which holds
    /// for the text.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn memory_outranked(
        &mut self,
        new: &NewMemory<'_>,
    ) -> Result<Option<(MemoryId, Classification)>, StoreError> {
        let aside = sqlx::query(concat!(
            "select m.id, m.classification from memory_objects m
              where m.namespace = $1 and m.content_key = $2 and m.t_valid_to is null and not ",
            is_met_by!("$3")
        ))
        .bind(new.namespace.as_str())
        .bind(new.content_key())
        .bind(new.provenance.source.trust())
        .fetch_optional(self.connection())
        .await?;
        let aside = aside.as_ref().map(Met::read).transpose()?;
        Ok(aside.map(|aside| (aside.id, aside.label)))
    }

    /// Ends what was put aside and is said again in `new`, which ranks higher: its disputes
    /// were about a source that counted for less, and are resolved by `new`'s actor. Whoever
    /// asks has weighed `new` against their incumbents.
    ///
    /// # Errors
    /// [`StoreError::Raced`] when somebody settled it meanwhile.
    pub async fn memory_outrank(
        &mut self,
        new: &NewMemory<'_>,
        aside: &MemoryId,
    ) -> Result<(), StoreError> {
        // The decision before the memory, as whoever resolves it locks them.
        sqlx::query(
            "update conflicts set resolution = 'retold', resolved_by = $2, resolved_at = $3
              where incoming = $1 and decision = 'disputed' and resolution is null",
        )
        .bind(aside.to_string())
        .bind(new.actor)
        .bind(new.asserted_at)
        .execute(self.connection())
        .await?;
        self.memory_drop_disputed(new.namespace, aside, new.asserted_at)
            .await
    }
}
