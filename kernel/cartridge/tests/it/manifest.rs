//! What a cartridge says about itself.

use halofy_cartridge::{Cartridge, Digest, LoadError, MANIFEST_SECTION};

use crate::guest::{NOTHING, planning};
use crate::memory_view::host;

/// A custom section with this manifest.
pub(crate) fn section(json: &str) -> Vec<u8> {
    let mut body = vec![u8::try_from(MANIFEST_SECTION.len()).unwrap()];
    body.extend_from_slice(MANIFEST_SECTION.as_bytes());
    body.extend_from_slice(json.as_bytes());
    let mut size = body.len();
    let mut section = vec![0];
    loop {
        let low = u8::try_from(size & 0x7f).unwrap();
        size >>= 7;
        section.push(if size == 0 { low } else { low | 0x80 });
        if size == 0 {
            break;
        }
    }
    section.extend(body);
    section
}

fn load_with(manifests: &[&str]) -> Result<Cartridge, LoadError> {
    let mut bytes = planning(NOTHING);
    for manifest in manifests {
        bytes.extend(section(manifest));
    }
    host().load(&bytes, "given")
}

const GOOD: &str = r#"{"name":"acme-graph","version":"1.2.0","wit":"1.0.0",
    "vendor":"Acme","licence":"MIT","homepage":"ignored"}"#;

#[test]
fn the_manifest_names_the_cartridge() {
    let cartridge = load_with(&[GOOD]).unwrap();
    assert_eq!(
        (cartridge.name(), cartridge.version()),
        ("acme-graph", "1.2.0")
    );
    assert_eq!(cartridge.manifest().unwrap().vendor, "Acme");
}

#[test]
fn without_a_manifest_the_loader_names_the_cartridge() {
    let cartridge = load_with(&[]).unwrap();
    assert_eq!(
        (cartridge.name(), cartridge.version()),
        ("given", "unversioned")
    );
    assert!(cartridge.manifest().is_none());
}

#[test]
fn the_digest_is_that_of_the_bytes() {
    let bytes = planning(NOTHING);
    let cartridge = host().load(&bytes, "given").unwrap();
    assert_eq!(cartridge.digest(), Digest::of(&bytes));
    assert_eq!(
        Digest::of(b"abc").to_string(),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}

#[test]
fn an_unusable_manifest_is_refused() {
    let long = format!("{{\"name\":\"{}\"}}", "x".repeat(20_000));
    for bad in [
        "",
        "[]",
        r#"{"name":"a","version":"1"}"#,
        r#"{"name":"../a","version":"1","wit":"1.0.0"}"#,
        r#"{"name":"","version":"1","wit":"1.0.0"}"#,
        r#"{"name":"a","version":"1 reason=x","wit":"1.0.0"}"#,
        r#"{"name":"a","version":"","wit":"1.0.0"}"#,
        r#"{"name":"a","version":"1","wit":"1.0.1"}"#,
        r#"{"name":"a","version":"1","wit":"1.0.0","vendor":"a\nb"}"#,
        long.as_str(),
    ] {
        let error = load_with(&[bad]).unwrap_err();
        assert_eq!(error.reason(), "manifest", "{bad}: {error}");
    }
    assert_eq!(load_with(&[GOOD, GOOD]).unwrap_err().reason(), "manifest");
}

#[test]
fn a_name_that_the_loader_gives_must_be_a_name_too() {
    let error = host().load(&planning(NOTHING), "a b").unwrap_err();
    assert_eq!(error.reason(), "manifest");
}
