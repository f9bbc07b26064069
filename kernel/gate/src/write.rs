//! `write`, verbatim lane: classify, embed, then insert or bump, and the audit row
//! in the same transaction.

use halofy_audit::Detail;
use halofy_core::{MemoryId, normalize_for_dedupe};
use halofy_store::{NewMemory, Upserted};
use serde_json::json;
use time::OffsetDateTime;
use ulid::Ulid;

use crate::Refusal;
use crate::audit::{Ending, Trail};
use crate::body::WriteRequest;
use crate::classify::classify;
use crate::embed::check_vectors;
use crate::gate::{Done, Gate, Recorded};
use crate::prologue::Authorized;

impl Gate {
    pub(crate) async fn write(
        &self,
        caller: &Authorized,
        request: &WriteRequest,
        trail: &mut Trail,
    ) -> Result<Done, Refusal> {
        let content = request.content()?;
        let event_time = request.event_time()?;
        let metadata = request.metadata()?;
        let classification = classify(&content, request.sensitive);
        let embedding = self.embed_one(content.as_str(), "content").await?;
        let identity = caller.identity();
        let memory = NewMemory {
            id: MemoryId::new(Ulid::generate()),
            namespace: &identity.namespace,
            actor: identity.actor.as_str(),
            kind: request.kind,
            content: content.as_str(),
            normal_form: &normalize_for_dedupe(content.as_str()),
            event_time,
            asserted_at: OffsetDateTime::now_utc(),
            classification: &classification,
            metadata: metadata.as_ref(),
            embedding,
        };
        let outcome = self.store_with_audit(&memory, trail).await?;
        let (stored, deduplicated) = match outcome {
            Upserted::Inserted(id) => (vec![id], vec![]),
            Upserted::Deduplicated(id) => (vec![], vec![id]),
        };
        let answer = json!({
            "stored": stored,
            "deduplicated": deduplicated,
            "superseded": [],
            "rejected": [],
        });
        let recorded = Recorded::WithWork;
        Ok(Done { answer, recorded })
    }

    /// Invariant: a memory and its audit row are one transaction.
    async fn store_with_audit(
        &self,
        memory: &NewMemory<'_>,
        trail: &mut Trail,
    ) -> Result<Upserted, Refusal> {
        let mut tx = self.store.begin().await?;
        let outcome = tx.memory_upsert(memory).await?;
        let detail = match &outcome {
            Upserted::Inserted(id) => {
                trail.memory(id);
                Detail::new().field("stored", 1)
            }
            Upserted::Deduplicated(id) => {
                trail.memory(id);
                Detail::new().field("deduplicated", 1)
            }
        };
        tx.audit_insert(&trail.seal(&Ending::ok(detail))).await?;
        tx.commit().await?;
        Ok(outcome)
    }

    pub(crate) async fn embed_one(&self, text: &str, field: &str) -> Result<Vec<f32>, Refusal> {
        let vectors = self
            .embedder
            .embed(&[text.to_owned()])
            .await
            .and_then(|vectors| {
                // Checked where it is used: what is no vector must not reach the store.
                check_vectors(self.store.space().dimension, 1, &vectors)?;
                Ok(vectors)
            });
        let vectors = vectors.map_err(|error| Refusal::embedding(&error, field))?;
        vectors.into_iter().next().ok_or_else(|| Refusal::Internal {
            why: "the embedder gave no vector".to_owned(),
        })
    }
}
