//! Work that outlives the call that asked for it: its id, its kind, its states.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::Invalid;

const PREFIX: &str = "job_";

/// Names a job, and is its ticket: `job_` and a ULID in canonical form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(Ulid);

impl JobId {
    /// Wraps an id that the kernel made.
    pub fn new(id: Ulid) -> Self {
        Self(id)
    }

    /// Reads a ticket that a caller sent. Only the canonical form is one.
    ///
    /// # Errors
    /// When the text is none; names the field `ticket`.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let ulid = text.strip_prefix(PREFIX).map(Ulid::from_string);
        match ulid {
            Some(Ok(id)) if Self(id).to_string() == text => Ok(Self(id)),
            _ => Err(Invalid::new(
                "ticket",
                "is not a ticket (job_ and a ULID: 26 characters, upper case)",
            )),
        }
    }
}

impl FromStr for JobId {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::parse(text)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.0)
    }
}

impl Serialize for JobId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

/// What sort of work a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobKind {
    /// A write that its caller did not wait for, or that takes several transactions.
    Write,
    /// A comparison of a stored fact with its neighbours.
    Conflict,
    /// A vector that could not be made when its memory was stored.
    Embed,
}

impl JobKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Write, Self::Conflict, Self::Embed];

    /// The kind's name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Conflict => "conflict",
            Self::Embed => "embed",
        }
    }
}

impl FromStr for JobKind {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == name);
        found.ok_or_else(|| Invalid::new("kind", "is not one of write, conflict, embed"))
    }
}

impl fmt::Display for JobKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a job stands. The last three are ends; an operator can bring the last two back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Waits for a worker, or for its next try.
    Queued,
    /// A worker holds a lease on it.
    Running,
    /// Its effects are there.
    Done,
    /// It failed for good.
    Dead,
    /// Somebody stopped it.
    Cancelled,
}

impl JobState {
    /// Every state.
    pub const ALL: [Self; 5] = [
        Self::Queued,
        Self::Running,
        Self::Done,
        Self::Dead,
        Self::Cancelled,
    ];

    /// The state's name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether no worker will touch it again.
    pub fn is_end(self) -> bool {
        matches!(self, Self::Done | Self::Dead | Self::Cancelled)
    }
}

impl FromStr for JobState {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.into_iter().find(|state| state.as_str() == name);
        found.ok_or_else(|| {
            Invalid::new(
                "state",
                "is not one of queued, running, done, dead, cancelled",
            )
        })
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_form_is_a_ticket() {
        let ticket = JobId::new(Ulid(u128::MAX)).to_string();
        assert_eq!(JobId::parse(&ticket), Ok(JobId::new(Ulid(u128::MAX))));
        let bare = &ticket[PREFIX.len()..];
        let lower = ticket.to_lowercase();
        let wide = format!("{ticket} ");
        for bad in [
            "",
            "job_",
            bare,
            &lower,
            &wide,
            "job_8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        ] {
            let refused = JobId::parse(bad).expect_err(bad);
            assert_eq!(refused.field, "ticket");
        }
    }

    #[test]
    fn names_read_back() {
        for kind in JobKind::ALL {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        for state in JobState::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
    }
}
