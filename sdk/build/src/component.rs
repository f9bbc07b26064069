//! The contract, and from a core module to a component: what is stripped, how it is encoded,
//! and an early look at its imports and exports. Bytes in, bytes out.

use std::ops::Range;
use std::path::{Path, PathBuf};

use wasm_encoder::{ComponentSectionId, RawSection, Section as _};
use wasmparser::{Parser, Payload};
use wit_bindgen_core::wit_parser::{Resolve, WorldId};
use wit_component::ComponentEncoder;

use crate::Error;

/// The contract that every language is built against.
pub const CONTRACT: &str = include_str!("../../../wit/driver.wit");

/// The package whose interfaces are the whole world of a cartridge.
const PACKAGE: &str = "halofy:driver/";
/// The interface that a cartridge exports, up to its version.
const RETRIEVER: &str = "halofy:driver/retriever@";
/// wit-bindgen describes the world in sections whose names begin so.
const WORLD_SECTION: &str = "component-type";

/// Turns a core module, built with bindings of wit-bindgen, into a validated component. All custom
/// sections but the description of the world are dropped first: names and debug
/// information hold symbol hashes and paths of the machine that built them.
///
/// # Errors
/// [`Error::ForbiddenImports`] when the module imports anything outside `halofy:driver`,
/// [`Error::NoRetriever`], [`Error::Componentise`], [`Error::Malformed`].
pub fn componentise(module: &[u8]) -> Result<Vec<u8>, Error> {
    // The encoder would refuse a foreign import as well, but with the first one only,
    // and in words about interfaces that the author never wrote.
    refuse_foreign(imports(module)?)?;
    let stripped = strip(module)?;
    let component = ComponentEncoder::default()
        .validate(true)
        .module(&stripped)
        .and_then(|encoder| encoder.encode())
        .map_err(|cause| Error::Componentise {
            message: format!("{cause:#}"),
        })?;
    refuse_foreign(imports(&component)?)?;
    contract_version(&component)?;
    Ok(component)
}

/// Drops the custom sections of a component at every depth: names, debug information and
/// notes of the tools that made it, a third of it in some languages. Then checks it as
/// [`componentise`] does.
pub(crate) fn finish(component: &[u8]) -> Result<Vec<u8>, Error> {
    let finished = strip_component(component)?;
    refuse_foreign(imports(&finished)?)?;
    contract_version(&finished)?;
    Ok(finished)
}

/// The world of the contract, for generators of bindings.
pub(crate) fn driver_world() -> (Resolve, WorldId) {
    let mut resolve = Resolve::default();
    let package = resolve
        .push_str("driver.wit", CONTRACT)
        .expect("the contract is in this crate and parses");
    let world = resolve
        .select_world(&[package], Some("driver"))
        .expect("the contract has the world");
    (resolve, world)
}

/// Writes the contract to a folder of its own, for tools that read it from there.
pub(crate) fn write_contract(target_dir: &Path) -> Result<PathBuf, Error> {
    let folder = target_dir.join("wit");
    crate::files::write(&folder.join("driver.wit"), CONTRACT.as_bytes())?;
    Ok(folder)
}

/// The version under which a component exports its retriever, such as `1.0.0`.
pub(crate) fn contract_version(component: &[u8]) -> Result<String, Error> {
    let exports = exports(component)?;
    match exports.iter().find_map(|name| name.strip_prefix(RETRIEVER)) {
        Some(version) => Ok(version.to_owned()),
        None => Err(Error::NoRetriever { exports }),
    }
}

/// Copies a core module without its custom sections, the world's description excepted.
fn strip(module: &[u8]) -> Result<Vec<u8>, Error> {
    strip_module(module, |name| name.starts_with(WORLD_SECTION))
}

/// Copies a core module without its custom sections.
fn strip_all(module: &[u8]) -> Result<Vec<u8>, Error> {
    strip_module(module, |_| false)
}

fn strip_module(module: &[u8], keep: impl Fn(&str) -> bool) -> Result<Vec<u8>, Error> {
    let mut stripped = wasm_encoder::Module::HEADER.to_vec();
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload?;
        if let Payload::CustomSection(section) = &payload
            && !keep(section.name())
        {
            continue;
        }
        if let Some((id, range)) = payload.as_section() {
            let data = &module[bytes(&range)];
            RawSection { id, data }.append_to(&mut stripped);
        }
    }
    Ok(stripped)
}

/// Copies a component without any custom section, nor those of what is nested in it.
fn strip_component(component: &[u8]) -> Result<Vec<u8>, Error> {
    let mut stripped = wasm_encoder::Component::HEADER.to_vec();
    let mut section = |id, data: &[u8]| RawSection { id, data }.append_to(&mut stripped);
    each_top_level(component, |payload| {
        match &payload {
            Payload::CustomSection(_) => {}
            Payload::ModuleSection {
                unchecked_range: range,
                ..
            } => {
                let module = strip_all(&component[bytes(range)])?;
                section(ComponentSectionId::CoreModule.into(), &module);
            }
            Payload::ComponentSection {
                unchecked_range: range,
                ..
            } => {
                let nested = strip_component(&component[bytes(range)])?;
                section(ComponentSectionId::Component.into(), &nested);
            }
            _ => {
                if let Some((id, range)) = payload.as_section() {
                    section(id, &component[bytes(&range)]);
                }
            }
        }
        Ok(())
    })?;
    Ok(stripped)
}

/// The parser counts in u64, and goes no further than the slice.
fn bytes(range: &Range<u64>) -> Range<usize> {
    range.start as usize..range.end as usize
}

fn refuse_foreign(imports: Vec<String>) -> Result<(), Error> {
    let foreign: Vec<_> = imports
        .into_iter()
        .filter(|name| !is_of_contract(name))
        .collect();
    if foreign.is_empty() {
        Ok(())
    } else {
        Err(Error::ForbiddenImports { imports: foreign })
    }
}

/// In a core module an interface may be marked `[export]` for the resources it gives out.
fn is_of_contract(import: &str) -> bool {
    import
        .strip_prefix("[export]")
        .unwrap_or(import)
        .starts_with(PACKAGE)
}

/// The names of the imports at the top level: of a component, its own; of a module, the
/// interface and function, joined by `#`.
fn imports(binary: &[u8]) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    each_top_level(binary, |payload| {
        match payload {
            Payload::ImportSection(reader) => {
                for import in reader.into_imports() {
                    let import = import?;
                    names.push(format!("{}#{}", import.module, import.name));
                }
            }
            Payload::ComponentImportSection(reader) => {
                for import in reader {
                    names.push(import?.name.name.to_owned());
                }
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(names)
}

fn exports(component: &[u8]) -> Result<Vec<String>, Error> {
    let mut names = Vec::new();
    each_top_level(component, |payload| {
        if let Payload::ComponentExportSection(reader) = payload {
            for export in reader {
                names.push(export?.name.name.to_owned());
            }
        }
        Ok(())
    })?;
    Ok(names)
}

/// Visits the sections of a module or component, and not those nested within them.
pub(crate) fn each_top_level<'a>(
    binary: &'a [u8],
    mut visit: impl FnMut(Payload<'a>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(binary) {
        let payload = payload?;
        let opens = matches!(
            payload,
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. }
        );
        let closes = matches!(payload, Payload::End(_));
        if depth == 0 && !closes {
            visit(payload)?;
        }
        depth = depth.saturating_add_signed(isize::from(opens) - isize::from(closes));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wasm(text: &str) -> Vec<u8> {
        wat::parse_str(text).expect("valid text")
    }

    #[test]
    fn every_foreign_import_of_a_module_is_named() {
        let module = wasm(
            r#"(module
                (import "halofy:driver/scoped-view@1.0.0" "namespace" (func (param i32)))
                (import "wasi_snapshot_preview1" "clock_time_get" (func))
                (import "env" "getentropy" (func)))"#,
        );
        let error = componentise(&module).expect_err("it has two foreign imports");
        let Error::ForbiddenImports { imports } = &error else {
            panic!("{error}")
        };
        assert_eq!(
            imports,
            &["wasi_snapshot_preview1#clock_time_get", "env#getentropy"]
        );
        assert!(error.to_string().contains("no WASI"), "{error}");
    }

    #[test]
    fn a_package_that_only_begins_like_the_contract_is_foreign() {
        assert!(is_of_contract("halofy:driver/scoped-view@1.0.0"));
        assert!(!is_of_contract("halofy:driver-extras/view@1.0.0"));
        assert!(!is_of_contract("wasi:halofy:driver/clock"));
    }

    #[test]
    fn a_module_without_a_world_is_not_a_cartridge() {
        let error = componentise(&wasm("(module)")).expect_err("it exports nothing");
        assert!(
            matches!(
                error,
                Error::NoRetriever { .. } | Error::Componentise { .. }
            ),
            "{error}"
        );
    }

    #[test]
    fn a_component_without_a_retriever_is_told_what_it_exports() {
        let component = wasm(r#"(component (instance) (export "a:b/other@1.0.0" (instance 0)))"#);
        let error = contract_version(&component).expect_err("it has no retriever");
        assert!(
            error.to_string().contains("it exports a:b/other@1.0.0"),
            "{error}"
        );
    }

    #[test]
    fn the_version_of_the_contract_is_read_from_the_export() {
        let component =
            wasm(r#"(component (instance) (export "halofy:driver/retriever@1.4.2" (instance 0)))"#);
        assert_eq!(
            contract_version(&component).expect("it has a retriever"),
            "1.4.2"
        );
    }

    #[test]
    fn stripping_keeps_the_code_and_the_world_and_drops_the_rest() {
        let module = wasm(
            r#"(module
                (@custom "component-type:driver" "world")
                (@custom ".debug_str" "/somewhere/src/lib.rs")
                (func $named (export "f")))"#,
        );
        let stripped = strip(&module).expect("parses");
        let text = String::from_utf8_lossy(&stripped).into_owned();
        assert!(text.contains("component-type:driver"));
        assert!(!text.contains("/somewhere"));
        assert!(!text.contains("named"));
        wasmparser::validate(&stripped).expect("it is still a module");
    }
}
