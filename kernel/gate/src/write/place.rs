//! Facts that take the place of others, because they fill a slot or name a predecessor: each
//! is weighed against the one that holds now, and closes it, is closed where it begins, or
//! is put aside. In the transaction of the write.

use halofy_core::{Invalid, MemoryId, Standing, Verdict, weigh};
use halofy_store::{
    Decision, Incumbent, NewConflict, NewMemory, Placement, Scope, Successor, Transaction, Upserted,
};
use time::OffsetDateTime;
use ulid::Ulid;

use super::commit::{Attempt, Rider, Writing, labelled, outrank};
use super::outcome::WriteOutcome;
use crate::Refusal;
use crate::clock::now;

/// Who found a predecessor that the write itself named.
const CALLER: &str = "caller";

/// Waits for those who replace the same, and gives the moment at which the write's facts are
/// asserted: whoever is let in later asserts later, so that each begins where the one before
/// ends. A job asserts when it commits: nobody knew before what it stores.
pub(super) async fn queue(
    tx: &mut Transaction<'_>,
    writing: &Writing<'_>,
) -> Result<OffsetDateTime, Attempt> {
    let (namespace, draft) = (&writing.writer.namespace, &writing.draft);
    match (&draft.slot, &draft.supersedes) {
        (Some(slot), _) => tx.slot_lock(namespace, slot).await?,
        (None, Some(id)) => tx.memory_lock(namespace, id).await?,
        (None, None) => {
            if let Rider::Call(_) = writing.rider {
                return Ok(writing.told_at);
            }
        }
    }
    Ok(now())
}

/// Stores a fact in the place of another, if it may have it.
pub(super) async fn replace(
    tx: &mut Transaction<'_>,
    writing: &Writing<'_>,
    new: NewMemory<'_>,
    outcome: &mut WriteOutcome,
) -> Result<(), Attempt> {
    let incumbent = match writing.draft.supersedes {
        Some(id) => Some(successor(tx, writing, &id).await?),
        None => tx.memory_in_slot(&new).await?,
    };
    let label = outrank(tx, &new).await?;
    let new = &labelled(new, &label);
    match (tx.memory_bump(new).await?, incumbent) {
        (Some(Upserted::Disputed(id)), _) => outcome.disputed.push(id),
        (Some(Upserted::Deduplicated(id) | Upserted::Inserted(id)), incumbent) => {
            outcome.deduplicated.push(id);
            // What is believed already takes nobody's place but the one that is named.
            if let Some(incumbent) = incumbent.filter(|one| one.id != id) {
                stand_in(tx, new, &id, &incumbent, outcome).await?;
            }
        }
        (None, None) => {
            let placement = Placement::Current { supersedes: None };
            let stored = inserted(tx, new, placement).await?;
            outcome.stored.push(stored);
        }
        (None, Some(incumbent)) => place(tx, writing, new, &incumbent, outcome).await?,
    }
    Ok(())
}

/// Weighs a fact against the one whose place it takes.
async fn place(
    tx: &mut Transaction<'_>,
    writing: &Writing<'_>,
    new: &NewMemory<'_>,
    incumbent: &Incumbent,
    outcome: &mut WriteOutcome,
) -> Result<(), Attempt> {
    let verdict = match weigh(&standing(new), &incumbent.standing) {
        // Whoever names the one that is wrong means it, whenever the right one happened.
        Verdict::Historical if writing.draft.supersedes.is_some() => Verdict::Supersede,
        verdict => verdict,
    };
    let decision = match verdict {
        Verdict::Supersede => {
            let (at, until) = (new.asserted_at, new.valid_from());
            tx.memory_close(new.namespace, &incumbent.id, until, at)
                .await?;
            let supersedes = Some(incumbent.id);
            let id = inserted(tx, new, Placement::Current { supersedes }).await?;
            outcome.stored.push(id);
            outcome.superseded.push(incumbent.id);
            Decision::Superseded
        }
        Verdict::Historical => {
            let between = tx.memory_between(&incumbent.id, new.valid_from()).await?;
            let until = between.until;
            if let Some(told) = tx.memory_bump_ended(new, until).await? {
                outcome.deduplicated.push(told);
                return Ok(());
            }
            let id = inserted(tx, new, Placement::Historical { until }).await?;
            tx.memory_splice(&id, &between).await?;
            outcome.stored.push(id);
            Decision::Historical
        }
        Verdict::Dispute => {
            let id = inserted(tx, new, Placement::Disputed).await?;
            outcome.disputed.push(id);
            Decision::Disputed
        }
    };
    record(tx, new, &new.id, &incumbent.id, decision).await
}

/// Lets a memory that is believed already stand in the place of another, if a new one with
/// its text could have it.
async fn stand_in(
    tx: &mut Transaction<'_>,
    new: &NewMemory<'_>,
    id: &MemoryId,
    incumbent: &Incumbent,
    outcome: &mut WriteOutcome,
) -> Result<(), Attempt> {
    if weigh(&standing(new), &incumbent.standing) == Verdict::Dispute {
        return Ok(());
    }
    let (at, until) = (new.asserted_at, new.valid_from());
    tx.memory_close(new.namespace, &incumbent.id, until, at)
        .await?;
    tx.memory_link(id, &incumbent.id).await?;
    outcome.superseded.push(incumbent.id);
    if tx.conflict_known(id, &incumbent.id).await? {
        return Ok(());
    }
    record(tx, new, id, &incumbent.id, Decision::Superseded).await
}

fn standing(new: &NewMemory<'_>) -> Standing {
    Standing {
        trust: new.provenance.source.trust(),
        valid_from: new.valid_from(),
        assertion_time: new.told_at,
    }
}

/// Inserts what the namespace was just seen not to hold.
async fn inserted(
    tx: &mut Transaction<'_>,
    new: &NewMemory<'_>,
    placement: Placement,
) -> Result<MemoryId, Attempt> {
    match tx.memory_upsert(new, placement).await? {
        Upserted::Inserted(id) => Ok(id),
        Upserted::Deduplicated(id) | Upserted::Disputed(id) => Err(Attempt::Raced(format!(
            "{id} says the same since a moment ago"
        ))),
    }
}

/// What holds now in place of the memory that the caller names.
async fn successor(
    tx: &mut Transaction<'_>,
    writing: &Writing<'_>,
    id: &MemoryId,
) -> Result<Incumbent, Attempt> {
    let refused = |problem: &str| Attempt::from(Invalid::new("supersedes", problem));
    match tx.memory_successor(&Scope::of(writing.writer), id).await? {
        Successor::Current(incumbent) => Ok(incumbent),
        Successor::Ended => Err(refused("has ended, and nothing took its place")),
        Successor::Ancestors => Err(refused(
            "belongs to an ancestor of the key's namespace; only what is its own can be replaced",
        )),
        Successor::Hidden => Err(Attempt::Refused(Refusal::NotFound { hidden: true })),
        Successor::Missing => Err(Attempt::Refused(Refusal::NotFound { hidden: false })),
    }
}

async fn record(
    tx: &mut Transaction<'_>,
    new: &NewMemory<'_>,
    incoming: &MemoryId,
    incumbent: &MemoryId,
    decision: Decision,
) -> Result<(), Attempt> {
    let id = format!("cfl_{}", Ulid::generate());
    let new = NewConflict {
        id: &id,
        namespace: new.namespace,
        incoming,
        incumbent,
        decision,
        found_by: CALLER,
        at: new.asserted_at,
    };
    Ok(tx.conflict_insert(&new).await?)
}
