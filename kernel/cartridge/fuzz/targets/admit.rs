//! Any bytes through admission: an answer, never a panic, and what is admitted names
//! nothing but the contract.
#![no_main]

use halofy_cartridge::{RETRIEVER, TYPES, VIEW, inspect};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(inspection) = inspect(bytes, 1 << 20) {
        let known = |name: &str| name == VIEW || name == TYPES;
        assert!(inspection.imports.iter().all(|import| known(&import.name)));
        assert!(inspection.exports.iter().any(|export| export == RETRIEVER));
    }
});
