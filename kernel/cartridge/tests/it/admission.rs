//! What is refused before anything is compiled, and that each offence is named.

use halofy_cartridge::{Limits, LoadError, RETRIEVER, TYPES, VIEW};

use crate::guest::{Guest, NOTHING, VIEW_TYPE, planning, wat};
use crate::memory_view::{host, short};

fn load(bytes: &[u8]) -> Result<(), LoadError> {
    host().load(bytes, "probe").map(drop)
}

fn refused(component: &str) -> Vec<String> {
    match load(&wat(component)).unwrap_err() {
        LoadError::Refused { imports } => imports,
        other => panic!("{other}"),
    }
}

#[test]
fn a_component_that_fits_is_admitted() {
    load(&planning(NOTHING)).unwrap();
}

// C1
#[test]
fn every_foreign_import_is_named() {
    let component = r#"(component
        (import "wasi:cli/environment@0.2.0" (instance))
        (import "halofy:driver/scoped-view@0.2.0" (instance))
        (import "halofy:driver/scoped-view@1.0.1" (instance))
        (import "engine" (core module))
        (import "now" (func (result u64)))
        (import "t" (type (sub resource))))"#;
    assert_eq!(
        refused(component),
        [
            "wasi:cli/environment@0.2.0",
            "halofy:driver/scoped-view@0.2.0",
            "halofy:driver/scoped-view@1.0.1",
            "engine",
            "now",
            "t"
        ]
    );
}

// C1
#[test]
fn an_unknown_function_of_the_view_is_named() {
    let component = format!(
        r#"(component (import "{VIEW}" (instance {VIEW_TYPE}
            (export "peek" (func (result string)))
            (export "door" (type (sub resource))))))"#
    );
    assert_eq!(
        refused(&component),
        [
            format!("{VIEW}#peek: no such function"),
            format!("{VIEW}#door: a resource or interface type, not a function"),
        ]
    );
}

// C1
#[test]
fn a_wrong_signature_is_shown_beside_the_right_one() {
    let component = format!(
        r#"(component (import "{VIEW}" (instance
            (export "namespace" (func (result u64)))
            (export "embed" (func (param "text" string) (result (list f32)))))))"#
    );
    let found = refused(&component);
    assert_eq!(
        found[0],
        format!("{VIEW}#namespace: expected func()->string, found func()->u64")
    );
    assert!(
        found[1].ends_with("found func(text:string)->list<f32>"),
        "{}",
        found[1]
    );
}

#[test]
fn the_types_interface_carries_no_functions() {
    let component =
        format!(r#"(component (import "{TYPES}" (instance (export "now" (func (result u64))))))"#);
    assert_eq!(
        refused(&component),
        [format!("{TYPES}#now: no such function")]
    );
}

// C1
#[test]
fn the_view_is_an_interface() {
    let component = format!(r#"(component (import "{VIEW}" (component)))"#);
    assert_eq!(
        refused(&component),
        [format!("{VIEW}: a component, not an interface")]
    );
}

#[test]
fn a_type_that_grows_without_end_when_written_down_is_cut() {
    let mut fields = String::from("(type $t0 (tuple u8)) (export \"e0\" (type $e0 (eq $t0)))");
    for i in 0..40 {
        let next = i + 1;
        fields += &format!(
            r#"(type $t{next} (record (field "a" $e{i}) (field "b" $e{i})))
               (export "e{next}" (type $e{next} (eq $t{next})))"#
        );
    }
    let component = format!(
        r#"(component (import "{VIEW}" (instance {fields}
            (export "candidates" (func (param "limit" $e40))))))"#
    );
    match load(&wat(&component)).unwrap_err() {
        LoadError::Refused { imports } => assert!(imports[0].len() < 2_000),
        // The parser bounds the size of a type as well.
        LoadError::Malformed(_) => {}
        other => panic!("{other}"),
    }
}

#[test]
fn the_retriever_must_be_there_in_the_exact_version() {
    assert_eq!(
        load(&wat("(component)")).unwrap_err(),
        LoadError::NoRetriever
    );
    for found in ["halofy:driver/retriever@1.0.1", "halofy:driver/retriever"] {
        let guest = Guest {
            export: found,
            ..Guest::default()
        };
        let found = found.to_owned();
        assert_eq!(
            load(&guest.build()).unwrap_err(),
            LoadError::RetrieverVersion { found }
        );
    }
}

#[test]
fn a_retriever_with_another_shape_is_refused() {
    let component = format!(r#"(component (instance $i) (export "{RETRIEVER}" (instance $i)))"#);
    assert_eq!(
        load(&wat(&component)).unwrap_err(),
        LoadError::RetrieverShape {
            problems: vec!["capabilities: missing".into(), "plan: missing".into()]
        }
    );
}

#[test]
fn other_exports_are_tolerated() {
    let component = r#"(instance $extra) (export "vendor:extra/thing" (instance $extra))"#;
    let guest = Guest {
        component,
        ..Guest::default()
    };
    load(&guest.build()).unwrap();
}

#[test]
fn what_is_not_a_component_is_refused_with_its_own_reason() {
    assert_eq!(load(&wat("(module)")).unwrap_err(), LoadError::CoreModule);
    assert_eq!(load(b"(component)").unwrap_err(), LoadError::NotWebAssembly);
    assert_eq!(load(b"").unwrap_err(), LoadError::NotWebAssembly);
    let fitting = planning(NOTHING);
    for end in [8, 9, fitting.len() / 2, fitting.len() - 1] {
        let error = load(&fitting[..end]).unwrap_err();
        assert!(
            matches!(error, LoadError::Malformed(_) | LoadError::NoRetriever),
            "{end}: {error}"
        );
    }
}

// C14
#[test]
fn a_precompiled_artefact_is_refused() {
    let engine = wasmtime::Engine::default();
    let artefact = engine.precompile_component(&planning(NOTHING)).unwrap();
    assert_eq!(load(&artefact).unwrap_err(), LoadError::Precompiled);
}

#[test]
fn a_component_above_the_size_limit_is_refused_unread() {
    let limits = Limits {
        component: 100,
        ..short()
    };
    let host = halofy_cartridge::CartridgeHost::new(limits).unwrap();
    let size = 101;
    assert_eq!(
        host.load(&vec![0; size], "probe").unwrap_err(),
        LoadError::TooLarge { size, limit: 100 }
    );
}

#[test]
fn more_memories_or_tables_than_the_pool_holds_do_not_load() {
    let memories = "(memory 1) ".repeat(5);
    let component = format!("(core module $m {memories}) (core instance (instantiate $m))");
    let guest = Guest {
        component: &component,
        ..Guest::default()
    };
    assert_eq!(load(&guest.build()).unwrap_err().reason(), "compile");
    let guest = Guest {
        module: "(table 10000000 funcref)",
        ..Guest::default()
    };
    assert_eq!(load(&guest.build()).unwrap_err().reason(), "compile");
}
