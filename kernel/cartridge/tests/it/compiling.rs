//! C12: components that are built to keep a compiler busy are refused, by their
//! structure or by the limits of the compiler's own process, while calls go on. C14:
//! only that process's code is ever loaded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use halofy_cartridge::{Compiler, LoadError, inspect};

use crate::guest::{Guest, NOTHING, planning, returning};
use crate::memory_view::{MemoryView, host, query};

const LIMIT: usize = 16 << 20;

/// The program that compiles for these tests.
pub(crate) fn compiler() -> Compiler {
    Compiler::new(env!("CARGO_BIN_EXE_compile-cartridge"), [] as [&str; 0])
}

fn body(functions: &str) -> Vec<u8> {
    Guest {
        module: functions,
        ..Guest::default()
    }
    .build()
}

fn ifs(count: usize) -> Vec<u8> {
    let ifs = "(if (local.get 0) (then (local.set 0 (i32.const 1))))".repeat(count);
    body(&format!("(func (param i32) {ifs})"))
}

/// Within the bounds of structure, and slow all the same: values that live across
/// many branches.
fn slow(functions: usize) -> Vec<u8> {
    let steps: String = (0..15_000)
        .map(|i| {
            let (a, b) = (i * 7 % 60, i * 13 % 60);
            format!(
                "(if (local.get {a}) (then (local.set {b} (i32.add (local.get {b}) (local.get {a})))))"
            )
        })
        .collect();
    let locals = "i32 ".repeat(60);
    body(&format!("(func (param {locals}) {steps})").repeat(functions))
}

fn structure(bytes: &[u8]) -> &'static str {
    match inspect(bytes, LIMIT).unwrap_err() {
        LoadError::Structure { what, found, limit } => {
            assert!(found > limit);
            what
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_component_compiled_aside_runs_like_one_compiled_here() {
    let host = host();
    let bytes = returning(&[(1, "2"), (0, "1")]);
    let aside = host.load_untrusted(&bytes, "aside", &compiler()).await;
    let (aside, here) = (aside.unwrap(), host.load(&bytes, "here").unwrap());
    assert_eq!(aside.digest(), here.digest());
    for cartridge in [&aside, &here] {
        let view = MemoryView::of(&["one", "two"]);
        let plan = host.plan(cartridge, view, query(9, 99)).await.unwrap();
        assert_eq!(&*plan.hits[0].row.content, "two");
        assert_eq!(plan.hits.len(), 2);
    }
}

#[test]
fn twenty_thousand_ifs_in_one_function_are_refused_by_structure() {
    assert_eq!(structure(&ifs(20_000)), "blocks in one function");
}

#[test]
fn nesting_twenty_thousand_deep_is_refused_by_structure() {
    let (open, close) = ("block ".repeat(20_000), "end ".repeat(20_000));
    let deep = body(&format!("(func {open} {close})"));
    assert_eq!(structure(&deep), "levels of nested blocks");
}

#[test]
fn nine_hundred_thousand_functions_are_refused_by_structure() {
    // In a module of its own, whose names the format's parser need not sort out.
    let module = format!("(core module {})", "(func)".repeat(900_000));
    let guest = Guest {
        component: &module,
        ..Guest::default()
    };
    assert_eq!(structure(&guest.build()), "functions");
}

#[test]
fn types_nested_a_hundred_deep_are_refused() {
    let nested: String = (0..110)
        .map(|i| format!("(type $n{} (list $n{i}))", i + 1))
        .collect();
    let guest = Guest {
        component: &format!("(type $n0 (list u8)) {nested}"),
        ..Guest::default()
    };
    let error = inspect(&guest.build(), LIMIT).unwrap_err();
    assert_eq!(error.reason(), "malformed", "{error}");
}

#[test]
fn a_long_function_and_many_modules_are_refused_by_structure() {
    let long = "(local.set 0 (i32.const 1))".repeat(200_000);
    assert_eq!(
        structure(&body(&format!("(func (param i32) {long})"))),
        "bytes in one function"
    );
    let guest = Guest {
        component: &"(core module) (component)".repeat(110),
        ..Guest::default()
    };
    assert_eq!(structure(&guest.build()), "modules and components inside");
    let deep = format!("{}{}", "(component ".repeat(17), ")".repeat(17));
    let guest = Guest {
        component: &deep,
        ..Guest::default()
    };
    assert_eq!(structure(&guest.build()), "levels of nested components");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_passes_the_structure_is_stopped_by_time_while_calls_go_on() {
    let host = Arc::new(host());
    let good = host.load(&returning(&[(0, "1")]), "good").unwrap();
    let (over, bomb) = (Arc::new(AtomicBool::new(false)), slow(4));
    let bomb = tokio::spawn({
        let (host, over) = (Arc::clone(&host), Arc::clone(&over));
        async move {
            let compiler = compiler().with_time(Duration::from_secs(1));
            let began = Instant::now();
            let error = host
                .load_untrusted(&bomb, "bomb", &compiler)
                .await
                .unwrap_err();
            over.store(true, Ordering::Release);
            (error, began.elapsed())
        }
    });
    let mut calls = 0;
    while !over.load(Ordering::Acquire) {
        let view = MemoryView::of(&["one"]);
        let plan = host.plan(&good, view, query(1, 1)).await.unwrap();
        assert_eq!(plan.hits.len(), 1);
        calls += 1;
        tokio::task::yield_now().await;
    }
    let (error, took) = bomb.await.unwrap();
    assert_eq!(error.reason(), "compile_limit", "{error}");
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(calls > 100, "{calls} calls beside a compile bomb");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn just_within_the_structure_the_child_compiles_or_is_stopped_while_calls_go_on() {
    let nested = format!("(func {} {})", "block ".repeat(4_000), "end ".repeat(4_000));
    let types: String = (0..90)
        .map(|i| format!("(type $n{} (list $n{i}))", i + 1))
        .collect();
    let types = format!("(type $n0 (list u8)) {types}");
    let functions = format!("(core module {})", "(func)".repeat(90_000));
    let within = |component: &str| {
        let guest = Guest {
            component,
            ..Guest::default()
        };
        guest.build()
    };
    let bombs = [
        ifs(16_000),
        body(&nested),
        within(&types),
        within(&functions),
    ];
    let host = Arc::new(host());
    let good = host.load(&returning(&[(0, "1")]), "good").unwrap();
    for bomb in bombs {
        inspect(&bomb, LIMIT).unwrap();
        let loading = tokio::spawn({
            let host = Arc::clone(&host);
            async move {
                let compiler = compiler().with_time(Duration::from_secs(5));
                host.load_untrusted(&bomb, "bomb", &compiler).await
            }
        });
        let mut calls = 0;
        while !loading.is_finished() {
            let view = MemoryView::of(&["one"]);
            host.plan(&good, view, query(1, 1)).await.unwrap();
            calls += 1;
        }
        assert!(calls > 0);
        if let Err(error) = loading.await.unwrap() {
            assert_eq!(error.reason(), "compile_limit", "{error}");
        }
    }
}

#[tokio::test]
async fn what_takes_too_much_memory_is_refused_and_says_so() {
    let compiler = compiler().with_memory(24 << 20);
    let bomb = slow(2);
    let error = host().load_untrusted(&bomb, "bomb", &compiler).await;
    let error = error.unwrap_err();
    assert_eq!(error.reason(), "compile_limit", "{error}");
    assert!(error.to_string().contains("24 MiB"), "{error}");
}

#[tokio::test]
async fn a_refusal_of_the_compiler_reaches_the_vendor() {
    let host = host();
    let broken = body("(func (result i32) unreachable)");
    host.load_untrusted(&broken, "fine", &compiler())
        .await
        .unwrap();
    // Bodies are validated by the compiler alone.
    let error = host
        .load_untrusted(
            &body("(func (result i32) (i64.const 0))"),
            "broken",
            &compiler(),
        )
        .await
        .unwrap_err();
    match error {
        LoadError::Compile(why) => assert!(why.contains("type mismatch"), "{why}"),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_program_that_does_not_compile_is_not_the_components_fault() {
    let host = host();
    let bytes = planning(NOTHING);
    for program in ["nowhere", "/bin/false", "/bin/true"] {
        let compiler = Compiler::new(program, [] as [&str; 0]);
        let error = host
            .load_untrusted(&bytes, "a", &compiler)
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "compiler", "{program}: {error}");
    }
    // One that answers with something else than code.
    let echo = Compiler::new("/bin/echo", ["no code"]);
    let error = host.load_untrusted(&bytes, "a", &echo).await.unwrap_err();
    assert_eq!(error.reason(), "compiler", "{error}");
    // And with the right beginning, as nothing but our own child does.
    let script = r"printf 'halofy machine code 1\nno code'";
    let close = Compiler::new("/bin/sh", ["-c", script]);
    let error = host.load_untrusted(&bytes, "a", &close).await.unwrap_err();
    assert_eq!(error.reason(), "compile", "{error}");
}

#[tokio::test]
async fn dropping_the_load_kills_the_child() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let script = format!("sleep 1; touch {}", mark.display());
    let compiler = Compiler::new("/bin/sh", ["-c", &script]);
    let (host, bytes) = (host(), planning(NOTHING));
    let load = host.load_untrusted(&bytes, "a", &compiler);
    assert!(
        tokio::time::timeout(Duration::from_millis(200), load)
            .await
            .is_err()
    );
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert!(!mark.exists());
}

#[tokio::test]
async fn the_child_sees_nothing_of_the_kernels_environment() {
    // Set by cargo for every test, so it stands for a secret.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let compiler = Compiler::new("/bin/sh", ["-c", "env >&2; exit 65"]);
    let error = host()
        .load_untrusted(&planning(NOTHING), "a", &compiler)
        .await
        .unwrap_err();
    let LoadError::Compile(environment) = error else {
        panic!("{error}");
    };
    assert!(environment.contains("RAYON_NUM_THREADS"), "{environment}");
    assert!(!environment.contains("CARGO"), "{environment}");
}

#[tokio::test]
async fn machine_code_from_a_vendor_is_never_loaded() {
    let engine = wasmtime::Engine::default();
    let artefact = engine.precompile_component(&planning(NOTHING)).unwrap();
    let error = host().load_untrusted(&artefact, "a", &compiler()).await;
    assert_eq!(error.unwrap_err(), LoadError::Precompiled);
}
