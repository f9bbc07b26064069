//! FNV-1a, the hash behind A/B routing and feature hashing. Stable for ever: stored
//! vectors and routing decisions depend on it. Not for anything an adversary may target.
//!
//! Constants from Fowler, Noll, Vo and Eastlake, "The FNV Non-Cryptographic Hash
//! Algorithm".

use std::hash::{BuildHasherDefault, Hasher};

const BASIS_32: u32 = 0x811c_9dc5;
const PRIME_32: u32 = 0x0100_0193;
const BASIS_64: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME_64: u64 = 0x0000_0100_0000_01b3;

/// FNV-1a over 32 bits.
#[must_use]
pub const fn fnv1a32(bytes: &[u8]) -> u32 {
    let mut hash = BASIS_32;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u32).wrapping_mul(PRIME_32);
        at += 1;
    }
    hash
}

/// FNV-1a over 64 bits.
#[must_use]
pub const fn fnv1a64(bytes: &[u8]) -> u64 {
    extend(BASIS_64, bytes)
}

const fn extend(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(PRIME_64);
        at += 1;
    }
    hash
}

/// Hashes the short keys of this crate's own tables; nothing ever iterates over those.
pub(crate) type BuildFnv = BuildHasherDefault<FnvHasher>;

pub(crate) struct FnvHasher(u64);

impl Default for FnvHasher {
    fn default() -> Self {
        Self(BASIS_64)
    }
}

impl Hasher for FnvHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = extend(self.0, bytes);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The vectors are those of the authors' test suite.
    #[test]
    fn the_published_test_vectors_hold() {
        for (text, wide, narrow) in [
            ("", 0xcbf2_9ce4_8422_2325, 0x811c_9dc5),
            ("a", 0xaf63_dc4c_8601_ec8c, 0xe40c_292c),
            ("foobar", 0x8594_4171_f739_67e8, 0xbf9c_f968),
        ] {
            assert_eq!(fnv1a64(text.as_bytes()), wide, "{text:?}");
            assert_eq!(fnv1a32(text.as_bytes()), narrow, "{text:?}");
        }
    }
}
