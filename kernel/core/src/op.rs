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
    /// A memory, those that it replaced, and those that replaced it.
    History,
    /// Memories that contradict each other, and what was decided.
    Disputes,
    /// Settle a dispute, or undo what was decided.
    Resolve,
    /// Erase memories for good.
    Forget,
    /// Ask what became of a call that was answered with a ticket.
    Ticket,
}

impl Op {
    /// Every syscall.
    pub const ALL: [Self; 9] = [
        Self::Write,
        Self::Search,
        Self::Read,
        Self::Stats,
        Self::History,
        Self::Disputes,
        Self::Resolve,
        Self::Forget,
        Self::Ticket,
    ];

    /// The name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Search => "search",
            Self::Read => "read",
            Self::Stats => "stats",
            Self::History => "history",
            Self::Disputes => "disputes",
            Self::Resolve => "resolve",
            Self::Forget => "forget",
            Self::Ticket => "ticket",
        }
    }

    /// Whether it changes what is remembered.
    pub fn mutates(self) -> bool {
        matches!(self, Self::Write | Self::Resolve | Self::Forget)
    }

    /// Whether it manages a namespace: for those who answer for it.
    pub fn manages(self) -> bool {
        matches!(self, Self::Resolve | Self::Forget)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
