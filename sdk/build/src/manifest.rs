//! The manifest that travels in a cartridge: how it is made from `Cargo.toml` or
//! `halofy.toml`, and how it is put into the component. What must not live here: its judgement.

use std::collections::BTreeMap;
use std::path::Path;

use cargo_metadata::Package;
use serde::{Deserialize, Serialize};
use wasm_encoder::{ComponentSection as _, CustomSection};
use wasmparser::Payload;

use crate::Error;
use crate::component::each_top_level;
use crate::descriptor::Descriptor;

/// The name of the component's custom section that holds the manifest as JSON.
pub const MANIFEST_SECTION: &str = "halofy:manifest";

/// What a cartridge says about itself. Its JSON keys are the field names, in this order,
/// without white space, so that the same manifest is always the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The name by which policies mount it: `package.metadata.halofy.name`.
    pub name: String,
    /// The version of the crate: `package.version`, semver.
    pub version: String,
    /// The version of `halofy:driver` that the component exports its retriever under.
    pub wit: String,
    /// Who answers for it: `package.metadata.halofy.vendor`.
    pub vendor: String,
    /// The SPDX expression: `package.license`.
    pub licence: String,
    /// What it declares to make use of, as `capabilities()` will answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<DeclaredCapabilities>,
    /// Limits that it asks to be held to, below the kernel's own, by the kernel's names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, u64>,
}

/// What a cartridge declares to make use of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeclaredCapabilities {
    /// It calls `entity-facts`.
    #[serde(default)]
    pub graph: bool,
    /// Reserved: no contract streams yet.
    #[serde(default)]
    pub streaming: bool,
}

impl Manifest {
    /// Takes the manifest from a package's metadata; `wit` is the version of the contract
    /// that the built component was found to implement.
    pub(crate) fn of(package: &Package, wit: String) -> Result<Self, Error> {
        let cargo_toml = package.manifest_path.as_std_path();
        let text = |key: &str| package.metadata["halofy"][key].as_str();
        Ok(Self {
            name: required(
                text("name"),
                cargo_toml,
                "package.metadata.halofy.name",
                "Add to it: [package.metadata.halofy] name = \"my-engine\"",
            )?,
            version: package.version.to_string(),
            wit,
            vendor: required(
                text("vendor"),
                cargo_toml,
                "package.metadata.halofy.vendor",
                "Add to it: [package.metadata.halofy] vendor = \"My Company\"",
            )?,
            licence: required(
                package.license.as_deref(),
                cargo_toml,
                "package.license",
                "Add to it an SPDX expression: [package] license = \"Apache-2.0\"",
            )?,
            capabilities: table(package, "capabilities")?,
            limits: table(package, "limits")?.unwrap_or_default(),
        })
    }

    /// Takes the manifest from a `halofy.toml`; the version of the contract is not known yet.
    pub(crate) fn described(descriptor: Descriptor) -> Self {
        Self {
            name: descriptor.name,
            version: descriptor.version,
            wit: String::new(),
            vendor: descriptor.vendor,
            licence: descriptor.licence,
            capabilities: descriptor.capabilities,
            limits: descriptor.limits,
        }
    }

    /// Appends the manifest to a component, as its last section.
    pub fn embed(&self, component: &mut Vec<u8>) {
        let json = serde_json::to_vec(self).expect("strings and numbers always serialise");
        let section = CustomSection {
            name: MANIFEST_SECTION.into(),
            data: json.into(),
        };
        section.append_to_component(component);
    }

    /// Reads the manifest back from a component's own sections, not from those of the
    /// modules within it. `None` when there is none, or when it is not this JSON.
    ///
    /// # Errors
    /// [`Error::Malformed`] when the bytes are not WebAssembly.
    pub fn read(component: &[u8]) -> Result<Option<Self>, Error> {
        let mut found = None;
        each_top_level(component, |payload| {
            if let Payload::CustomSection(section) = payload
                && section.name() == MANIFEST_SECTION
            {
                found = serde_json::from_slice(section.data()).ok();
            }
            Ok(())
        })?;
        Ok(found)
    }
}

/// A table of `package.metadata.halofy`, if there is one of that name.
fn table<T: serde::de::DeserializeOwned>(package: &Package, key: &str) -> Result<Option<T>, Error> {
    match &package.metadata["halofy"][key] {
        serde_json::Value::Null => Ok(None),
        value => serde_json::from_value(value.clone()).map_err(|why| Error::Descriptor {
            path: package.manifest_path.clone().into(),
            message: format!("package.metadata.halofy.{key}: {why}"),
        }),
    }
}

fn required(
    value: Option<&str>,
    cargo_toml: &Path,
    key: &'static str,
    hint: &'static str,
) -> Result<String, Error> {
    match value.map(str::trim) {
        Some(value) if !value.is_empty() => Ok(value.to_owned()),
        _ => Err(Error::MissingKey {
            cargo_toml: cargo_toml.to_owned(),
            key,
            hint,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_back_as_it_was_embedded() {
        let manifest = Manifest {
            name: "tiny".into(),
            version: "1.2.3".into(),
            wit: "1.0.0".into(),
            vendor: "Ex\"ample".into(),
            licence: "MIT".into(),
            capabilities: Some(DeclaredCapabilities::default()),
            limits: [("memory".to_owned(), 1 << 20)].into(),
        };
        let mut component = wat::parse_str("(component (core module))").expect("valid text");
        assert_eq!(Manifest::read(&component).expect("parses"), None);
        manifest.embed(&mut component);
        assert_eq!(Manifest::read(&component).expect("parses"), Some(manifest));
        wasmparser::validate(&component).expect("a custom section keeps a component valid");
    }

    #[test]
    fn a_manifest_inside_a_nested_module_does_not_speak_for_the_component() {
        let component = wat::parse_str(
            r#"(component (core module (@custom "halofy:manifest"
                "{\"name\":\"liar\",\"version\":\"1.0.0\",\"wit\":\"1.0.0\",\"vendor\":\"v\",\"licence\":\"l\"}")))"#,
        )
        .expect("valid text");
        assert_eq!(Manifest::read(&component).expect("parses"), None);
    }
}
