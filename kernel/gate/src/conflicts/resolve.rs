//! `disputes` and `resolve`: what contradicts each other in the caller's own namespace, and
//! how somebody settles it. Whatever the kernel decided can be taken back.
//!
//! Nothing is changed that was closed: what holds again is said again, in a new row that
//! names the old one.

use halofy_audit::Detail;
use halofy_core::{Invalid, MemoryId, Namespace};
use halofy_store::{Conflict, Decision, Scope, StoreError, Successor, Transaction};
use serde_json::json;
use time::OffsetDateTime;
use ulid::Ulid;

use super::view;
use crate::Refusal;
use crate::audit::{Ending, Trail};
use crate::body::{DisputesRequest, Resolution, ResolveRequest};
use crate::clock::now;
use crate::gate::{Done, Gate, Recorded};
use crate::prologue::Authorized;
use crate::write::MAX_ATTEMPTS;

/// A resolution at work.
struct Settling<'a> {
    conflict: &'a Conflict,
    scope: &'a Scope,
    namespace: &'a Namespace,
    call: &'a str,
    at: OffsetDateTime,
}

impl Gate {
    pub(crate) async fn disputes(
        &self,
        caller: &Authorized,
        request: &DisputesRequest,
    ) -> Result<Done, Refusal> {
        let scope = Scope::of(caller.identity());
        let limit = request.limit()? as usize;
        let (memory, after) = (request.memory()?, request.after()?);
        // One more than is shown tells whether more come.
        let listed = self.store.conflict_list(
            &scope,
            !request.all,
            memory.as_ref(),
            after,
            limit.saturating_add(1),
        );
        let mut found = listed.await?;
        let truncated = found.len() > limit;
        found.truncate(limit);
        let detail = Detail::new().field("returned", found.len());
        let recorded = Recorded::Pending(Ending::ok(detail));
        let disputes: Vec<_> = found.iter().map(view).collect();
        let answer = json!({ "disputes": disputes, "truncated": truncated });
        Ok(Done { answer, recorded })
    }

    pub(crate) async fn resolve(
        &self,
        caller: &Authorized,
        request: &ResolveRequest,
        trail: &mut Trail,
    ) -> Result<Done, Refusal> {
        let id = request.id()?;
        let mut attempt = 1;
        loop {
            match self.try_resolve(caller, id, request.verdict, trail).await? {
                Ok(done) => return Ok(done),
                // What it is about may have been erased or settled meanwhile.
                Err(StoreError::Raced(why)) if attempt < MAX_ATTEMPTS => {
                    tracing::debug!(%why, attempt, "a resolution is decided again");
                    attempt += 1;
                }
                Err(error) => return Err(stale(error)),
            }
        }
    }

    /// The inner error is what happened to the memories meanwhile.
    async fn try_resolve(
        &self,
        caller: &Authorized,
        id: &str,
        verdict: Resolution,
        trail: &mut Trail,
    ) -> Result<Result<Done, StoreError>, Refusal> {
        let identity = caller.identity();
        let scope = Scope::of(identity);
        let mut tx = self.store.begin().await?;
        caller.claim(&mut tx, None).await?;
        let Some(conflict) = tx.conflict_lock(&scope, id).await? else {
            let hidden = tx.conflict_exists(id).await?;
            return Err(Refusal::NotFound { hidden });
        };
        check(&conflict, verdict)?;
        let settling = Settling {
            conflict: &conflict,
            scope: &scope,
            namespace: &identity.namespace,
            call: &trail.call(),
            at: now(),
        };
        let restored = match settling.apply(&mut tx, verdict).await {
            Ok(restored) => restored,
            Err(error) => return Ok(Err(error)),
        };
        let (verdict, by) = (verdict.as_str(), identity.actor.as_str());
        let resolved = tx.conflict_resolve(&conflict.id, verdict, by, settling.at);
        if let Err(error) = resolved.await {
            return Ok(Err(error));
        }
        trail.memory(restored.unwrap_or(conflict.incoming));
        let detail = Detail::new()
            .field("conflict", &conflict.id)
            .field("verdict", verdict)
            .field("incoming", conflict.incoming)
            .field("incumbent", conflict.incumbent);
        tx.audit_insert(&trail.seal(&Ending::ok(detail))).await?;
        let answer = json!({
            "id": conflict.id,
            "verdict": verdict,
            "restored": restored,
        });
        let memories: Vec<MemoryId> = restored.into_iter().collect();
        caller.answered(&mut tx, &answer, &memories).await?;
        tx.commit().await?;
        let recorded = Recorded::WithWork;
        Ok(Ok(Done { answer, recorded }))
    }
}

/// Whether this can be done about that decision.
fn check(conflict: &Conflict, verdict: Resolution) -> Result<(), Invalid> {
    if let Some(done) = &conflict.resolution {
        let problem = format!("was resolved already: {done}");
        return Err(Invalid::new("id", problem));
    }
    let waits = conflict.decision.waits();
    let problem = match verdict {
        Resolution::Undo if conflict.decision == Decision::Review => {
            "nothing was decided that could be taken back; accept, reject, or keep both"
        }
        Resolution::Accept | Resolution::Reject | Resolution::Both if !waits => {
            "the kernel decided it already; undo takes that back"
        }
        Resolution::Both | Resolution::Undo if waits && conflict.one_slot => {
            "one slot cannot hold both; accept or reject"
        }
        _ => return Ok(()),
    };
    Err(Invalid::new("verdict", problem))
}

/// What a resolution is about changed meanwhile: it cannot be carried out as it was meant.
fn stale(error: StoreError) -> Refusal {
    match error {
        StoreError::Raced(why) => {
            tracing::info!(%why, "a resolution came too late");
            let problem = "what it is about was replaced or said again since; take that back \
                           first";
            Invalid::new("id", problem).into()
        }
        other => other.into(),
    }
}

impl Settling<'_> {
    /// Carries it out; the memory that was said again, if one was.
    async fn apply(
        &self,
        tx: &mut Transaction<'_>,
        verdict: Resolution,
    ) -> Result<Option<MemoryId>, StoreError> {
        let (incoming, incumbent) = (&self.conflict.incoming, &self.conflict.incumbent);
        match (self.conflict.decision, verdict) {
            (Decision::Disputed, Resolution::Accept) => {
                // What took the incumbent's place since stands for it.
                let holder = self.holder(tx, incumbent).await?;
                if let Some(holder) = &holder {
                    tx.memory_close(self.namespace, holder, self.at, self.at)
                        .await?;
                }
                self.revive(tx, incoming, Some(holder.as_ref().unwrap_or(incumbent)))
                    .await
            }
            (Decision::Disputed, Resolution::Reject) => {
                tx.memory_drop_disputed(self.namespace, incoming, self.at)
                    .await?;
                Ok(None)
            }
            (Decision::Disputed, Resolution::Both | Resolution::Undo) => {
                self.revive(tx, incoming, None).await
            }
            (Decision::Review, Resolution::Accept) => {
                self.close_if_current(tx, incumbent).await?;
                tx.memory_link(incoming, incumbent).await?;
                Ok(None)
            }
            (Decision::Review, Resolution::Reject) => {
                self.close_if_current(tx, incoming).await?;
                Ok(None)
            }
            (Decision::Superseded, Resolution::Undo) => {
                self.take_back(tx, incumbent, incoming).await
            }
            (Decision::Historical, Resolution::Undo) => {
                self.take_back(tx, incoming, incumbent).await
            }
            (Decision::Review, Resolution::Both | Resolution::Undo)
            | (Decision::Superseded | Decision::Historical, _) => Ok(None),
        }
    }

    /// Says a closed memory again. Where both would fill one slot, or one was named as the
    /// other's successor, the other goes.
    async fn take_back(
        &self,
        tx: &mut Transaction<'_>,
        closed: &MemoryId,
        other: &MemoryId,
    ) -> Result<Option<MemoryId>, StoreError> {
        let replaced = self.conflict.replacement || self.conflict.one_slot;
        if !replaced {
            return self.restore(tx, closed, None).await;
        }
        let other = match tx.memory_incarnation(self.namespace, other).await? {
            Some(holder) => {
                tx.memory_close(self.namespace, &holder, self.at, self.at)
                    .await?;
                holder
            }
            None => *other,
        };
        self.restore(tx, closed, Some(&other)).await
    }

    /// Says a memory that was put aside again, as one that is believed.
    async fn revive(
        &self,
        tx: &mut Transaction<'_>,
        disputed: &MemoryId,
        supersedes: Option<&MemoryId>,
    ) -> Result<Option<MemoryId>, StoreError> {
        tx.memory_drop_disputed(self.namespace, disputed, self.at)
            .await?;
        self.restore(tx, disputed, supersedes).await
    }

    async fn restore(
        &self,
        tx: &mut Transaction<'_>,
        id: &MemoryId,
        supersedes: Option<&MemoryId>,
    ) -> Result<Option<MemoryId>, StoreError> {
        let copy = MemoryId::new(Ulid::generate());
        let restored = tx
            .memory_restore(id, copy, supersedes, self.call, self.at)
            .await?;
        Ok(restored.then_some(copy))
    }

    /// The one that holds now in place of `id`, if one does.
    async fn holder(
        &self,
        tx: &mut Transaction<'_>,
        id: &MemoryId,
    ) -> Result<Option<MemoryId>, StoreError> {
        if let Some(itself) = tx.memory_incarnation(self.namespace, id).await? {
            return Ok(Some(itself));
        }
        match tx.memory_successor(self.scope, id).await? {
            Successor::Current(one) => Ok(Some(one.id)),
            _ => Ok(None),
        }
    }

    /// One that ended meanwhile stays as it ended.
    async fn close_if_current(
        &self,
        tx: &mut Transaction<'_>,
        id: &MemoryId,
    ) -> Result<(), StoreError> {
        if tx.memory_standing(self.namespace, id).await?.is_some() {
            tx.memory_close(self.namespace, id, self.at, self.at)
                .await?;
        }
        Ok(())
    }
}
