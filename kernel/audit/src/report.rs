//! What a verification says: one [`Fault`] for each row that is wrong, and a [`Report`] over all.
//!
//! Must not live here: the checks.

use std::fmt;

use serde::Serialize;

use crate::chain::Head;

/// How many faults a report lists; all are counted.
pub const MAX_FAULTS: usize = 100;

/// What is wrong with a row. In JSON: a `reason` tag and the fields, in camelCase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(
    tag = "reason",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Reason {
    /// One or more entries are missing before this one.
    #[error("gap: expected index {expected}")]
    Gap {
        /// The index that should have come here.
        expected: i64,
    },
    /// The entry repeats an index or stands before it.
    #[error("repeated or out of order: expected index {expected}")]
    Repeated {
        /// The index that should have come here.
        expected: i64,
    },
    /// Neither an entry nor a row.
    #[error("neither a chain entry nor an audit row")]
    Empty,
    /// The chain has an entry for a row that is not there.
    #[error("the audit row is missing")]
    MissingRecord,
    /// Entry and row have different sequence numbers.
    #[error("the audit row's sequence number is {record}")]
    SeqMismatch {
        /// The row's; the entry's stands in the fault.
        record: i64,
    },
    /// Entry and row name different transactions.
    #[error("transaction {entry} in the chain, {record} in the audit row")]
    XidMismatch {
        /// The entry's.
        entry: i64,
        /// The row's.
        record: i64,
    },
    /// Columns do not say what the stored canonical bytes say.
    #[error("columns differ from the canonical bytes ({}): {}", side(*canonical_matches_leaf), columns.join(", "))]
    ColumnsDiffer {
        /// The names of the columns, in table order.
        columns: Vec<&'static str>,
        /// Whether the stored bytes still match their leaf: if so it was the columns that changed.
        canonical_matches_leaf: bool,
    },
    /// The stored bytes are not the canonical form of what they say: not JSON, another spelling, an
    /// unknown member, another version.
    #[error("the stored bytes are not the row's canonical form")]
    NotCanonical,
    /// The leaf is not the hash of the stored bytes.
    #[error("the leaf is not the hash of the canonical bytes")]
    LeafMismatch,
    /// The chain hash does not follow from the previous one and this entry.
    #[error("the chain hash does not follow from the entry before and this one")]
    HashMismatch,
    /// The chain has another hash here than the checkpoint: history was rewritten.
    #[error("the chain hash differs from an earlier checkpoint")]
    CheckpointMismatch,
    /// No entry with this checkpoint's index was seen: the tail was cut.
    #[error("the rows do not reach an earlier checkpoint")]
    CheckpointNotReached,
}

/// One row and the first thing found wrong with it. Displays as one line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    /// The entry's index as stored, or the checkpoint's.
    pub index: Option<i64>,
    /// The entry's sequence number, else the row's.
    pub seq: Option<i64>,
    /// The row's `call_id` column as stored.
    pub call_id: Option<String>,
    /// What is wrong.
    #[serde(flatten)]
    pub reason: Reason,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(index) = self.index {
            write!(f, "index {index} ")?;
        }
        if let Some(seq) = self.seq {
            write!(f, "seq {seq} ")?;
        }
        if let Some(call_id) = &self.call_id {
            // Escaped: whoever altered the column chose these characters.
            write!(f, "call {} ", call_id.escape_debug())?;
        }
        write!(f, "- {}", self.reason)
    }
}

impl std::error::Error for Fault {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.reason)
    }
}

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Whether there was no fault at all.
    pub ok: bool,
    /// How many chain entries were checked, faulty ones included.
    pub checked: u64,
    /// How many rows have no chain entry yet. Their columns were checked; nothing proves their place.
    pub pending: u64,
    /// The last entry seen, as stored; keep it elsewhere as a checkpoint if `ok`. `None` without entries,
    /// or if the last entry's index or hash has no valid form.
    pub head: Option<Head>,
    /// How many faults there were.
    pub fault_count: u64,
    /// The first [`MAX_FAULTS`] of them.
    pub faults: Vec<Fault>,
}

fn side(canonical_matches_leaf: bool) -> &'static str {
    if canonical_matches_leaf {
        "which match their leaf"
    } else {
        "which do not match their leaf"
    }
}
