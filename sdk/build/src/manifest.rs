//! The manifest that travels in a cartridge: how it is made from `Cargo.toml`, and how
//! it is put into the component. What must not live here: its judgement.

use std::path::Path;

use cargo_metadata::Package;
use serde::{Deserialize, Serialize};
use wasm_encoder::{ComponentSection as _, CustomSection};
use wasmparser::Payload;

use crate::Error;
use crate::component::each_top_level;

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
        })
    }

    /// Appends the manifest to a component, as its last section.
    pub fn embed(&self, component: &mut Vec<u8>) {
        let json = serde_json::to_vec(self).expect("five strings always serialise");
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
