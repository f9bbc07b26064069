//! The check of one committed fact: a model compares it with its nearest neighbours, and the
//! trust lattice settles each contradiction that it confirms.
//!
//! Without a model nothing is decided. A model that fails, or may not see the text, decides
//! nothing either: both facts stay.
//!
//! Invariant: whatever is decided is decided under the lease of the check's job. One that was
//! cancelled, erased or taken over decides nothing.

use std::time::Duration;

use halofy_audit::Detail;
use halofy_core::{
    Classification, ConflictReview, Destination, EffectivePolicy, MemoryId, Provider, Standing,
    Verdict, weigh,
};
use halofy_store::{Contender, Decision, NewConflict, StoreError};
use ulid::Ulid;

use crate::Refusal;
use crate::audit::{Ending, Trail};
use crate::clock::now;
use crate::gate::Gate;
use crate::jobs::Run;
use crate::model::{Model, ModelError, Reply};
use crate::write::{MAX_ATTEMPTS, NoAllowance};

/// So many neighbours are compared.
const NEIGHBOURS: usize = 8;
/// How long a decision waits for those who change the same facts before it is made anew. Less
/// than the database waits before it ends a deadlock, which may end the other side.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// What a check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Checked {
    /// Neighbours that a model compared it with.
    pub(crate) compared: usize,
    /// Contradictions that were settled or put before somebody.
    pub(crate) decided: usize,
}

/// Why a check did not come to its end.
#[derive(Debug)]
pub(crate) enum Unchecked {
    /// The model was no help.
    Model(ModelError),
    /// The namespace may not ask it now.
    NoAllowance(NoAllowance),
    /// The job is not this kernel's any more, or the kernel stops.
    GivenUp,
    /// Others changed the same facts again and again.
    Raced,
    /// Anything else.
    Refused(Refusal),
}

/// What is decided about the pairs of one check.
struct Settling<'a> {
    run: &'a Run,
    review: ConflictReview,
    /// Who found the contradiction.
    model: &'a str,
}

impl From<StoreError> for Unchecked {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}

impl Gate {
    /// Compares a fact with its neighbours and settles what contradicts it.
    pub(crate) async fn check_conflicts(
        &self,
        run: &Run,
        policy: &EffectivePolicy,
        id: &MemoryId,
    ) -> Result<Checked, Unchecked> {
        let namespace = &run.job.namespace;
        let Some(model) = self.model.as_ref() else {
            return Ok(Checked::default());
        };
        if policy.conflict_review == ConflictReview::Off {
            return Ok(Checked::default());
        }
        let found = self
            .store
            .conflict_candidates(namespace, id, NEIGHBOURS)
            .await?;
        let Some((incoming, neighbours)) = found else {
            return Ok(Checked::default());
        };
        let may_see = |one: &Contender| may_leave(&one.classification, model);
        if !may_see(&incoming) {
            return Ok(Checked::default());
        }
        let shown: Vec<Contender> = neighbours.into_iter().filter(may_see).collect();
        let texts: Vec<String> = shown.iter().map(|one| one.content.clone()).collect();
        if texts.is_empty() {
            return Ok(Checked::default());
        }
        let allowed = self.model_allowance(namespace, policy).await;
        match allowed {
            // As without a model.
            Err(NoAllowance::Nothing) => return Ok(Checked::default()),
            allowed => allowed.map_err(Unchecked::NoAllowance)?,
        }
        let answer = tokio::select! {
            answer = model.contradicts(&incoming.content, &texts) => answer,
            () = run.give_up.cancelled() => return Err(Unchecked::GivenUp),
        };
        let Reply { value, model, .. } = self
            .spent(namespace, answer)
            .await
            .map_err(Unchecked::Model)?;
        let settling = Settling {
            run,
            review: policy.conflict_review,
            model: &model,
        };
        let mut checked = Checked {
            compared: texts.len(),
            decided: 0,
        };
        for (incumbent, _) in shown
            .iter()
            .zip(value)
            .filter(|(_, contradicts)| *contradicts)
        {
            if run.give_up.is_cancelled() {
                return Err(Unchecked::GivenUp);
            }
            if self
                .settle(&settling, (id, &incumbent.incumbent.id))
                .await?
            {
                checked.decided += 1;
            }
        }
        Ok(checked)
    }

    /// Settles one contradiction on fresh state, again and again while others change the
    /// same facts. Nothing is left to settle when one of the two is not current any more.
    async fn settle(
        &self,
        settling: &Settling<'_>,
        pair: (&MemoryId, &MemoryId),
    ) -> Result<bool, Unchecked> {
        for _ in 0..MAX_ATTEMPTS {
            match self.try_settle(settling, pair).await {
                Err(StoreError::Raced(why)) => tracing::debug!(%why, "a conflict is decided again"),
                settled => return Ok(settled?),
            }
        }
        Err(Unchecked::Raced)
    }

    async fn try_settle(
        &self,
        settling: &Settling<'_>,
        (checked, neighbour): (&MemoryId, &MemoryId),
    ) -> Result<bool, StoreError> {
        let job = &settling.run.job;
        let (namespace, model) = (&job.namespace, settling.model);
        let mut tx = self.store.begin().await?;
        tx.wait_at_most(LONGEST_WAIT).await?;
        tx.job_hold(&job.lease).await?;
        if tx.conflict_known(checked, neighbour).await? {
            return Ok(false);
        }
        let ours = tx.memory_standing(namespace, checked).await?;
        let theirs = tx.memory_standing(namespace, neighbour).await?;
        let (Some(ours), Some(theirs)) = (ours, theirs) else {
            return Ok(false);
        };
        let (ours, theirs) = ((checked, ours), (neighbour, theirs));
        // The neighbour may have been told after the one whose check was due.
        let told = |(id, standing): (&MemoryId, Standing)| (standing.assertion_time, *id);
        let (ours, theirs) = match told(ours) < told(theirs) {
            true => (theirs, ours),
            false => (ours, theirs),
        };
        let ((incoming, ours), (incumbent, theirs)) = (ours, theirs);
        let at = now();
        let decision = match (settling.review, weigh(&ours, &theirs)) {
            (ConflictReview::Review, _) => Decision::Review,
            (_, Verdict::Supersede) => {
                tx.memory_close(namespace, incumbent, ours.valid_from, at)
                    .await?;
                tx.memory_link(incoming, incumbent).await?;
                Decision::Superseded
            }
            (_, Verdict::Historical) => {
                let place = tx.memory_between(incumbent, ours.valid_from).await?;
                tx.memory_close(namespace, incoming, place.until, at)
                    .await?;
                tx.memory_splice(incoming, &place).await?;
                Decision::Historical
            }
            (_, Verdict::Dispute) => {
                tx.memory_put_aside(namespace, incoming, at).await?;
                Decision::Disputed
            }
        };
        let id = format!("cfl_{}", Ulid::generate());
        let new = NewConflict {
            id: &id,
            namespace,
            incoming,
            incumbent,
            decision,
            found_by: model,
            at,
        };
        tx.conflict_insert(&new).await?;
        let detail = Detail::new()
            .field("decision", decision.as_str())
            .field("incumbent", incumbent)
            .field("conflict", &id)
            .field("model", model);
        let mut trail = Trail::kernel("conflict", namespace.as_str());
        trail.memory(incoming);
        tx.audit_insert(&trail.seal(&Ending::ok(detail))).await?;
        tx.commit().await?;
        self.wake.notify();
        Ok(true)
    }
}

/// Whether a text may be shown to the model.
fn may_leave(label: &Classification, model: &Model) -> bool {
    let provider = Provider {
        local: model.is_local(),
        region: model.region(),
    };
    label.allows(Destination::LlmExtraction, &provider).is_ok()
}
