//! What one audit row says: as the kernel states it ([`Event`]), as it is stored ([`Sealed`]) and as
//! it is read back ([`Columns`]).
//!
//! Must not live here: hashing, and any decision about which syscalls are audited.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, PrimitiveDateTime, UtcOffset};

use crate::canonical::{canonical_bytes, leaf_hash};
use crate::chain::Hash;
use crate::detail::Detail;
use crate::encoding;

/// Longest `purpose`, in characters (Unicode scalar values, not bytes).
pub const MAX_PURPOSE_CHARS: usize = 200;

/// How a syscall ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It did what was asked.
    Ok,
    /// The caller may not do this.
    Denied,
    /// It was allowed and found nothing.
    Miss,
    /// It failed.
    Error,
}

impl Outcome {
    /// The text in the `result` column: `ok`, `denied`, `miss` or `error`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Denied => "denied",
            Self::Miss => "miss",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One syscall's outcome, as the kernel states it. Becomes storable through [`Event::seal`] only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The ULID of the syscall; unique.
    pub call_id: String,
    /// When the syscall was decided. Any offset; stored in UTC, cut to microseconds.
    pub ts: OffsetDateTime,
    /// Who acted, such as `user:dana`.
    pub actor: String,
    /// The way in: `http`, `mcp`, `cli` or `kernel`.
    pub agent_id: String,
    /// The id of the key that was used, never the key.
    pub key_id: Option<String>,
    /// The syscall, such as `search`.
    pub op: String,
    /// The memory concerned, if it is one.
    pub memory_id: Option<String>,
    /// The namespace of the caller, or of the target where the syscall has one.
    pub namespace: String,
    /// The query text; `None` when the turn is marked sensitive. Cut by [`purpose`] when sealed.
    pub purpose: Option<String>,
    /// How it ended.
    pub result: Outcome,
    /// Counts and names, never content. An empty detail is stored as absent.
    pub detail: Option<Detail>,
}

impl Event {
    /// Makes the event storable and fixes its canonical bytes.
    ///
    /// Total on purpose: text comes from callers, and a caller must not be able to make its own audit
    /// row fail. So U+0000, which Postgres text cannot hold, becomes U+FFFD; the time is cut to
    /// microseconds, the precision of `timestamptz`; the purpose is cut to [`MAX_PURPOSE_CHARS`].
    #[must_use]
    pub fn seal(self) -> Sealed {
        let columns = Columns {
            call_id: storable(self.call_id),
            ts: truncate_to_micros(self.ts),
            actor: storable(self.actor),
            agent_id: storable(self.agent_id),
            key_id: self.key_id.map(storable),
            op: storable(self.op),
            memory_id: self.memory_id.map(storable),
            namespace: storable(self.namespace),
            purpose: self.purpose.as_deref().map(purpose),
            result: self.result.as_str().to_owned(),
            detail: self.detail.filter(|d| !d.is_empty()).map(String::from),
        };
        let canonical = canonical_bytes(&columns);
        Sealed { columns, canonical }
    }
}

/// An event that the database can hold without changing it, with its canonical bytes.
///
/// Invariant: the bytes are the canonical bytes of the columns, and reading the columns back gives
/// equal values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    columns: Columns,
    canonical: Vec<u8>,
}

impl Sealed {
    /// The values to store, one per column.
    #[must_use]
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// The bytes to store beside them and to hash (UTF-8 JSON).
    #[must_use]
    pub fn canonical(&self) -> &[u8] {
        &self.canonical
    }

    /// The leaf hash of [`Sealed::canonical`].
    #[must_use]
    pub fn leaf(&self) -> Hash {
        leaf_hash(&self.canonical)
    }
}

/// The event columns of one row as some database or file presents them: plain values with no promise,
/// so that a row that was tampered with can still be read, and reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each column is documented at the field of `Event` it comes from"
)]
pub struct Columns {
    pub call_id: String,
    #[serde(with = "encoding::micros")]
    pub ts: OffsetDateTime,
    pub actor: String,
    pub agent_id: String,
    pub key_id: Option<String>,
    pub op: String,
    pub memory_id: Option<String>,
    pub namespace: String,
    pub purpose: Option<String>,
    pub result: String,
    pub detail: Option<String>,
}

/// The query text as the `purpose` column holds it: its first [`MAX_PURPOSE_CHARS`] characters, with
/// U+0000 replaced by U+FFFD. Applying it twice changes nothing.
#[must_use]
pub fn purpose(query: &str) -> String {
    storable(query.chars().take(MAX_PURPOSE_CHARS).collect())
}

/// The instant in UTC with everything below a microsecond dropped, never rounded up.
///
/// An instant that has no UTC form within the years -9999 to 9999 becomes the nearest one that has.
#[must_use]
pub fn truncate_to_micros(ts: OffsetDateTime) -> OffsetDateTime {
    let utc = ts.checked_to_offset(UtcOffset::UTC).unwrap_or_else(|| {
        if ts.year() > 0 {
            PrimitiveDateTime::MAX.assume_utc()
        } else {
            PrimitiveDateTime::MIN.assume_utc()
        }
    });
    let nanos = utc.microsecond() * 1_000;
    utc.replace_nanosecond(nanos).unwrap_or(utc)
}

fn storable(text: String) -> String {
    if text.contains('\0') {
        text.replace('\0', "\u{fffd}")
    } else {
        text
    }
}
