//! The smallest component that fits the contract and fails: enough to see who is
//! served when a cartridge does not serve. Hostile ones are tested where they run,
//! in `kernel/cartridge`.

use halofy_build::{MANIFEST_SECTION, Manifest};

/// The baseline's own component under another name and version: a driver that ranks as
/// the baseline does.
pub fn ranking_cartridge(name: &str, version: &str) -> Vec<u8> {
    stated(halofy::boot::BASELINE, name, version)
}

/// Answers one ref that no view hands out.
///
/// # Panics
/// When the text below is no component.
pub fn forging_cartridge() -> Vec<u8> {
    let forges = r#"(i32.const 2048))
    (data (i32.const 2048) "\00\00\00\00\00\10\00\00\01\00\00\00")
    (data (i32.const 4096) "\4d\00\00\00\00\00\00\00\00\00\00\00\00\00\f0\3f"))"#;
    wat::parse_str(TRAPS.replace("unreachable))", forges)).expect("a component")
}

/// As [`trapping_cartridge`], with a manifest.
pub fn trapping_driver(name: &str, version: &str) -> Vec<u8> {
    stated(&trapping_cartridge(), name, version)
}

/// `component` with this manifest in place of the one that it has.
fn stated(component: &[u8], name: &str, version: &str) -> Vec<u8> {
    let manifest = Manifest {
        name: name.to_owned(),
        version: version.to_owned(),
        wit: "halofy:driver@1.0.0".to_owned(),
        vendor: "Acme Ranking".to_owned(),
        licence: "Apache-2.0".to_owned(),
        capabilities: None,
        limits: Default::default(),
    };
    let mut stated = without_manifest(component);
    manifest.embed(&mut stated);
    stated
}

/// Leaves out the outermost custom section that holds the manifest.
fn without_manifest(component: &[u8]) -> Vec<u8> {
    let (head, mut rest) = component.split_at(8);
    let mut kept = head.to_vec();
    while let [id, body @ ..] = rest {
        let (size, prefix) = leb(body);
        let (section, after) = rest.split_at(1 + prefix + size);
        let names = &section[1 + prefix..];
        let is_manifest = *id == 0 && names[1..].starts_with(MANIFEST_SECTION.as_bytes());
        if !is_manifest {
            kept.extend(section);
        }
        rest = after;
    }
    kept
}

fn leb(bytes: &[u8]) -> (usize, usize) {
    let end = bytes
        .iter()
        .position(|byte| byte & 0x80 == 0)
        .expect("an end");
    let digits = bytes[..=end].iter().rev();
    let value = digits.fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f));
    (value, end + 1)
}

/// A cartridge that traps in `plan`.
///
/// # Panics
/// Never: the text below is a component.
pub fn trapping_cartridge() -> Vec<u8> {
    wat::parse_str(TRAPS).expect("a component")
}

/// Imports nothing: a cartridge may use less of the view than there is.
const TRAPS: &str = r#"
(component
  (core module $main
    (memory (export "memory") 1)
    (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
    (func (export "capabilities") (result i32) (i32.const 16))
    (func (export "plan") (param i32 i32 i32 i32) (result i32) unreachable))
  (core instance $main (instantiate $main))
  (type $capabilities' (record (field "graph" bool) (field "streaming" bool)))
  (type $query' (record (field "text" string) (field "token-budget" u32) (field "k" u32)))
  (type $ref' (record (field "ref" u32) (field "score" f64)))
  (type $error' (variant (case "unavailable" string) (case "other" string)))
  (type $planned' (result (list $ref') (error $error')))
  (func $capabilities (result $capabilities')
    (canon lift (core func $main "capabilities") (memory (core memory $main "memory"))))
  (func $plan (param "query" $query') (result $planned')
    (canon lift (core func $main "plan") (memory (core memory $main "memory"))
      (realloc (core func $main "realloc"))))
  (component $shim
    (type $c (record (field "graph" bool) (field "streaming" bool)))
    (type $q (record (field "text" string) (field "token-budget" u32) (field "k" u32)))
    (type $r (record (field "ref" u32) (field "score" f64)))
    (type $e (variant (case "unavailable" string) (case "other" string)))
    (import "t-capabilities" (type $capabilities (eq $c)))
    (import "t-query" (type $query (eq $q)))
    (import "t-ref" (type $ref (eq $r)))
    (import "t-error" (type $error (eq $e)))
    (type $planned (result (list $ref) (error $error)))
    (import "capabilities" (func $capabilities (result $capabilities)))
    (import "plan" (func $plan (param "query" $query) (result $planned)))
    (export $x-capabilities "capabilities-type" (type $capabilities))
    (export $x-query "query" (type $query))
    (export $x-ref "scored-ref" (type $ref))
    (export $x-error "plan-error" (type $error))
    (type $x-planned (result (list $x-ref) (error $x-error)))
    (export "capabilities" (func $capabilities) (func (result $x-capabilities)))
    (export "plan" (func $plan) (func (param "query" $x-query) (result $x-planned))))
  (instance $retriever (instantiate $shim
    (with "t-capabilities" (type $capabilities')) (with "t-query" (type $query'))
    (with "t-ref" (type $ref')) (with "t-error" (type $error'))
    (with "capabilities" (func $capabilities)) (with "plan" (func $plan))))
  (export "halofy:driver/retriever@1.0.0" (instance $retriever)))
"#;
