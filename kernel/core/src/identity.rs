//! Who calls: roles, actors, and the identity that a key resolves to.
//!
//! Not here: key material and look-ups. An [`Identity`] is made by the gate from
//! a key and from nothing else.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Invalid, Namespace, Op};

const MAX_ACTOR_BYTES: usize = 256;

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A program acting for somebody: syscalls only.
    Agent,
    /// A person: syscalls only.
    Member,
    /// Reads, searches and sees figures; never writes.
    Auditor,
    /// Syscalls, and management within the key's subtree.
    Admin,
    /// As admin; the first key of a namespace.
    Owner,
}

impl Role {
    /// Every role, in rising order of power.
    pub const ALL: [Self; 5] = [
        Self::Agent,
        Self::Member,
        Self::Auditor,
        Self::Admin,
        Self::Owner,
    ];

    /// Whether this role may call `op`.
    pub fn may(self, op: Op) -> bool {
        match self {
            Self::Agent | Self::Member => !op.manages(),
            Self::Admin | Self::Owner => true,
            Self::Auditor => !op.mutates(),
        }
    }

    /// The role's name in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Member => "member",
            Self::Auditor => "auditor",
            Self::Admin => "admin",
            Self::Owner => "owner",
        }
    }
}

impl std::str::FromStr for Role {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.into_iter().find(|role| role.as_str() == name);
        found.ok_or_else(|| {
            Invalid::new("role", "is not one of agent, member, auditor, admin, owner")
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whoever a key stands for, such as `user:dana`: 1 to 256 printable bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Actor(String);

impl Actor {
    /// Reads an actor's name.
    ///
    /// # Errors
    /// When it is empty, too long, or holds white space or control characters.
    pub fn parse(name: &str) -> Result<Self, Invalid> {
        let bad = |c: char| c.is_control() || c.is_whitespace();
        if name.is_empty() || name.len() > MAX_ACTOR_BYTES || name.chars().any(bad) {
            return Err(Invalid::new(
                "actor",
                "must be 1 to 256 bytes without white space or control characters, such as user:dana",
            ));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Actor {
    type Error = Invalid;

    fn try_from(name: String) -> Result<Self, Invalid> {
        Self::parse(&name)
    }
}

impl From<Actor> for String {
    fn from(actor: Actor) -> Self {
        actor.0
    }
}

impl std::str::FromStr for Actor {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        Self::parse(name)
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A key's public name, such as `key_01J…`. It is not the secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyId(pub String);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Through which door a call came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AgentKind {
    /// `POST /v1/mem/…` over TCP.
    Http,
    /// A Model Context Protocol client.
    Mcp,
    /// The `halofy` command on the kernel's own machine.
    Cli,
    /// The kernel itself.
    Kernel,
}

impl AgentKind {
    /// The name used in the audit log.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Mcp => "mcp",
            Self::Cli => "cli",
            Self::Kernel => "kernel",
        }
    }
}

/// A caller, as its key says. Nothing that a request carries can alter it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The key that was shown.
    pub key: KeyId,
    /// Where the caller lives, and so what it sees.
    pub namespace: Namespace,
    /// Whom the audit log names.
    pub actor: Actor,
    /// What it may do.
    pub role: Role,
    /// Groups that it belongs to, for what only certain groups may read.
    pub groups: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_auditor_may_not_write() {
        for role in Role::ALL {
            assert_eq!(role.may(Op::Write), role != Role::Auditor);
            for op in [
                Op::Read,
                Op::Search,
                Op::Stats,
                Op::History,
                Op::Disputes,
                Op::Ticket,
            ] {
                assert!(role.may(op));
            }
        }
    }

    #[test]
    fn who_answers_for_a_namespace_manages_it() {
        for role in Role::ALL {
            let manages = matches!(role, Role::Admin | Role::Owner);
            for op in [Op::Resolve, Op::Forget] {
                assert_eq!(role.may(op), manages, "{role} {op}");
            }
        }
    }

    #[test]
    fn role_names_read_back() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse::<Role>(), Ok(role));
        }
        assert!("root".parse::<Role>().is_err());
    }
}
