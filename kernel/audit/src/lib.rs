//! The audit trail's format and its proof: what one row says, the exact bytes that are hashed, the
//! chain over them, and a verifier that needs nothing but the rows.
//!
//! Must not live here: a database, a network, a clock, randomness, or any other kernel crate. An
//! auditor builds this crate alone and checks an export without trusting whoever runs the kernel.
//!
//! | file | holds |
//! |---|---|
//! | `event` | [`Event`] as a syscall states it, [`Sealed`] as it is stored, [`Columns`] as it is read back |
//! | `detail` | [`Detail`], the one maker of detail lines |
//! | `canonical` | the canonical bytes of a row and its leaf hash |
//! | `chain` | [`Chain`], one hash over each row and all before it |
//! | `verify` | [`StoredRow`] as a database or file presents it, and the [`Verifier`] |
//! | `report` | [`Fault`] and [`Report`] |
//! | `export` | JSON Lines export and its verification |
//!
//! What verification proves: with no checkpoint, that the rows presented are a gap-free sequence from
//! the start and agree with their hashes in every column. A cut tail, or a history rewritten with
//! freshly computed hashes, is visible only against a [`Head`] noted earlier and kept outside the
//! database: give it to [`Verifier::expecting`].

mod canonical;
mod chain;
mod detail;
mod encoding;
mod event;
mod export;
mod report;
mod verify;

pub use canonical::{canonical_bytes, leaf_hash, timestamp};
pub use chain::{Chain, ChainEntry, GENESIS, Hash, Head};
pub use detail::{Detail, MAX_VALUE_CHARS};
pub use event::{Columns, Event, MAX_PURPOSE_CHARS, Outcome, Sealed, purpose, truncate_to_micros};
pub use export::{ExportError, MAX_LINE_BYTES, read_jsonl, verify_jsonl, write_row};
pub use report::{Fault, MAX_FAULTS, Reason, Report};
pub use verify::{Record, StoredEntry, StoredRow, Verifier};
