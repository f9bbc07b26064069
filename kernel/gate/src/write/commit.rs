//! Stage five, and the commit: entities, dedupe, insert. All facts of a write,
//! its audit row and what rides with it are one transaction; when another writer was first,
//! it is rolled back and decided again on what holds then.
//!
//! Not here: what a fact is weighed against, and where it goes (`place.rs`).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use halofy_core::{ConflictReview, EffectivePolicy, Identity, Invalid, normalize_for_dedupe};
use halofy_store::{ErasureMark, Scope, StoreError, Transaction};
use serde_json::json;
use time::OffsetDateTime;
use ulid::Ulid;

use super::candidates::Rejected;
use super::draft::Draft;
use super::group::{Plain, Ungrouped, conflict_check};
use super::outcome::WriteOutcome;
use super::place;
use super::prepare::Prepared;
use crate::Refusal;
use crate::audit::{Ending, Trail};
use crate::gate::Gate;
use crate::jobs::{self, Run};
use crate::prologue::Authorized;

/// After so many lost races a write gives up: somebody else keeps changing the same facts.
pub(crate) const MAX_ATTEMPTS: usize = 5;

/// A write on its way into the store.
pub(super) struct Writing<'a> {
    pub(super) writer: &'a Identity,
    pub(super) policy: &'a EffectivePolicy,
    pub(super) draft: Arc<Draft>,
    pub(super) facts: Vec<Arc<Prepared>>,
    /// When its caller told it.
    pub(super) told_at: OffsetDateTime,
    pub(super) rider: Rider<'a>,
    /// Before the text went to a model: what was erased until then. Jobs are ended by an
    /// erasure itself.
    pub(super) read_at: Option<ErasureMark>,
}

/// What is committed with the memories, for whoever waits for them.
#[derive(Clone, Copy)]
pub(crate) enum Rider<'a> {
    /// A call: its idempotency key and the answer under it.
    Call(&'a Authorized),
    /// A job: its end.
    Job(&'a Run),
}

impl Rider<'_> {
    /// Waits until going on is no use any more: the job was erased or taken away, or the
    /// kernel stops. Never, for a call.
    pub(super) async fn given_up(self) {
        match self {
            Self::Call(_) => std::future::pending().await,
            Self::Job(run) => run.give_up.cancelled().await,
        }
    }
}

/// The entities that a write speaks of.
struct Entities {
    /// Canonical names, by mention.
    named: HashMap<String, String>,
    /// Those that are not registered yet, in an order that all writers keep: they lock
    /// each other's names.
    new: Vec<String>,
}

impl Gate {
    /// Stores the facts of a write.
    pub(super) async fn store_facts(
        &self,
        writing: &Writing<'_>,
        outcome: WriteOutcome,
        trail: &mut Trail,
    ) -> Result<WriteOutcome, Refusal> {
        if let Some(plain) = self.plain(writing, &outcome, trail) {
            match self.group.commit(plain).await {
                Ok(outcome) => return Ok(self.committed(writing, outcome)),
                Err(Ungrouped::Refused(refusal)) => return Err(refusal),
                Err(Ungrouped::Alone) => {}
            }
        }
        let mut attempt = 1;
        loop {
            let entities = self.resolve_entities(writing).await?;
            match self
                .try_commit(writing, &entities, outcome.clone(), trail)
                .await
            {
                Err(Attempt::Raced(why)) if attempt < MAX_ATTEMPTS => {
                    tracing::debug!(%why, attempt, "a write is decided again");
                    attempt += 1;
                }
                Err(Attempt::Raced(why)) => {
                    return Err(Refusal::Unavailable { what: "store", why });
                }
                Err(Attempt::Refused(refusal)) => return Err(refusal),
                Ok(outcome) => return Ok(self.committed(writing, outcome)),
            }
        }
    }

    fn committed(&self, writing: &Writing<'_>, outcome: WriteOutcome) -> WriteOutcome {
        self.wake.notify();
        if self.looks_for_conflicts(writing.policy) {
            self.jobs.queued();
        }
        outcome
    }

    /// The write as a group can commit it: one fact of a call without an idempotency key,
    /// which takes nobody's place and names no entity.
    fn plain(&self, writing: &Writing<'_>, outcome: &WriteOutcome, trail: &Trail) -> Option<Plain> {
        let Rider::Call(caller) = writing.rider else {
            return None;
        };
        let [fact] = writing.facts.as_slice() else {
            return None;
        };
        let draft = &writing.draft;
        let takes_a_place = draft.slot.is_some() || draft.supersedes.is_some();
        let by_itself =
            takes_a_place || caller.idempotency().is_some() || writing.read_at.is_some();
        if by_itself || !fact.candidate.mentions.is_empty() {
            return None;
        }
        Some(Plain {
            writer: writing.writer.clone(),
            draft: draft.clone(),
            fact: fact.clone(),
            told_at: writing.told_at,
            trail: trail.clone(),
            outcome: outcome.clone(),
            checked: self.looks_for_conflicts(writing.policy),
        })
    }

    /// Which entities the mentions stand for. Read outside the transaction; a name that
    /// somebody registers meanwhile makes the transaction fail, and this is asked again.
    async fn resolve_entities(&self, writing: &Writing<'_>) -> Result<Entities, Refusal> {
        let mut mentions: Vec<String> = writing
            .facts
            .iter()
            .flat_map(|fact| fact.candidate.mentions.iter().cloned())
            .collect();
        mentions.sort_unstable();
        mentions.dedup();
        let scope = Scope::of(writing.writer);
        let found = self.store.entities_named(&scope, &mentions).await?;
        let mut named = HashMap::new();
        let mut new: Vec<String> = Vec::new();
        // Other spellings of a new name stand beside it.
        let mut beside = None;
        for one in found {
            let canonical = match (one.canonical, beside.take()) {
                (Some(canonical), _) => canonical,
                (None, Some((folded, canonical))) if folded == one.folded => canonical,
                (None, _) => {
                    new.push(one.mention.clone());
                    one.mention.clone()
                }
            };
            beside = Some((one.folded, canonical.clone()));
            named.insert(one.mention, canonical);
        }
        Ok(Entities { named, new })
    }

    /// Invariant: memories, decisions about them, and the audit row are one transaction.
    async fn try_commit(
        &self,
        writing: &Writing<'_>,
        entities: &Entities,
        mut outcome: WriteOutcome,
        trail: &mut Trail,
    ) -> Result<WriteOutcome, Attempt> {
        let mut tx = self.store.begin().await?;
        match writing.rider {
            Rider::Call(caller) => {
                caller.claim(&mut tx, None).await?;
                still_there(&mut tx, writing).await?;
            }
            // Before any memory: an erasure locks jobs before memories too.
            Rider::Job(run) => tx.job_hold(&run.job.lease).await?,
        }
        let at = place::queue(&mut tx, writing).await?;
        let mut mentioned = HashSet::new();
        for fact in &writing.facts {
            if outcome.stored.len() >= writing.draft.max_facts {
                outcome.rejected.push(Rejected {
                    candidate: fact.candidate.content.as_str().to_owned(),
                    reason: "max-facts-cap",
                });
                continue;
            }
            let asserted = (at, trail.call());
            let stored = store_fact(&mut tx, writing, fact, entities, &asserted, &mut outcome);
            mentioned.extend(stored.await?);
        }
        // Only what a new memory speaks of: an erasure finds an entity by its memories.
        for name in entities.new.iter().filter(|name| mentioned.contains(*name)) {
            let id = Ulid::generate().to_string();
            let namespace = &writing.writer.namespace;
            tx.entity_insert(&id, namespace, name, at).await?;
        }
        if let Some(id) = outcome.only_memory() {
            trail.memory(id);
        }
        if self.looks_for_conflicts(writing.policy) {
            for id in &outcome.stored {
                let payload = json!({ "memory": id });
                let check = conflict_check(&writing.writer.namespace, &payload);
                tx.job_insert(&check).await?;
            }
        }
        tx.audit_insert(&trail.seal(&Ending::ok(outcome.detail())))
            .await?;
        let (answer, touched) = (json!(outcome), outcome.touched());
        match writing.rider {
            Rider::Call(caller) => {
                let source_ref = writing.draft.provenance.reference.as_deref();
                caller.tells_of(&mut tx, source_ref).await?;
                caller.answered(&mut tx, &answer, &touched).await?;
            }
            Rider::Job(run) => jobs::finish(&mut tx, &run.job, &answer, &touched).await?,
        }
        tx.commit().await?;
        Ok(outcome)
    }

    /// Whether facts of the namespace are compared with their neighbours.
    pub(crate) fn looks_for_conflicts(&self, policy: &EffectivePolicy) -> bool {
        self.model.is_some() && policy.conflict_review != ConflictReview::Off
    }
}

/// How an attempt to commit ended, if not well.
pub(super) enum Attempt {
    Raced(String),
    Refused(Refusal),
}

impl From<StoreError> for Attempt {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Raced(why) => Self::Raced(why),
            other => Self::Refused(other.into()),
        }
    }
}

impl From<Refusal> for Attempt {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Invalid> for Attempt {
    fn from(invalid: Invalid) -> Self {
        Self::Refused(invalid.into())
    }
}

/// Whether nothing erased what a call tells of while a model read it.
async fn still_there(tx: &mut Transaction<'_>, writing: &Writing<'_>) -> Result<(), Attempt> {
    let Some(mark) = writing.read_at else {
        return Ok(());
    };
    let source = writing.draft.provenance.reference.as_deref();
    let erased = tx.erased_since(&writing.writer.namespace, source, mark);
    match erased.await? {
        true => Err(Refusal::Erased.into()),
        false => Ok(()),
    }
}

/// Stores a fact, and gives the names that a new memory speaks of.
async fn store_fact(
    tx: &mut Transaction<'_>,
    writing: &Writing<'_>,
    fact: &Prepared,
    entities: &Entities,
    (at, call): &(OffsetDateTime, String),
    outcome: &mut WriteOutcome,
) -> Result<Vec<String>, Attempt> {
    let (candidate, draft) = (&fact.candidate, &writing.draft);
    let names = canonical(&candidate.mentions, entities);
    let normal_form = normalize_for_dedupe(candidate.content.as_str());
    let mut new = fact.as_new(writing.writer, draft, *at, call, &normal_form, &names);
    if let Rider::Job(_) = writing.rider {
        new.told_at = writing.told_at.min(*at);
    }
    if draft.supersedes.is_some() || new.slot.is_some() {
        // Stored word for word: it mentions nobody.
        place::replace(tx, writing, new, outcome).await?;
        return Ok(Vec::new());
    }
    let stored = place::store(tx, writing, new, outcome).await?;
    Ok(if stored { names } else { Vec::new() })
}

fn canonical(mentions: &[String], entities: &Entities) -> Vec<String> {
    let known = |name: &String| entities.named.get(name).cloned();
    let mut names: Vec<String> = mentions.iter().filter_map(known).collect();
    names.sort_unstable();
    names.dedup();
    names
}
