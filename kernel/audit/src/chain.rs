//! The hash chain: each entry commits to its row and to every entry before it.
//!
//! Must not live here: reading or writing entries, and choosing which row comes next.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::encoding;

/// A SHA-256 digest.
pub type Hash = [u8; 32];

/// What the first entry has in the place of a previous hash.
pub const GENESIS: Hash = [0; 32];

/// Keeps a chain hash from ever being equal to a hash made for another purpose.
const DOMAIN: &[u8] = b"halofy/audit-chain/v1\n";

/// One row's place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainEntry {
    /// Position, gap-free from 0.
    pub index: u64,
    /// The row's sequence number in the database; may have gaps, and is not the order of the chain.
    pub seq: i64,
    /// The database transaction that inserted the row.
    pub xid: u64,
    /// [`crate::leaf_hash`] of the row's canonical bytes.
    pub leaf: Hash,
    /// `SHA-256("halofy/audit-chain/v1\n" || previous hash || index || seq || xid || leaf)`, the three
    /// integers as 8 bytes, big endian.
    pub hash: Hash,
}

/// The last entry of a chain: all that is needed to extend it, and a checkpoint once it is kept
/// elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// The entry's index.
    pub index: u64,
    /// The entry's chain hash; 64 lower-case hex digits in JSON.
    #[serde(with = "encoding::hash_hex")]
    pub hash: Hash,
}

/// A chain that is being extended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    head: Option<Head>,
}

impl Chain {
    /// An empty chain.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A chain whose last entry is `head`.
    #[must_use]
    pub fn resume(head: Head) -> Self {
        Self { head: Some(head) }
    }

    /// The last entry, `None` while the chain is empty.
    #[must_use]
    pub fn head(&self) -> Option<Head> {
        self.head
    }

    /// Appends one row and returns its entry. The caller makes it durable; if that fails, this chain is
    /// ahead of the database and has to be dropped and resumed.
    pub fn extend(&mut self, seq: i64, xid: u64, leaf: Hash) -> ChainEntry {
        let (index, previous) = match self.head {
            Some(head) => (head.index + 1, head.hash),
            None => (0, GENESIS),
        };
        let hash = link(
            &previous,
            index.to_be_bytes(),
            seq.to_be_bytes(),
            xid.to_be_bytes(),
            &leaf,
        );
        self.head = Some(Head { index, hash });
        ChainEntry {
            index,
            seq,
            xid,
            leaf,
            hash,
        }
    }
}

/// The chain hash of one entry; its formula stands at [`ChainEntry::hash`].
pub(crate) fn link(
    previous: &Hash,
    index: [u8; 8],
    seq: [u8; 8],
    xid: [u8; 8],
    leaf: &[u8],
) -> Hash {
    let mut sha = Sha256::new();
    sha.update(DOMAIN);
    sha.update(previous);
    sha.update(index);
    sha.update(seq);
    sha.update(xid);
    sha.update(leaf);
    sha.finalize().into()
}
