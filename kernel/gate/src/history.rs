//! `history`: a memory, those that it replaced, and those that replaced it, page by page; and
//! which of them held at a moment.

use halofy_audit::Detail;
use halofy_core::{Invalid, Memory, MemoryId};
use halofy_store::{Found, Scope};
use serde_json::json;
use time::OffsetDateTime;

use crate::Refusal;
use crate::audit::{Ending, Trail};
use crate::body::HistoryRequest;
use crate::gate::{Done, Gate, Recorded};
use crate::prologue::Authorized;

impl Gate {
    pub(crate) async fn history(
        &self,
        caller: &Authorized,
        request: &HistoryRequest,
        trail: &mut Trail,
    ) -> Result<Done, Refusal> {
        let id = request.id()?;
        let after = request.after()?;
        trail.memory(id);
        let scope = Scope::of(caller.identity());
        let page = self
            .store
            .memory_history(&scope, &id, after.as_ref())
            .await?;
        if page.memories.is_empty() {
            self.nothing_behind(&scope, &id, after.as_ref()).await?;
        }
        let detail = Detail::new().field("returned", page.memories.len());
        let recorded = Recorded::Pending(Ending::ok(detail));
        let answer = json!({ "history": page.memories, "truncated": page.truncated });
        Ok(Done { answer, recorded })
    }

    /// The one of a memory's chain that held at a moment.
    pub(crate) async fn memory_at(
        &self,
        scope: &Scope,
        id: &MemoryId,
        at: OffsetDateTime,
    ) -> Result<Memory, Refusal> {
        if let Some(held) = self.store.memory_held(scope, id, at).await? {
            return Ok(held);
        }
        let found = self.store.memory_read(scope, id).await?;
        let hidden = matches!(found, Found::Hidden);
        Err(Refusal::NotFound { hidden })
    }

    /// Whether an empty page is the truth: nothing is behind the last of the chain.
    async fn nothing_behind(
        &self,
        scope: &Scope,
        id: &MemoryId,
        after: Option<&MemoryId>,
    ) -> Result<(), Refusal> {
        match (self.store.memory_read(scope, id).await?, after) {
            (Found::Hidden, _) => Err(Refusal::NotFound { hidden: true }),
            (Found::Missing, _) | (_, None) => Err(Refusal::NotFound { hidden: false }),
            (_, Some(after)) if self.store.memories_linked(scope, id, after).await? => Ok(()),
            _ => Err(Invalid::new("after", "is not of this memory's chain").into()),
        }
    }
}
