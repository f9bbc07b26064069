//! `write`: from a text to memories, in five stages. A model draws facts and checks them
//! (`candidates.rs`); each is labelled and embedded (`prepare.rs`); its entities are resolved,
//! and it is deduplicated, inserted (`commit.rs`), or takes the place of another
//! (`place.rs`), all facts of a write and its audit row in one transaction.
//!
//! Not here: contradictions between ordinary facts. They are looked for afterwards, out of
//! band (`conflicts`).

mod annotation;
mod candidates;
mod commit;
mod deferred;
mod draft;
mod group;
mod outcome;
mod place;
mod prepare;

use std::sync::Arc;

use halofy_core::{Classification, EffectivePolicy, Identity};
use serde_json::json;
use time::OffsetDateTime;

pub(crate) use candidates::NoAllowance;
pub(crate) use commit::{MAX_ATTEMPTS, Rider};
pub(crate) use deferred::handlers;
pub(crate) use draft::Draft;
pub(crate) use group::Group;
pub(crate) use outcome::WriteOutcome;

use crate::Refusal;
use crate::audit::Trail;
use crate::body::WriteRequest;
use crate::clock::now;
use crate::gate::{Done, Gate, Recorded};
use crate::prologue::Authorized;
use commit::Writing;

/// The label of a draft's whole text.
pub(crate) struct DraftLabel(pub(crate) Classification);

impl Gate {
    pub(crate) async fn write(
        &self,
        caller: &Authorized,
        request: &WriteRequest,
        trail: &mut Trail,
    ) -> Result<Done, Refusal> {
        let draft = Arc::new(Draft::of(request, caller.identity().role)?);
        if request.deferred {
            return self.defer(caller, request, trail).await;
        }
        let (identity, policy) = (caller.identity(), caller.policy());
        let (rider, told_at) = (Rider::Call(caller), now());
        let outcome = self
            .remember(identity, policy, draft, told_at, trail, rider)
            .await?;
        let recorded = Recorded::WithWork;
        let answer = json!(outcome);
        Ok(Done { answer, recorded })
    }

    /// Runs all stages for a draft that its caller told at `told_at`. On return its memories,
    /// its audit row and what rides with them are durable.
    pub(crate) async fn remember(
        &self,
        writer: &Identity,
        policy: &EffectivePolicy,
        draft: Arc<Draft>,
        told_at: OffsetDateTime,
        trail: &mut Trail,
        rider: Rider<'_>,
    ) -> Result<WriteOutcome, Refusal> {
        let read_at = match (&self.model, rider) {
            (Some(_), Rider::Call(_)) if !draft.verbatim => {
                Some(self.store.erasure_mark(&writer.namespace).await?)
            }
            _ => None,
        };
        let label = prepare::label_of(draft.content.as_str(), &draft, policy);
        let mut candidates = self
            .candidates(&writer.namespace, policy, &draft, &label, told_at, rider)
            .await?;
        let mut outcome = WriteOutcome {
            rejected: std::mem::take(&mut candidates.rejected),
            brownout: candidates.brownout,
            ..WriteOutcome::default()
        };
        if candidates.denied.is_some() {
            outcome.withheld.push("llm-extraction");
        }
        let whole = DraftLabel(label);
        let prepared = self
            .prepare(&draft, policy, whole, candidates.found)
            .await?;
        if prepared.iter().any(|one| one.embedding.is_none()) {
            outcome.withheld.push("embedding-provider");
        }
        let writing = Writing {
            writer,
            policy,
            draft,
            facts: prepared.into_iter().map(Arc::new).collect(),
            told_at,
            rider,
            read_at,
        };
        self.store_facts(&writing, outcome, trail).await
    }
}
