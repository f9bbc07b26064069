//! What the fuzzers start from: small components and a signature file, as bytes. Made
//! here, kept beside the fuzzers, and compared, so that they stay what they are for.

use std::path::{Path, PathBuf};

use halofy_cartridge::{SignatureFile, VendorKey, inspect};

use crate::guest::{Guest, NOTHING, READ, planning, returning, wat};
use crate::manifest::section;

const MANIFEST: &str = r#"{"name":"acme-graph","version":"1.0.0","wit":"1.0.0","vendor":"Acme",
    "licence":"MIT","limits":{"hostCalls":9,"importTimesMs":{"embed":40}}}"#;

fn named() -> Vec<u8> {
    let mut named = planning(NOTHING);
    named.extend(section(MANIFEST));
    named
}

fn components() -> Vec<(&'static str, Vec<u8>)> {
    let extra = Guest {
        component: r#"(instance $extra) (export "vendor:extra/thing" (instance $extra))"#,
        ..Guest::default()
    };
    let foreign = r#"(component (import "wasi:cli/environment@0.2.0" (instance
        (export "get" (func (result (list (tuple string string))))))))"#;
    vec![
        ("named.wasm", named()),
        ("reading.wasm", planning(&format!("{READ} {NOTHING}"))),
        ("returning.wasm", returning(&[(0, "1"), (1, "nan")])),
        ("extra.wasm", extra.build()),
        ("foreign.wasm", wat(foreign)),
        ("empty.wasm", wat("(component)")),
        ("module.wasm", wat("(module (func (loop (br 0))))")),
    ]
}

fn seeds(target: &str) -> PathBuf {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    fuzz.join(target)
}

/// Set `HALOFY_WRITE_SEEDS` to write them anew after the components were changed.
#[test]
fn the_fuzzers_start_from_the_components_of_these_tests() {
    let write = std::env::var_os("HALOFY_WRITE_SEEDS").is_some();
    for (name, bytes) in components() {
        let path = seeds("admit").join(name);
        if write {
            std::fs::write(&path, &bytes).unwrap();
        }
        let kept = std::fs::read(&path).unwrap_or_default();
        assert!(kept == bytes, "{} is not what is made", path.display());
    }
}

#[test]
fn the_fuzzers_start_from_a_signature_that_holds() {
    let (path, named) = (seeds("signature").join("named.json"), named());
    if std::env::var_os("HALOFY_WRITE_SEEDS").is_some() {
        let key = VendorKey::generate().unwrap();
        let file = SignatureFile::sign(&named, &key, 1 << 20).unwrap();
        std::fs::write(&path, file.to_json() + "\n").unwrap();
    }
    let file = SignatureFile::parse(&std::fs::read(&path).unwrap()).unwrap();
    file.verify(&named).unwrap();
    let inspection = inspect(&named, 1 << 20).unwrap();
    assert_eq!(inspection.manifest.as_ref(), Some(file.manifest()));
}
