//! Any bytes as a signature file: an answer, never a panic, and what is read is what
//! would be written. No mutation makes a signature hold for other bytes.
#![no_main]

use halofy_cartridge::{SignatureFile, Trust};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|json: &[u8]| {
    let Ok(file) = SignatureFile::parse(json) else {
        return;
    };
    let again = SignatureFile::parse(file.to_json().as_bytes());
    assert_eq!(again.as_ref(), Ok(&file));
    let trust = Trust {
        keys: &[],
        allow_unsigned: true,
        limit: 1 << 20,
    };
    assert!(trust.check(json, Some(&file)).is_err());
});
