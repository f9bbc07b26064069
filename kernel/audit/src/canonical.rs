//! The exact bytes of a row that are stored and hashed, and their leaf hash.
//!
//! Must not live here: the chain over the leaves.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::chain::Hash;
use crate::event::{Columns, truncate_to_micros};

/// The version of the form below, its member `v`.
const VERSION: u64 = 1;

/// Each column with its member of the canonical object.
const MEMBERS: [(&str, &str); 11] = [
    ("call_id", "callId"),
    ("ts", "ts"),
    ("actor", "actor"),
    ("agent_id", "agentId"),
    ("key_id", "keyId"),
    ("op", "op"),
    ("memory_id", "memoryId"),
    ("namespace", "namespace"),
    ("purpose", "purpose"),
    ("result", "result"),
    ("detail", "detail"),
];

/// The row as RFC 8785 canonical JSON, in UTF-8.
///
/// Always the same twelve members: the columns in camelCase and `"v":1`. An absent value is `null`,
/// never left out, so every row has the same shape. `ts` is as [`timestamp`] writes it. `v` is the only
/// number, so no reader's number type can change the bytes.
#[must_use]
pub fn canonical_bytes(columns: &Columns) -> Vec<u8> {
    serde_json_canonicalizer::to_vec(&members(columns))
        .expect("an object of strings, nulls and one small integer always has a canonical form")
}

/// `SHA-256(0x00 || canonical)`: the leaf hash of RFC 6962 section 2.1, so that a Merkle tree can be
/// laid over the same leaves.
#[must_use]
pub fn leaf_hash(canonical: &[u8]) -> Hash {
    Sha256::new()
        .chain_update([0x00])
        .chain_update(canonical)
        .finalize()
        .into()
}

/// RFC 3339 in UTC with exactly six fractional digits and `Z`: `2026-01-02T03:04:05.123456Z`.
/// Digits below a microsecond are dropped.
#[must_use]
pub fn timestamp(ts: OffsetDateTime) -> String {
    let t = truncate_to_micros(ts);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
        t.year(),
        u8::from(t.month()),
        t.day(),
        t.hour(),
        t.minute(),
        t.second(),
        t.microsecond()
    )
}

/// The columns whose value is not the one in the stored canonical bytes, in table order. Empty when the
/// values agree, or when `canonical` is not a JSON object and so nothing can be compared.
pub(crate) fn differing_columns(columns: &Columns, canonical: &[u8]) -> Vec<&'static str> {
    let Ok(stored) = serde_json::from_slice::<Map<String, Value>>(canonical) else {
        return Vec::new();
    };
    let derived = members(columns);
    let differs = |member: &str| stored.get(member) != derived.get(member);
    MEMBERS
        .into_iter()
        .filter(|(_, member)| differs(member))
        .map(|(column, _)| column)
        .collect()
}

fn members(columns: &Columns) -> Map<String, Value> {
    let Ok(Value::Object(mut object)) = serde_json::to_value(columns) else {
        unreachable!("a struct of strings serialises to an object");
    };
    object.insert("v".to_owned(), VERSION.into());
    debug_assert_eq!(
        object.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        MEMBERS
            .iter()
            .map(|(_, member)| *member)
            .chain(["v"])
            .collect::<BTreeSet<_>>(),
        "every column is named once in MEMBERS"
    );
    object
}
