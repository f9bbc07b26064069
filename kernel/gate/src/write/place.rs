//! Where a fact goes. One that takes the place of others, because it fills a slot, names a
//! predecessor, or says again with a higher rank what was put aside for them, is weighed
//! against those that hold now, and closes them, is closed where one begins, or is put aside.
//! In the transaction of the write.

use halofy_core::{Classification, Invalid, MemoryId, Standing, Verdict, weigh};
use halofy_store::{
    Conflict, Decision, Incumbent, NewConflict, NewMemory, Placement, Scope, Successor,
    Transaction, Upserted,
};
use time::OffsetDateTime;
use ulid::Ulid;

use super::commit::{Attempt, Rider, Writing};
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

/// Stores a fact that names nobody whose place it takes. Whether there is a new memory.
pub(super) async fn store(
    tx: &mut Transaction<'_>,
    writing: &Writing<'_>,
    mut new: NewMemory<'_>,
    outcome: &mut WriteOutcome,
) -> Result<bool, Attempt> {
    let (label, rivals) = outrank(tx, writing, &mut new).await?;
    let new = &labelled(new, &label);
    if !rivals.is_empty() {
        return place(tx, new, &rivals, outcome).await;
    }
    let placement = Placement::Current { supersedes: None };
    match tx.memory_upsert(new, placement).await? {
        Upserted::Inserted(id) => {
            outcome.stored.push(id);
            return Ok(true);
        }
        Upserted::Deduplicated(id) => outcome.deduplicated.push(id),
        Upserted::Disputed(id) => outcome.disputed.push(id),
    }
    Ok(false)
}

/// Stores a fact in the place of another, if it may have it.
pub(super) async fn replace(
    tx: &mut Transaction<'_>,
    writing: &Writing<'_>,
    mut new: NewMemory<'_>,
    outcome: &mut WriteOutcome,
) -> Result<(), Attempt> {
    let named = writing.draft.supersedes;
    let incumbent = match named {
        Some(id) => Some(successor(tx, writing, &id).await?),
        None => tx.memory_in_slot(&new).await?,
    };
    let (label, others) = outrank(tx, writing, &mut new).await?;
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
        (None, incumbent) => {
            let meant = named.is_some();
            let mut rivals: Vec<Rival> = incumbent
                .into_iter()
                .map(|one| Rival::of(&one, meant))
                .collect();
            for mut other in others {
                other.meant |= meant;
                join(&mut rivals, other);
            }
            place(tx, new, &rivals, outcome).await?;
        }
    }
    Ok(())
}

/// A memory that a fact is weighed against, because it holds and says otherwise.
struct Rival {
    id: MemoryId,
    /// Nothing where the writer may not read it: nobody closes what he cannot see.
    standing: Option<Standing>,
    /// Whether somebody named it as the one that is wrong, and means it, whenever the right
    /// one happened.
    meant: bool,
}

impl Rival {
    fn of(incumbent: &Incumbent, meant: bool) -> Self {
        Self {
            id: incumbent.id,
            standing: Some(incumbent.standing),
            meant,
        }
    }

    /// What becomes of a fact beside it.
    fn verdict(&self, new: &Standing) -> Verdict {
        let against = |own: &Standing| match weigh(new, own) {
            Verdict::Historical if self.meant => Verdict::Supersede,
            verdict => verdict,
        };
        self.standing.as_ref().map_or(Verdict::Dispute, against)
    }
}

/// Adds a rival, once.
fn join(rivals: &mut Vec<Rival>, other: Rival) {
    if rivals.iter().all(|one| one.id != other.id) {
        rivals.push(other);
    }
}

/// Ends what was put aside and says the same, where this ranks higher. Gives the label that
/// holds from now on, since whatever was to be kept in about the text is to be kept in, and
/// what the other was put aside for, which this is weighed against in its turn.
async fn outrank(
    tx: &mut Transaction<'_>,
    writing: &Writing<'_>,
    new: &mut NewMemory<'_>,
) -> Result<(Classification, Vec<Rival>), Attempt> {
    let Some((aside, label)) = tx.memory_outranked(new).await? else {
        return Ok((new.classification.clone(), Vec::new()));
    };
    let mut rivals = Vec::new();
    for dispute in tx.conflicts_of(&aside).await? {
        if let Some(rival) = holder(tx, writing, &dispute).await? {
            join(&mut rivals, rival);
        }
    }
    // Nobody replaces them any more: this begins behind whatever they are by now.
    new.asserted_at = now();
    if let Rider::Call(_) = writing.rider {
        new.told_at = new.asserted_at;
    }
    tx.memory_outrank(new, &aside).await?;
    Ok((label.tightened(new.classification), rivals))
}

/// What holds now for the incumbent of a dispute: itself said again, or what took its place.
/// Nothing where nothing does.
async fn holder(
    tx: &mut Transaction<'_>,
    writing: &Writing<'_>,
    dispute: &Conflict,
) -> Result<Option<Rival>, Attempt> {
    let namespace = &writing.writer.namespace;
    let itself = tx.memory_incarnation(namespace, &dispute.incumbent).await?;
    let start = itself.unwrap_or(dispute.incumbent);
    let meant = dispute.found_by == CALLER && !dispute.one_slot;
    let scope = Scope::of(writing.writer);
    Ok(match tx.memory_successor(&scope, &start).await? {
        Successor::Current(incumbent) => Some(Rival::of(&incumbent, meant)),
        Successor::Hidden => itself.map(|id| Rival {
            id,
            standing: None,
            meant,
        }),
        Successor::Ended | Successor::Ancestors | Successor::Missing => None,
    })
}

fn labelled<'a>(new: NewMemory<'a>, label: &'a Classification) -> NewMemory<'a> {
    NewMemory {
        classification: label,
        ..new
    }
}

/// Weighs a fact against those whose place it takes: one of higher rank puts it aside, one
/// that tells of a later time closes it, and else all are closed. Whether there is a new
/// memory.
async fn place(
    tx: &mut Transaction<'_>,
    new: &NewMemory<'_>,
    rivals: &[Rival],
    outcome: &mut WriteOutcome,
) -> Result<bool, Attempt> {
    let own = standing(new);
    let first = |verdict| rivals.iter().find(|one| one.verdict(&own) == verdict);
    if let Some(rival) = first(Verdict::Dispute) {
        let id = inserted(tx, new, Placement::Disputed).await?;
        outcome.disputed.push(id);
        record(tx, new, &id, &rival.id, Decision::Disputed).await?;
        return Ok(true);
    }
    if let Some(rival) = first(Verdict::Historical) {
        return tell_of_before(tx, new, &rival.id, outcome).await;
    }
    for rival in rivals {
        let (at, until) = (new.asserted_at, new.valid_from());
        tx.memory_close(new.namespace, &rival.id, until, at).await?;
    }
    let supersedes = rivals.first().map(|rival| rival.id);
    let id = inserted(tx, new, Placement::Current { supersedes }).await?;
    outcome.stored.push(id);
    for rival in rivals {
        outcome.superseded.push(rival.id);
        record(tx, new, &id, &rival.id, Decision::Superseded).await?;
    }
    Ok(true)
}

/// Stores what tells of an earlier time than `incumbent`, in its place in the chain. Whether
/// there is a new memory.
async fn tell_of_before(
    tx: &mut Transaction<'_>,
    new: &NewMemory<'_>,
    incumbent: &MemoryId,
    outcome: &mut WriteOutcome,
) -> Result<bool, Attempt> {
    let between = tx.memory_between(incumbent, new.valid_from()).await?;
    let until = between.until;
    if let Some(told) = tx.memory_bump_ended(new, until).await? {
        outcome.deduplicated.push(told);
        return Ok(false);
    }
    let id = inserted(tx, new, Placement::Historical { until }).await?;
    tx.memory_splice(&id, &between).await?;
    outcome.stored.push(id);
    record(tx, new, &id, incumbent, Decision::Historical).await?;
    Ok(true)
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
