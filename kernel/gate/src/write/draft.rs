//! A write as its caller asked for it, every field checked.

use halofy_core::{Content, Invalid, Kind, MemoryId, Provenance, Role};
use serde_json::Value;
use time::OffsetDateTime;

use super::annotation::without_annotation;
use crate::body::WriteRequest;

const MAX_SLOT_BYTES: usize = 256;
/// The most facts that one write stores.
pub(crate) const MAX_FACTS: u32 = 64;

/// What is to be remembered.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) content: Content,
    pub(crate) kind: Kind,
    pub(crate) event_time: Option<OffsetDateTime>,
    pub(crate) metadata: Option<Value>,
    pub(crate) sensitive: bool,
    pub(crate) local_only: bool,
    /// No model reads it.
    pub(crate) verbatim: bool,
    pub(crate) max_facts: usize,
    pub(crate) slot: Option<String>,
    pub(crate) supersedes: Option<MemoryId>,
    pub(crate) provenance: Provenance,
}

impl Draft {
    /// Checks a request against the rules, and against what its caller's role may claim.
    ///
    /// # Errors
    /// Names the first field at fault.
    pub(crate) fn of(request: &WriteRequest, role: Role) -> Result<Self, Invalid> {
        // Of the whole text: what is stripped from it waits in a job all the same.
        if request.content.contains('\0') {
            return Err(Invalid::new("content", "holds the character U+0000"));
        }
        let content = Content::parse(without_annotation(&request.content))?;
        request.provenance.check(role)?;
        let supersedes = request.supersedes.as_deref().map(MemoryId::parse);
        let supersedes = supersedes
            .transpose()
            .map_err(|invalid| Invalid::new("supersedes", invalid.problem))?;
        if let Some(slot) = &request.slot
            && (slot.trim().is_empty()
                || slot.len() > MAX_SLOT_BYTES
                || slot.chars().any(char::is_control))
        {
            let problem = "must be 1 to 256 bytes without control characters";
            return Err(Invalid::new("slot", problem));
        }
        if supersedes.is_some() && request.slot.is_some() {
            let problem = "names a predecessor, and so does slot; send one of them";
            return Err(Invalid::new("supersedes", problem));
        }
        let max_facts = request.max_facts.unwrap_or(MAX_FACTS);
        if !(1..=MAX_FACTS).contains(&max_facts) {
            let problem = format!("is {max_facts}; must be 1 to {MAX_FACTS}");
            return Err(Invalid::new("maxFacts", problem));
        }
        Ok(Self {
            content,
            kind: request.kind,
            event_time: request.event_time()?,
            metadata: request.metadata()?,
            sensitive: request.sensitive,
            local_only: request.local_only,
            // What takes the place of another is what the caller says, word for word.
            verbatim: request.verbatim || request.slot.is_some() || supersedes.is_some(),
            max_facts: max_facts as usize,
            slot: request.slot.clone(),
            supersedes,
            provenance: request.provenance.clone(),
        })
    }
}
