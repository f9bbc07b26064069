//! Stages three and four: each candidate gets its protection label and, where that allows
//! it, its vector. Nothing is stored here.

use halofy_core::{Classification, Destination, EffectivePolicy, Identity, MemoryId, Provider};
use halofy_store::{NewMemory, Scope};
use time::OffsetDateTime;
use ulid::Ulid;

use super::candidates::Candidate;
use super::draft::Draft;
use crate::classify::{Asked, PolicyRules, classify};
use crate::embed::check_vectors;
use crate::gate::Gate;
use crate::{Refusal, write::DraftLabel};

/// A candidate, ready to be stored.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) candidate: Candidate,
    pub(super) label: Classification,
    /// Absent when the text may not leave for the embedder.
    pub(super) embedding: Option<Vec<f32>>,
}

impl Prepared {
    /// As the store takes it.
    pub(super) fn as_new<'a>(
        &'a self,
        writer: &'a Identity,
        draft: &'a Draft,
        at: OffsetDateTime,
        call: &'a str,
        normal_form: &'a str,
        entities: &'a [String],
    ) -> NewMemory<'a> {
        NewMemory {
            id: MemoryId::new(Ulid::generate()),
            namespace: &writer.namespace,
            actor: writer.actor.as_str(),
            key: &writer.key.0,
            call,
            kind: self.candidate.kind,
            content: self.candidate.content.as_str(),
            normal_form,
            event_time: self.candidate.event_time,
            asserted_at: at,
            told_at: at,
            classification: &self.label,
            metadata: draft.metadata.as_ref(),
            embedding: self.embedding.clone(),
            provenance: &draft.provenance,
            model: self.candidate.model.as_deref(),
            slot: draft.slot.as_deref(),
            entities,
            unread: !Scope::of(writer).reads(&draft.provenance.source_access),
        }
    }
}

impl Gate {
    /// Labels and embeds every candidate, in one batch.
    pub(super) async fn prepare(
        &self,
        draft: &Draft,
        policy: &EffectivePolicy,
        whole: DraftLabel,
        candidates: Vec<Candidate>,
    ) -> Result<Vec<Prepared>, Refusal> {
        let provider = Provider {
            local: self.embedder.is_local(),
            region: self.embedder.region(),
        };
        let mut prepared: Vec<Prepared> = candidates
            .into_iter()
            .map(|candidate| Prepared {
                label: match candidate.model {
                    // The caller's own words were read already.
                    None => whole.0.clone(),
                    Some(_) => {
                        let own = label_of(candidate.content.as_str(), draft, policy);
                        with_secrets_of(&whole.0, own)
                    }
                },
                embedding: None,
                candidate,
            })
            .collect();
        let may_leave = |one: &&mut Prepared| {
            let allowed = one.label.allows(Destination::EmbeddingProvider, &provider);
            allowed.is_ok()
        };
        let embedded: Vec<&mut Prepared> = prepared.iter_mut().filter(may_leave).collect();
        let texts: Vec<String> = embedded
            .iter()
            .map(|one| one.candidate.content.as_str().to_owned())
            .collect();
        let vectors = self.embed_all(&texts, "content").await?;
        for (one, vector) in embedded.into_iter().zip(vectors) {
            one.embedding = Some(vector);
        }
        Ok(prepared)
    }

    pub(crate) async fn embed_one(&self, text: &str, field: &str) -> Result<Vec<f32>, Refusal> {
        let vectors = self.embed_all(&[text.to_owned()], field).await?;
        vectors.into_iter().next().ok_or_else(|| Refusal::Internal {
            why: "the embedder gave no vector".to_owned(),
        })
    }

    async fn embed_all(&self, texts: &[String], field: &str) -> Result<Vec<Vec<f32>>, Refusal> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let vectors = self.embedder.embed(texts).await.and_then(|vectors| {
            // Checked where it is used: what is no vector must not reach the store.
            check_vectors(self.store.space().dimension, texts.len(), &vectors)?;
            Ok(vectors)
        });
        vectors.map_err(|error| Refusal::embedding(&error, field))
    }
}

/// The label of a fact out of a text with this label. A model may have put a secret of the
/// text so that no rule knows it again.
fn with_secrets_of(text: &Classification, mut fact: Classification) -> Classification {
    if !text.secrets.is_empty() {
        fact.secrets.extend_from_slice(&text.secrets);
        fact.secrets.sort_unstable();
        fact.secrets.dedup();
        fact.sensitivity = fact.sensitivity.max(text.sensitivity);
        fact.destinations
            .retain(|one| text.destinations.contains(one));
    }
    fact
}

/// The protection label of a text that a draft gave.
pub(super) fn label_of(text: &str, draft: &Draft, policy: &EffectivePolicy) -> Classification {
    let asked = Asked {
        sensitive: draft.sensitive,
        local_only: draft.local_only,
    };
    let rules = PolicyRules {
        data_region: policy.data_region.as_deref(),
    };
    classify(text, asked, rules)
}
