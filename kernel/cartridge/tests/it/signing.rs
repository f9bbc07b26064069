//! C17: whose word lets a component in. Each refusal comes before the bytes are
//! parsed, with a reason of its own.

use std::io::Read;

use halofy_cartridge::{
    Compiler, LoadError, PublicKey, SignatureError, SignatureFile, Trust, TrustedKey, VendorKey,
    Verdict, read_component,
};

use crate::guest::{NOTHING, READ, planning};
use crate::manifest::section;
use crate::memory_view::host;

const LIMIT: usize = 1 << 20;

fn named(name: &str) -> Vec<u8> {
    let mut bytes = planning(NOTHING);
    let manifest = format!(r#"{{"name":"{name}","version":"1.0.0","wit":"1.0.0"}}"#);
    bytes.extend(section(&manifest));
    bytes
}

fn listed(key: &VendorKey, names: &[&str]) -> TrustedKey {
    TrustedKey {
        id: "row-1".to_owned(),
        vendor: "Acme".to_owned(),
        public_key: key.public(),
        names: names.iter().map(ToString::to_string).collect(),
        revoked: false,
    }
}

fn trust(keys: &[TrustedKey]) -> Trust<'_> {
    Trust {
        keys,
        allow_unsigned: false,
        limit: LIMIT,
    }
}

struct Signed {
    component: Vec<u8>,
    key: VendorKey,
    file: SignatureFile,
}

fn signed(name: &str) -> Signed {
    let (component, key) = (named(name), VendorKey::generate().unwrap());
    let file = SignatureFile::sign(&component, &key, LIMIT).unwrap();
    Signed {
        component,
        key,
        file,
    }
}

/// The file with one field replaced.
fn altered(file: &SignatureFile, field: &str, value: serde_json::Value) -> Vec<u8> {
    let mut json: serde_json::Value = serde_json::from_str(&file.to_json()).unwrap();
    json[field] = value;
    serde_json::to_vec(&json).unwrap()
}

#[test]
fn a_trusted_keys_signature_lets_a_component_in() {
    let Signed {
        component,
        key,
        file,
    } = signed("acme-graph");
    let file = SignatureFile::parse(file.to_json().as_bytes()).unwrap();
    for names in [&["acme-graph"][..], &["other", "acme-*"], &["*"]] {
        let keys = [listed(&key, names)];
        match trust(&keys).check(&component, Some(&file)).unwrap() {
            Verdict::Signed {
                key,
                vendor,
                manifest,
            } => {
                assert_eq!((key.as_str(), vendor.as_str()), ("row-1", "Acme"));
                assert_eq!(manifest.name, "acme-graph");
            }
            Verdict::Unsigned => panic!("it is signed"),
        }
    }
}

#[test]
fn without_a_signature_only_the_policy_lets_a_component_in() {
    let component = planning(NOTHING);
    let error = trust(&[]).check(&component, None).unwrap_err();
    assert_eq!(error, SignatureError::Unsigned);
    let lenient = Trust {
        allow_unsigned: true,
        ..trust(&[])
    };
    assert_eq!(lenient.check(&component, None), Ok(Verdict::Unsigned));
}

#[test]
fn a_signature_that_is_there_must_hold_where_unsigned_components_pass() {
    let Signed {
        component, file, ..
    } = signed("acme-graph");
    let lenient = Trust {
        allow_unsigned: true,
        ..trust(&[])
    };
    let error = lenient.check(&component, Some(&file)).unwrap_err();
    assert_eq!(error.reason(), "signature_unknown_key");
}

#[test]
fn a_key_that_nobody_listed_is_refused() {
    let Signed {
        component, file, ..
    } = signed("acme-graph");
    let keys = [listed(&VendorKey::generate().unwrap(), &["*"])];
    let error = trust(&keys).check(&component, Some(&file)).unwrap_err();
    let key_id = file.public_key().id();
    assert_eq!(error, SignatureError::UnknownKey { key_id });
}

#[test]
fn a_signature_made_by_another_key_in_a_trusted_ones_name_is_refused() {
    let Signed {
        component,
        key,
        file,
    } = signed("acme-graph");
    let other = VendorKey::generate().unwrap();
    let forged = SignatureFile::sign(&component, &other, LIMIT).unwrap();
    let forged: serde_json::Value = serde_json::from_str(&forged.to_json()).unwrap();
    let forged = altered(&file, "signature", forged["signature"].clone());
    let forged = SignatureFile::parse(&forged).unwrap();
    let keys = [listed(&key, &["*"])];
    let error = trust(&keys).check(&component, Some(&forged)).unwrap_err();
    assert_eq!(error.reason(), "signature_wrong_key");
}

#[test]
fn a_revoked_key_is_refused_also_when_it_is_listed_again() {
    let Signed {
        component,
        key,
        file,
    } = signed("acme-graph");
    let revoked = TrustedKey {
        revoked: true,
        ..listed(&key, &["*"])
    };
    for keys in [vec![revoked.clone()], vec![listed(&key, &["*"]), revoked]] {
        let error = trust(&keys).check(&component, Some(&file)).unwrap_err();
        assert_eq!(error.reason(), "signature_revoked_key");
    }
}

#[test]
fn a_signature_of_other_bytes_is_refused() {
    let Signed {
        mut component,
        key,
        file,
    } = signed("acme-graph");
    component.push(0);
    let keys = [listed(&key, &["*"])];
    let error = trust(&keys).check(&component, Some(&file)).unwrap_err();
    assert_eq!(error.reason(), "signature_other_bytes");
    // With the digest changed to fit, the signature does not.
    let digest = halofy_cartridge::Digest::of(&component).to_string();
    let file = SignatureFile::parse(&altered(&file, "digest", digest.into())).unwrap();
    let error = trust(&keys).check(&component, Some(&file)).unwrap_err();
    assert_eq!(error.reason(), "signature_wrong_key");
}

#[test]
fn a_signature_for_another_world_is_refused() {
    let Signed {
        component,
        key,
        file,
    } = signed("acme-graph");
    let other = altered(&file, "world", "halofy:driver@0.9.0".into());
    let other = SignatureFile::parse(&other).unwrap();
    let keys = [listed(&key, &["*"])];
    let error = trust(&keys).check(&component, Some(&other)).unwrap_err();
    assert_eq!(error.reason(), "signature_other_world");
}

#[test]
fn a_key_signs_only_the_names_that_it_is_listed_for() {
    let Signed {
        component,
        key,
        file,
    } = signed("baseline");
    for names in [&[][..], &["acme-*"], &["base"], &["baseline-*"]] {
        let keys = [listed(&key, names)];
        let error = trust(&keys).check(&component, Some(&file)).unwrap_err();
        assert_eq!(error.reason(), "signature_name_not_allowed", "{names:?}");
    }
    assert!(TrustedKey::is_name_pattern("acme-*") && TrustedKey::is_name_pattern("*"));
    assert!(!TrustedKey::is_name_pattern("a*c") && !TrustedKey::is_name_pattern(""));
}

#[test]
fn a_signed_manifest_cannot_be_exchanged() {
    let Signed {
        component,
        key,
        file,
    } = signed("acme-graph");
    let manifest = serde_json::json!({"name": "acme-other", "version": "1.0.0", "wit": "1.0.0"});
    let other = SignatureFile::parse(&altered(&file, "manifest", manifest)).unwrap();
    let keys = [listed(&key, &["*"])];
    let error = trust(&keys).check(&component, Some(&other)).unwrap_err();
    assert_eq!(error.reason(), "signature_wrong_key");
    // What was found inside is compared with what was signed.
    let verdict = trust(&keys).check(&component, Some(&file)).unwrap();
    assert_eq!(verdict.check_manifest(Some(file.manifest())), Ok(()));
    let mut found = file.manifest().clone();
    found.version = "1.0.1".to_owned();
    for found in [Some(&found), None] {
        let error = verdict.check_manifest(found).unwrap_err();
        assert_eq!(error, SignatureError::OtherManifest);
    }
}

#[test]
fn a_truncated_or_malformed_file_is_refused() {
    let file = signed("acme-graph").file;
    let json = file.to_json();
    for end in 0..json.len() {
        let error = SignatureFile::parse(&json.as_bytes()[..end]).unwrap_err();
        assert_eq!(error.reason(), "signature_malformed", "{end}");
    }
    for (field, value) in [
        ("algorithm", "none".into()),
        ("algorithm", "rsa".into()),
        ("keyId", "0000000000000000".into()),
        ("publicKey", "AAAA".into()),
        // The neutral element: under it one signature fits many messages.
        (
            "publicKey",
            "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".into(),
        ),
        ("digest", "ab".into()),
        ("digest", "z".repeat(64).into()),
        ("signature", "AAAA".into()),
        ("signature", "not base64".into()),
        ("manifest", serde_json::json!({"name": "../a"})),
        ("extra", true.into()),
    ] {
        let error = SignatureFile::parse(&altered(&file, field, value)).unwrap_err();
        assert_eq!(error.reason(), "signature_malformed", "{field}");
    }
}

#[test]
fn an_endless_file_is_read_no_further_than_the_limit() {
    let read = read_component(std::io::repeat(0), 1_000).unwrap();
    assert_eq!(read, Err(SignatureError::TooLarge { limit: 1_000 }));
    let whole = read_component(std::io::repeat(7).take(1_000), 1_000).unwrap();
    assert_eq!(whole.unwrap().len(), 1_000);
    let file = SignatureFile::read(std::io::repeat(b' ')).unwrap();
    assert_eq!(file.unwrap_err().reason(), "signature_malformed");
}

#[test]
fn a_component_above_the_limit_is_refused_before_its_signature_is_looked_at() {
    let Signed {
        component, file, ..
    } = signed("acme-graph");
    let narrow = Trust {
        limit: component.len() - 1,
        ..trust(&[])
    };
    let error = narrow.check(&component, Some(&file)).unwrap_err();
    assert_eq!(error.reason(), "too_large");
}

#[test]
fn only_a_component_that_a_kernel_would_admit_is_signed() {
    let key = VendorKey::generate().unwrap();
    let nameless = SignatureFile::sign(&planning(NOTHING), &key, LIMIT).unwrap_err();
    assert_eq!(nameless.reason(), "manifest");
    let text = SignatureFile::sign(b"(component)", &key, LIMIT).unwrap_err();
    assert_eq!(text, LoadError::NotWebAssembly);
}

#[tokio::test]
async fn the_signature_is_asked_before_the_bytes_are_parsed() {
    let key = VendorKey::generate().unwrap();
    let keys = [listed(&key, &["*"])];
    let host = host();
    // No program: nothing may come as far as compiling.
    let compiler = Compiler::new("nowhere", [] as [&str; 0]);
    let load = async |bytes: &[u8], file: Option<&SignatureFile>| {
        let trust = trust(&keys);
        let loaded = host.load_signed(bytes, "x", file, &trust, &compiler);
        loaded.await.unwrap_err().reason()
    };
    // Bytes that would not survive parsing are told about the signature.
    assert_eq!(load(b"\0asm nonsense", None).await, "unsigned");
    let file = SignatureFile::sign(&named("a"), &key, LIMIT).unwrap();
    assert_eq!(
        load(b"nonsense", Some(&file)).await,
        "signature_other_bytes"
    );
    let read = planning(&format!("{READ} {NOTHING}"));
    assert_eq!(load(&read, Some(&file)).await, "signature_other_bytes");
    // With a signature that holds, it is the compiler's turn.
    assert_eq!(load(&named("a"), Some(&file)).await, "compiler");
}

#[test]
fn a_key_survives_its_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("vendor.key");
    let key = VendorKey::generate().unwrap();
    key.create_file(&path).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let again = VendorKey::read_file(&path).unwrap();
    assert_eq!(again.public(), key.public());
    // A key is never overwritten.
    assert!(VendorKey::generate().unwrap().create_file(&path).is_err());
    let public = key.public();
    for text in [public.to_string(), public.to_pem().unwrap()] {
        assert_eq!(text.parse::<PublicKey>().unwrap(), public, "{text}");
    }
    assert!("AAAA".parse::<PublicKey>().is_err());
    assert!(!format!("{key:?}").contains(&public.to_string()));
    assert!(
        VendorKey::from_pem("-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----")
            .is_err()
    );
}
