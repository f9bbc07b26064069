//! Keys: making one. The plain key is shown once and never stored.

use halofy_core::{Actor, Invalid, KeyId, Namespace, Role};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use ulid::Ulid;

use crate::Refusal;

const PREFIX: &str = "hm_";
const SECRET_BYTES: usize = 32;
/// `hm_` and eight characters: enough to tell keys apart, useless to guess from.
const HINT_CHARS: usize = 11;

/// A key to be made.
#[derive(Debug, Clone)]
pub struct NewKeyRequest {
    /// Where its holder lives.
    pub namespace: Namespace,
    /// Whom the audit log names.
    pub actor: Actor,
    /// What it may do.
    pub role: Role,
    /// When it stops working, if ever.
    pub expires_at: Option<OffsetDateTime>,
    /// Groups that it belongs to.
    pub groups: Vec<String>,
}

/// A key in the clear. Printed once, when it is made.
pub struct Key(String);

impl Key {
    /// 256 bits from the system's generator.
    pub(crate) fn generate() -> Result<Self, Refusal> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(|error| Refusal::Internal {
            why: format!("no randomness: {error}"),
        })?;
        Ok(Self(format!("{PREFIX}{}", hex::encode(secret))))
    }

    /// The key as its holder sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(crate) fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    pub(crate) fn hint(&self) -> &str {
        &self.0[..HINT_CHARS]
    }
}

/// A group is named as an actor is, so that a memory can name it as a reader.
pub(crate) fn check_groups(groups: &[String]) -> Result<(), Invalid> {
    let bad = groups.iter().find(|group| Actor::parse(group).is_err());
    match bad {
        Some(_) => Err(Invalid::new(
            "groups",
            "must be 1 to 256 bytes each without white space or control characters, such as legal",
        )),
        None => Ok(()),
    }
}

/// Only what a log may hold.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({}…)", self.hint())
    }
}

pub(crate) fn new_id() -> KeyId {
    KeyId(format!("key_{}", Ulid::generate()))
}

/// Refuses a time in the past: such a key would never work.
pub(crate) fn check_expiry(
    expires_at: Option<OffsetDateTime>,
    now: OffsetDateTime,
) -> Result<(), Invalid> {
    match expires_at {
        Some(at) if at <= now => Err(Invalid::new("expires", "is in the past")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_and_do_not_print_themselves() {
        let (a, b) = (Key::generate().expect("a"), Key::generate().expect("b"));
        assert_ne!(a.reveal(), b.reveal());
        assert_eq!(a.reveal().len(), PREFIX.len() + 2 * SECRET_BYTES);
        assert!(!format!("{a:?}").contains(a.reveal()));
    }
}
