//! Writes components as WebAssembly text around a core `plan` body.
//!
//! The body finds `$query_ptr $query_len $budget $k` as parameters and `$i $j` as
//! locals, and leaves the address of a result. `$put` writes the i-th scored ref
//! at 65536 (at most 4,096 of them), `$ok` makes a result of the first n. Every
//! import `f` can be called as `$f`, with its answer written at the address that
//! is its last argument.

/// Parts of a component that a test may replace.
pub(crate) struct Guest<'a> {
    /// The body of `plan`.
    pub(crate) plan: &'a str,
    /// Runs while the component is instantiated.
    pub(crate) start: &'a str,
    /// Runs at the top of every allocation.
    pub(crate) realloc: &'a str,
    /// The body of `capabilities`: an address of two booleans.
    pub(crate) capabilities: &'a str,
    /// Runs after the host has read the plan.
    pub(crate) post_return: &'a str,
    /// More definitions of the main module.
    pub(crate) module: &'a str,
    /// More definitions of the component, before its exports.
    pub(crate) component: &'a str,
    /// What the retriever is exported as.
    pub(crate) export: &'a str,
    /// What the view is imported as.
    pub(crate) import: &'a str,
}

impl Default for Guest<'_> {
    fn default() -> Self {
        Self {
            plan: NOTHING,
            start: "",
            realloc: "",
            capabilities: "(i32.const 16)",
            post_return: "",
            module: "",
            component: "",
            export: halofy_cartridge::RETRIEVER,
            import: halofy_cartridge::VIEW,
        }
    }
}

/// A plan without hits.
pub(crate) const NOTHING: &str = "(call $ok (i32.const 0))";
/// Reads the window, so that its rows are admitted.
pub(crate) const READ: &str = "(call $candidates (i32.const 500) (i32.const 512))";
/// Never ends.
pub(crate) const SPIN: &str = "(loop $forever (br $forever))";

/// A component whose `plan` has this body.
pub(crate) fn planning(plan: &str) -> Vec<u8> {
    Guest {
        plan,
        ..Guest::default()
    }
    .build()
}

/// A component that reads the window and returns these refs and scores.
pub(crate) fn returning(results: &[(u32, &str)]) -> Vec<u8> {
    let put = results.iter().enumerate().map(|(i, (handle, score))| {
        format!("(call $put (i32.const {i}) (i32.const {handle}) (f64.const {score}))")
    });
    let put: String = put.collect();
    planning(&format!(
        "{READ} {put} (call $ok (i32.const {}))",
        results.len()
    ))
}

/// WebAssembly text as bytes.
pub(crate) fn wat(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

/// The types and functions of the view, as an instance type's body.
pub(crate) const VIEW_TYPE: &str = r#"
  (type $handle' u32) (export "handle" (type $handle (eq $handle')))
  (type $candidate' (record (field "ref" $handle) (field "content" string)))
  (export "candidate" (type $candidate (eq $candidate')))
  (type $scored' (record (field "ref" $handle) (field "content" string) (field "score" f64)))
  (export "scored-candidate" (type $scored (eq $scored')))
  (type $fact' (record (field "ref" $handle) (field "content" string) (field "entity" string)))
  (export "entity-fact" (type $fact (eq $fact')))
  (type $error' (variant (case "unavailable" string) (case "invalid-argument" string)
    (case "limit-exceeded" string)))
  (export "view-error" (type $error (eq $error')))
  (type $candidates (result (list $candidate) (error $error)))
  (type $scoreds (result (list $scored) (error $error)))
  (type $facts (result (list $fact) (error $error)))
  (type $vectors (result (list (list f32)) (error $error)))
  (export "namespace" (func (result string)))
  (export "candidates" (func (param "limit" u32) (result $candidates)))
  (export "lexical-candidates" (func (param "query" string) (param "limit" u32) (result $candidates)))
  (export "vector-search" (func (param "embedding" (list f32)) (param "k" u32) (result $scoreds)))
  (export "embed" (func (param "texts" (list string)) (result $vectors)))
  (export "concepts" (func (param "query" string) (param "k" u32) (result $scoreds)))
  (export "entity-facts" (func (param "mention" string) (param "hops" u8) (result $facts)))
"#;

const IMPORTS: &[(&str, usize)] = &[
    ("namespace", 1),
    ("candidates", 2),
    ("lexical-candidates", 4),
    ("vector-search", 4),
    ("embed", 3),
    ("concepts", 4),
    ("entity-facts", 4),
];

impl Guest<'_> {
    pub(crate) fn build(&self) -> Vec<u8> {
        wat(&self.text())
    }

    fn text(&self) -> String {
        let import = self.import;
        format!(
            "(component (import {import:?} (instance $view {VIEW_TYPE}))\n{}\n{}\n{}\n{}\n{})",
            self.libc(),
            lowered(),
            self.main(),
            self.component,
            self.retriever(),
        )
    }

    /// Memory and allocator, apart from the rest because the imports need them.
    fn libc(&self) -> String {
        let realloc = self.realloc;
        format!(
            r#"(core module $libc
              (memory (export "memory") 2)
              (global $heap (mut i32) (i32.const 131072))
              (func (export "realloc") (param i32 i32 i32 i32) (result i32) (local $at i32)
                {realloc}
                (local.set $at (i32.and (i32.add (global.get $heap) (i32.const 7)) (i32.const -8)))
                (global.set $heap (i32.add (local.get $at) (local.get 3)))
                (block $fits
                  (br_if $fits (i32.le_u (global.get $heap)
                    (i32.mul (memory.size) (i32.const 65536))))
                  (br_if $fits (i32.ne (i32.const -1) (memory.grow (i32.add (i32.const 1)
                    (i32.div_u (local.get 3) (i32.const 65536))))))
                  unreachable)
                (local.get $at)))
            (core instance $libc (instantiate $libc))"#
        )
    }

    fn main(&self) -> String {
        let imports: String = IMPORTS.iter().map(core_import).collect();
        let Self {
            plan,
            start,
            capabilities,
            post_return,
            module,
            ..
        } = self;
        format!(
            r#"(core module $main
              (import "libc" "memory" (memory 2))
              {imports}
              {module}
              (func $put (param $n i32) (param $ref i32) (param $score f64)
                (i32.store (i32.add (i32.const 65536) (i32.mul (local.get $n) (i32.const 16)))
                  (local.get $ref))
                (f64.store (i32.add (i32.const 65544) (i32.mul (local.get $n) (i32.const 16)))
                  (local.get $score)))
              (func $ok (param $n i32) (result i32)
                (i32.store (i32.const 64) (i32.const 0))
                (i32.store (i32.const 68) (i32.const 65536))
                (i32.store (i32.const 72) (local.get $n))
                (i32.const 64))
              (func $start {start})
              (start $start)
              (func (export "capabilities") (result i32) {capabilities})
              (func (export "post-return") (param i32) {post_return})
              (func (export "plan")
                (param $query_ptr i32) (param $query_len i32) (param $budget i32) (param $k i32)
                (result i32) (local $i i32) (local $j i32)
                {plan}))
            (core instance $main (instantiate $main (with "libc" (instance $libc))
              (with "view" (instance $lowered))))"#
        )
    }

    fn retriever(&self) -> String {
        let export = self.export;
        format!(
            r#"{RETRIEVER_TYPES}
            (func $capabilities (result $capabilities') (canon lift (core func $main "capabilities")
              (memory (core memory $libc "memory"))))
            (func $plan (param "query" $query') (result $planned') (canon lift
              (core func $main "plan") (memory (core memory $libc "memory")) (realloc (core func $libc "realloc"))
              (post-return (core func $main "post-return"))))
            (component $shim
              {IMPORTED_TYPES}
              (import "capabilities" (func $capabilities (result $capabilities)))
              (import "plan" (func $plan (param "query" $query) (result $planned)))
              {EXPORTED_TYPES}
              (export "capabilities" (func $capabilities) (func (result $x-capabilities)))
              (export "plan" (func $plan) (func (param "query" $x-query) (result $x-planned))))
            (instance $retriever (instantiate $shim
              (with "t-capabilities" (type $capabilities')) (with "t-query" (type $query'))
              (with "t-ref" (type $ref')) (with "t-error" (type $error'))
              (with "capabilities" (func $capabilities)) (with "plan" (func $plan))))
            (export {export:?} (instance $retriever))"#
        )
    }
}

const RETRIEVER_TYPES: &str = r#"
  (type $capabilities' (record (field "graph" bool) (field "streaming" bool)))
  (type $query' (record (field "text" string) (field "token-budget" u32) (field "k" u32)))
  (type $ref' (record (field "ref" u32) (field "score" f64)))
  (type $error' (variant (case "unavailable" string) (case "other" string)))
  (type $planned' (result (list $ref') (error $error')))
"#;
const IMPORTED_TYPES: &str = r#"
  (type $c (record (field "graph" bool) (field "streaming" bool)))
  (type $q (record (field "text" string) (field "token-budget" u32) (field "k" u32)))
  (type $r (record (field "ref" u32) (field "score" f64)))
  (type $e (variant (case "unavailable" string) (case "other" string)))
  (import "t-capabilities" (type $capabilities (eq $c)))
  (import "t-query" (type $query (eq $q)))
  (import "t-ref" (type $ref (eq $r)))
  (import "t-error" (type $error (eq $e)))
  (type $planned (result (list $ref) (error $error)))
"#;
const EXPORTED_TYPES: &str = r#"
  (export $x-capabilities "capabilities-type" (type $capabilities))
  (export $x-query "query" (type $query))
  (export $x-ref "scored-ref" (type $ref))
  (export $x-error "plan-error" (type $error))
  (type $x-planned (result (list $x-ref) (error $x-error)))
"#;

fn core_import((name, params): &(&str, usize)) -> String {
    let params = "i32 ".repeat(*params);
    format!("(import \"view\" {name:?} (func ${name} (param {params})))\n")
}

fn lowered() -> String {
    let lower = IMPORTS.iter().map(|(name, _)| {
        format!(
            "(core func ${name} (canon lower (func $view {name:?})
               (memory (core memory $libc \"memory\")) (realloc (core func $libc \"realloc\"))))\n"
        )
    });
    let exports = IMPORTS
        .iter()
        .map(|(name, _)| format!("(export {name:?} (func ${name}))"));
    let (lower, exports): (String, String) = (lower.collect(), exports.collect());
    format!("{lower} (core instance $lowered {exports})")
}
