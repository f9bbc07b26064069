//! A memory, its id, and the interval over which it is believed.

use std::fmt;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use ulid::Ulid;

use crate::{Classification, Invalid, Namespace, Provenance};

/// A ULID in its canonical form: 26 characters of upper-case Crockford base 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryId(Ulid);

impl MemoryId {
    /// Wraps an id that the kernel made.
    pub fn new(id: Ulid) -> Self {
        Self(id)
    }

    /// The 128 bits of the id.
    pub fn bits(self) -> u128 {
        self.0.0
    }

    /// The id with these bits.
    pub fn from_bits(bits: u128) -> Self {
        Self(Ulid(bits))
    }

    /// Reads an id that a caller sent. Only the canonical form is an id, so that
    /// one memory has one name.
    ///
    /// # Errors
    /// When the text is not a canonical ULID.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        match Ulid::from_string(text) {
            Ok(id) if id.to_string() == text => Ok(Self(id)),
            _ => Err(Invalid::new(
                "id",
                "is not a memory id (a ULID: 26 characters, upper case)",
            )),
        }
    }
}

impl fmt::Display for MemoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for MemoryId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// What sort of thing a memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Something that holds.
    #[default]
    Fact,
    /// What somebody likes or wants.
    Preference,
    /// Something that happened.
    Episode,
    /// Who or what something is.
    Entity,
    /// Where something is to be found.
    Pointer,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Fact,
        Self::Preference,
        Self::Episode,
        Self::Entity,
        Self::Pointer,
    ];

    /// The name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fact => "fact",
            Self::Preference => "preference",
            Self::Episode => "episode",
            Self::Entity => "entity",
            Self::Pointer => "pointer",
        }
    }
}

impl std::str::FromStr for Kind {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == name);
        found.ok_or_else(|| {
            let problem = "is not one of fact, preference, episode, entity, pointer";
            Invalid::new("kind", problem)
        })
    }
}

/// When a memory is believed, and when its subject happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Validity {
    /// When the thing described happened, where known.
    #[serde(with = "time::serde::rfc3339::option")]
    pub event_time: Option<OffsetDateTime>,
    /// When the kernel was told.
    #[serde(with = "time::serde::rfc3339")]
    pub assertion_time: OffsetDateTime,
    /// Start of the interval over which the memory is believed.
    #[serde(with = "time::serde::rfc3339")]
    pub valid_from: OffsetDateTime,
    /// End of that interval; absent while it is believed.
    #[serde(with = "time::serde::rfc3339::option")]
    pub valid_to: Option<OffsetDateTime>,
    /// When the kernel was told that it ended.
    #[serde(with = "time::serde::rfc3339::option")]
    pub closed_at: Option<OffsetDateTime>,
}

/// Whether a memory counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is believed, over its interval.
    Active,
    /// It contradicts what ranks higher, and waits for somebody to decide.
    Disputed,
}

impl std::str::FromStr for Status {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        match name {
            "active" => Ok(Self::Active),
            "disputed" => Ok(Self::Disputed),
            _ => Err(Invalid::new("status", "is not active or disputed")),
        }
    }
}

/// How a memory came to be: what its writer said, and what the kernel knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// What its writer said.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The rank of its source.
    pub trust: i16,
    /// The highest rank of those who said it again, if it is higher: what it is weighed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust_raised: Option<i16>,
    /// The call that raised it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raised_by_call: Option<String>,
    /// The key that wrote it.
    pub key: Option<String>,
    /// The call that wrote it, as the audit log names it.
    pub call: Option<String>,
    /// The language model that drew it from a text; absent when the text is verbatim.
    pub model: Option<String>,
}

/// How often a memory was wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Telemetry {
    /// Times it was served or written again.
    pub access_count: i64,
    /// Times it was the closest, and not enough.
    pub fault_count: i64,
}

/// One row of `memory_objects`, without its vector.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    /// Its name.
    pub id: MemoryId,
    /// Where it lives.
    pub namespace: Namespace,
    /// Who wrote it.
    pub actor: String,
    /// What sort of thing it is.
    pub kind: Kind,
    /// What it says, verbatim.
    pub content: String,
    /// When it is believed.
    #[serde(flatten)]
    pub validity: Validity,
    /// Whether it counts.
    pub status: Status,
    /// The memory that it replaced.
    pub supersedes: Option<MemoryId>,
    /// The memory that it says again, after a decision about that one was undone.
    pub restores: Option<MemoryId>,
    /// What it fills, if anything: a newer memory of the same slot supersedes it.
    pub slot: Option<String>,
    /// Canonical names of the entities it speaks of.
    pub entities: Vec<String>,
    /// How it came to be.
    pub provenance: Origin,
    /// Its protection label.
    pub classification: Classification,
    /// What its writer attached; the kernel attaches no meaning to it.
    pub metadata: Option<serde_json::Value>,
    /// How often it was wanted.
    pub telemetry: Telemetry,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_is_an_id() {
        let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        assert_eq!(MemoryId::parse(id).map(|i| i.to_string()), Ok(id.into()));
        let overflow = "8".to_owned() + &id[1..];
        for bad in [
            "",
            "x",
            &id.to_lowercase(),
            &id[1..],
            "01ARZ3NDEKTSV4RRFFQ69G5FA\0",
            &overflow,
        ] {
            assert!(MemoryId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
