//! The smallest component that fits the contract and fails: enough to see who is
//! served when a cartridge does not serve. Hostile ones are tested where they run,
//! in `kernel/cartridge`.

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
