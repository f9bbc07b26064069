//! The SDK's sources, carried along so that a vendor's crate builds outside of this
//! repository: they are on no registry.

use std::path::Path;

use include_dir::{Dir, include_dir};
use toml::{Table, Value};

use crate::template::files;
use crate::{CONTRACT, Error};

static DRIVER: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../driver/src");
static RETRIEVAL: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../retrieval/src");
const WORKSPACE: &str = include_str!("../../../Cargo.toml");
const MANIFESTS: [(&str, &str); 2] = [
    ("driver", include_str!("../../driver/Cargo.toml")),
    ("retrieval", include_str!("../../retrieval/Cargo.toml")),
];

/// Writes the crates and the contract to `dir`, laid out as they are here.
pub(crate) fn copy(dir: &Path) -> Result<(), Error> {
    for ((name, manifest), sources) in MANIFESTS.into_iter().zip([&DRIVER, &RETRIEVAL]) {
        let folder = dir.join("sdk").join(name);
        let manifest = standalone(manifest, &parsed(WORKSPACE));
        crate::files::write(&folder.join("Cargo.toml"), manifest.as_bytes())?;
        for (path, text) in files(sources) {
            crate::files::write(&folder.join("src").join(path), text.as_bytes())?;
        }
    }
    crate::files::write(&dir.join("wit/driver.wit"), CONTRACT.as_bytes())
}

/// A crate's `Cargo.toml` without its workspace: what it inherits is written out, and what
/// only its own tests and lints need is left out.
fn standalone(manifest: &str, workspace: &Table) -> String {
    let mut manifest = parsed(manifest);
    let inherited = &workspace["workspace"];
    manifest.remove("lints");
    manifest.remove("dev-dependencies");
    for (table, from) in [("package", "package"), ("dependencies", "dependencies")] {
        let Some(Value::Table(entries)) = manifest.get_mut(table) else {
            continue;
        };
        for (name, value) in entries {
            if is_inherited(value) {
                *value = written_out(name, &inherited[from][name.as_str()]);
            }
        }
    }
    manifest.to_string()
}

fn is_inherited(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

/// Crates of this repository stand beside each other there too.
fn written_out(name: &str, inherited: &Value) -> Value {
    match (name.strip_prefix("halofy-"), inherited) {
        (Some(short), Value::Table(_)) => {
            let path = Value::String(format!("../{short}"));
            Value::Table([("path".to_owned(), path)].into_iter().collect())
        }
        _ => inherited.clone(),
    }
}

fn parsed(text: &str) -> Table {
    text.parse().expect("this repository's manifests are TOML")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_inherited_any_more_and_versions_are_kept() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        copy(dir.path()).expect("it is written");
        let workspace = parsed(WORKSPACE);
        for (name, _) in MANIFESTS {
            let path = dir.path().join("sdk").join(name).join("Cargo.toml");
            let text = std::fs::read_to_string(path).expect("it is there");
            assert!(!text.contains("workspace"), "{text}");
            let manifest = parsed(&text);
            let edition = &workspace["workspace"]["package"]["edition"];
            assert_eq!(&manifest["package"]["edition"], edition);
        }
        let driver = std::fs::read_to_string(dir.path().join("sdk/driver/Cargo.toml"));
        let driver = parsed(&driver.expect("it is there"));
        let path = driver["dependencies"]["halofy-retrieval"]["path"].as_str();
        assert_eq!(path, Some("../retrieval"));
        let pinned = &workspace["workspace"]["dependencies"]["wit-bindgen"];
        assert_eq!(&driver["dependencies"]["wit-bindgen"], pinned);
    }

    #[test]
    fn every_source_file_of_today_is_carried() {
        for (name, carried) in [("driver", &DRIVER), ("retrieval", &RETRIEVAL)] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("..")
                .join(name)
                .join("src");
            for entry in folder.read_dir().expect("the sources") {
                let file = entry.expect("an entry").file_name();
                assert!(
                    carried.get_entry(&file).is_some(),
                    "{file:?} is not carried"
                );
            }
        }
    }
}
