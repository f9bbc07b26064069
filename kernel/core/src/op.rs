//! The syscalls by name.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A syscall. Its name is the last part of its route and the audit log's `op`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Store a memory.
    Write,
    /// Rank memories for a query.
    Search,
    /// Fetch one memory by id.
    Read,
    /// Counts over what the caller sees.
    Stats,
}

impl Op {
    /// Every syscall.
    pub const ALL: [Self; 4] = [Self::Write, Self::Search, Self::Read, Self::Stats];

    /// The name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Search => "search",
            Self::Read => "read",
            Self::Stats => "stats",
        }
    }

    /// Whether it changes what is remembered.
    pub fn mutates(self) -> bool {
        matches!(self, Self::Write)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
