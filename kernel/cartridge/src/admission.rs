//! Reads a component's outside before anything is compiled: what it imports, what
//! it exports, what it says about itself. Pure functions over bytes.

use serde::Serialize;
use wasmparser::component_types::ComponentEntityType;
use wasmparser::types::{Types, TypesRef};
use wasmparser::{Encoding, Parser, Payload, ValidPayload, Validator};

use crate::cartridge::Digest;
use crate::contract::{Item, RETRIEVER_FUNCTIONS, VIEW_FUNCTIONS, items, kind};
use crate::error::LoadError;
use crate::manifest::{MANIFEST_SECTION, Manifest};
use crate::structure::Structure;

/// The interface of types: carries no functions.
pub const TYPES: &str = "halofy:driver/types@1.0.0";
/// The only interface with functions that a cartridge may import.
pub const VIEW: &str = "halofy:driver/scoped-view@1.0.0";
/// The interface that a cartridge exports.
pub const RETRIEVER: &str = "halofy:driver/retriever@1.0.0";

const WASM_MAGIC: &[u8] = b"\0asm";
const ELF_MAGIC: &[u8] = b"\x7fELF";

/// What can be told of a component that fits the contract without compiling it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspection {
    /// In bytes.
    pub size: usize,
    /// The SHA-256 of the bytes.
    pub digest: Digest,
    /// The interfaces that it imports, with the functions of each, in its order.
    pub imports: Vec<Interface>,
    /// What it exports, in its order. Only the retriever is ever called.
    pub exports: Vec<String>,
    /// What it says about itself.
    pub manifest: Option<Manifest>,
    /// Core functions with a body, all modules together.
    pub functions: u64,
    /// Core modules and components inside.
    pub nested: u64,
}

/// An imported interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// With package and version.
    pub name: String,
    /// The functions that the component has a use for.
    pub functions: Vec<String>,
}

/// Reads a component's outside and checks it against the contract, as
/// [`CartridgeHost::load`](crate::CartridgeHost::load) does before it compiles. No
/// engine is needed. `limit` is in bytes.
///
/// # Errors
/// [`LoadError`], never [`LoadError::Compile`].
pub fn inspect(bytes: &[u8], limit: usize) -> Result<Inspection, LoadError> {
    admit(bytes, limit)
}

/// Checks `bytes` against the contract.
pub(crate) fn admit(bytes: &[u8], limit: usize) -> Result<Inspection, LoadError> {
    check_size(bytes, limit)?;
    check_magic(bytes)?;
    let outside = Outside::read(bytes)?;
    let types = outside.types.as_ref();
    check_imports(types, &outside.imports)?;
    check_retriever(types, &outside.exports)?;
    let manifest = match outside.manifests.as_slice() {
        [] => None,
        [section] => Some(Manifest::parse(section)?),
        _ => return Err(LoadError::Manifest("there is more than one".to_owned())),
    };
    Ok(Inspection {
        size: bytes.len(),
        digest: Digest::of(bytes),
        imports: interfaces(types, &outside.imports),
        exports: outside.exports.iter().map(ToString::to_string).collect(),
        manifest,
        functions: outside.structure.functions,
        nested: outside.structure.nested,
    })
}

/// The imports, which are all interfaces, with their functions.
fn interfaces(types: TypesRef<'_>, imports: &[&str]) -> Vec<Interface> {
    let functions = |name: &str| match types.component_item_for_import(name).map(|item| item.ty) {
        Some(ComponentEntityType::Instance(id)) => items(types, id),
        _ => vec![],
    };
    let interface = |name: &&str| Interface {
        name: (*name).to_owned(),
        functions: functions(name).into_iter().map(|(name, _)| name).collect(),
    };
    imports.iter().map(interface).collect()
}

pub(crate) fn check_size(bytes: &[u8], limit: usize) -> Result<(), LoadError> {
    let size = bytes.len();
    if size > limit {
        return Err(LoadError::TooLarge { size, limit });
    }
    Ok(())
}

fn check_magic(bytes: &[u8]) -> Result<(), LoadError> {
    if bytes.starts_with(ELF_MAGIC) {
        return Err(LoadError::Precompiled);
    }
    if !bytes.starts_with(WASM_MAGIC) {
        return Err(LoadError::NotWebAssembly);
    }
    if Parser::is_core_wasm(bytes) {
        return Err(LoadError::CoreModule);
    }
    if !Parser::is_component(bytes) {
        return Err(LoadError::NotWebAssembly);
    }
    Ok(())
}

fn malformed(error: wasmparser::Error) -> LoadError {
    LoadError::Malformed(error.to_string())
}

/// The outermost level of a component.
struct Outside<'a> {
    imports: Vec<&'a str>,
    exports: Vec<&'a str>,
    manifests: Vec<&'a [u8]>,
    structure: Structure,
    types: Types,
}

impl<'a> Outside<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, LoadError> {
        let (mut imports, mut exports, mut manifests) = (vec![], vec![], vec![]);
        let mut validator = Validator::new();
        let (mut depth, mut structure) = (0_usize, Structure::default());
        for payload in Parser::new(0).parse_all(bytes) {
            let payload = payload.map_err(malformed)?;
            structure.count(&payload)?;
            match &payload {
                Payload::Version { encoding, .. } => {
                    depth += 1;
                    if depth == 1 && *encoding != Encoding::Component {
                        return Err(LoadError::CoreModule);
                    }
                }
                Payload::ComponentImportSection(section) if depth == 1 => {
                    for import in section.clone() {
                        imports.push(import.map_err(malformed)?.name.name);
                    }
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    for export in section.clone() {
                        exports.push(export.map_err(malformed)?.name.name);
                    }
                }
                Payload::CustomSection(section)
                    if depth == 1 && section.name() == MANIFEST_SECTION =>
                {
                    manifests.push(section.data());
                }
                _ => {}
            }
            // Function bodies are left to the compiler, which validates them too.
            if let ValidPayload::End(types) = validator.payload(&payload).map_err(malformed)? {
                depth -= 1;
                if depth == 0 {
                    return Ok(Self {
                        imports,
                        exports,
                        manifests,
                        structure,
                        types,
                    });
                }
            }
        }
        Err(LoadError::Malformed("it has no end".to_owned()))
    }
}

fn check_imports(types: TypesRef<'_>, imports: &[&str]) -> Result<(), LoadError> {
    let offenders: Vec<String> = imports
        .iter()
        .flat_map(|name| import_offences(types, name))
        .collect();
    if offenders.is_empty() {
        return Ok(());
    }
    Err(LoadError::Refused { imports: offenders })
}

/// What is wrong with one import. The linker would take any version of the same
/// semver line; the contract is one exact version.
fn import_offences(types: TypesRef<'_>, name: &str) -> Vec<String> {
    let known: &[(&str, &str)] = match name {
        VIEW => VIEW_FUNCTIONS,
        TYPES => &[],
        _ => return vec![name.to_owned()],
    };
    match types.component_item_for_import(name).map(|item| item.ty) {
        Some(ComponentEntityType::Instance(id)) => items(types, id)
            .iter()
            .filter_map(|(function, item)| {
                Some(format!(
                    "{name}#{function}: {}",
                    mismatch(known, function, item)?
                ))
            })
            .collect(),
        Some(other) => vec![format!("{name}: {}, not an interface", kind(&other))],
        None => vec![format!("{name}: of no known type")],
    }
}

/// Why `item` is not the function of this name that the contract knows.
fn mismatch(known: &[(&str, &str)], name: &str, item: &Item) -> Option<String> {
    let expected = known.iter().find(|(known, _)| *known == name);
    match (item, expected) {
        (Item::Func(found), Some((_, expected))) if found == expected => None,
        (Item::Func(found), Some((_, expected))) => {
            Some(format!("expected {expected}, found {found}"))
        }
        (Item::Func(_), None) => Some("no such function".to_owned()),
        (Item::Foreign(what), _) => Some(format!("{what}, not a function")),
    }
}

fn check_retriever(types: TypesRef<'_>, exports: &[&str]) -> Result<(), LoadError> {
    if !exports.contains(&RETRIEVER) {
        let another = exports
            .iter()
            .find(|name| name.starts_with("halofy:driver/retriever"));
        return Err(another.map_or(LoadError::NoRetriever, |found| {
            let found = (*found).to_owned();
            LoadError::RetrieverVersion { found }
        }));
    }
    let problems = match types
        .component_item_for_export(RETRIEVER)
        .map(|item| item.ty)
    {
        Some(ComponentEntityType::Instance(id)) => retriever_problems(&items(types, id)),
        _ => vec!["it is not an interface".to_owned()],
    };
    if problems.is_empty() {
        return Ok(());
    }
    Err(LoadError::RetrieverShape { problems })
}

/// Functions beyond the contract are never called and do not matter.
fn retriever_problems(found: &[(String, Item)]) -> Vec<String> {
    let problem = |(name, _): &(&str, &str)| {
        let why = match found.iter().find(|(found, _)| found == name) {
            Some((_, item)) => mismatch(RETRIEVER_FUNCTIONS, name, item)?,
            None => "missing".to_owned(),
        };
        Some(format!("{name}: {why}"))
    };
    RETRIEVER_FUNCTIONS.iter().filter_map(problem).collect()
}
