//! What became of a write, as its caller and the audit log are told.

use halofy_audit::Detail;
use halofy_core::MemoryId;
use serde::Serialize;

use super::candidates::Rejected;

/// What became of a write. Every candidate stands in exactly one of the first four lists.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WriteOutcome {
    /// New memories.
    pub(crate) stored: Vec<MemoryId>,
    /// Memories that said the same already.
    pub(crate) deduplicated: Vec<MemoryId>,
    /// Put aside: what ranks higher says otherwise.
    pub(crate) disputed: Vec<MemoryId>,
    /// Candidates that became no memory.
    pub(crate) rejected: Vec<Rejected>,
    /// Memories that were closed for new ones.
    pub(crate) superseded: Vec<MemoryId>,
    /// Why the text was stored verbatim although a model should have read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) brownout: Option<&'static str>,
    /// Where the text may not go: it was stored without.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) withheld: Vec<&'static str>,
}

impl WriteOutcome {
    /// The audit detail: figures, and no text.
    pub(super) fn detail(&self) -> Detail {
        let counts = [
            ("stored", self.stored.len()),
            ("deduplicated", self.deduplicated.len()),
            ("disputed", self.disputed.len()),
            ("rejected", self.rejected.len()),
            ("superseded", self.superseded.len()),
        ];
        let mut detail = Detail::new();
        for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            detail = detail.field(name, count);
        }
        let mut reasons: Vec<&str> = self.rejected.iter().map(|one| one.reason).collect();
        reasons.sort_unstable();
        reasons.dedup();
        if !reasons.is_empty() {
            detail = detail.field("reasons", reasons.join(","));
        }
        if !self.withheld.is_empty() {
            detail = detail.field("withheld", self.withheld.join(","));
        }
        match self.brownout {
            Some(brownout) => detail.field("brownout", brownout),
            None => detail,
        }
    }

    /// The one memory that the write is about, if it is about one.
    pub(super) fn only_memory(&self) -> Option<&MemoryId> {
        let mut lists = self.lists();
        let only = lists.next();
        only.filter(|_| lists.next().is_none())
    }

    /// The memories that the answer speaks of, but for those that it closed.
    pub(super) fn touched(&self) -> Vec<MemoryId> {
        self.lists().copied().collect()
    }

    fn lists(&self) -> impl Iterator<Item = &MemoryId> {
        let lists = [&self.stored, &self.deduplicated, &self.disputed];
        lists.into_iter().flatten()
    }
}
