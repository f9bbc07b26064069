//! Contradictions between ordinary facts, out of band: looking for them (`check.rs`), and
//! settling what somebody has to decide or taking back what was decided (`resolve.rs`).
//!
//! Invariant: no decision closes a row of an ancestor, and each can be taken back: closing
//! an interval is all that it does.

mod check;
mod resolve;

pub(crate) use check::Unchecked;
use halofy_store::Conflict;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

/// A decision as callers see it.
fn view(conflict: &Conflict) -> Value {
    let open = conflict.resolution.is_none() && conflict.decision.waits();
    json!({
        "id": conflict.id,
        "state": if open { "open" } else { "settled" },
        "decision": conflict.decision.as_str(),
        "incoming": { "id": conflict.incoming, "content": conflict.incoming_content },
        "incumbent": { "id": conflict.incumbent, "content": conflict.incumbent_content },
        "foundBy": conflict.found_by,
        "decidedAt": conflict.decided_at.format(&Rfc3339).ok(),
        "resolution": conflict.resolution,
        "resolvedBy": conflict.resolved_by,
        "resolvedAt": conflict.resolved_at.and_then(|at| at.format(&Rfc3339).ok()),
    })
}
