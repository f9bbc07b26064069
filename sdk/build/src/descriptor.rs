//! `halofy.toml`: what a cartridge that is no crate says about itself. What must not live
//! here: the manifest that is made of it, and how its language is built.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::{DeclaredCapabilities, Error, Language};

/// The name of the file.
pub const DESCRIPTOR: &str = "halofy.toml";

/// The content of the file. A key that is not known is an error: it would be a typing
/// mistake that silently has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Descriptor {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) vendor: String,
    pub(crate) licence: String,
    pub(crate) language: Language,
    /// The file to build, from the folder of `halofy.toml`.
    pub(crate) entry: PathBuf,
    /// Further files to compile, for languages that do not find them by themselves.
    #[serde(default)]
    pub(crate) sources: Vec<PathBuf>,
    #[serde(default)]
    pub(crate) capabilities: Option<DeclaredCapabilities>,
    #[serde(default)]
    pub(crate) limits: BTreeMap<String, u64>,
}

impl Descriptor {
    /// Reads the file in `dir`.
    pub(crate) fn read(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(DESCRIPTOR);
        let text = std::fs::read_to_string(&path).map_err(|source| Error::Io {
            path: path.clone(),
            source,
        })?;
        let bad = |message: String| Error::Descriptor {
            path: path.clone(),
            message,
        };
        let read: Self = toml::from_str(&text).map_err(|error| bad(error.to_string()))?;
        for (key, value) in [
            ("name", &read.name),
            ("version", &read.version),
            ("vendor", &read.vendor),
            ("licence", &read.licence),
        ] {
            if value.trim().is_empty() {
                return Err(bad(format!("`{key}` is empty")));
            }
        }
        if read.language == Language::Rust {
            let why = "a cartridge in Rust is a crate: describe it in Cargo.toml, under \
                 [package.metadata.halofy]";
            return Err(bad(why.to_owned()));
        }
        for file in std::iter::once(&read.entry).chain(&read.sources) {
            if !dir.join(file).is_file() {
                return Err(bad(format!("there is no file {}", file.display())));
            }
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "name = \"mine\"\nversion = \"0.1.0\"\nvendor = \"V\"\nlicence = \"MIT\"\n\
        language = \"js\"\nentry = \"mine.js\"\n";

    fn read(text: &str) -> Result<Descriptor, Error> {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(dir.path().join(DESCRIPTOR), text).expect("a temporary file");
        std::fs::write(dir.path().join("mine.js"), "").expect("a temporary file");
        Descriptor::read(dir.path())
    }

    #[test]
    fn every_key_is_read() {
        let more =
            "sources = [\"mine.js\"]\n[capabilities]\ngraph = true\n[limits]\nmemory = 1048576\n";
        let found = read(&format!("{GOOD}{more}")).expect("it is good");
        assert_eq!(found.language, Language::JavaScript);
        assert!(found.capabilities.is_some_and(|declared| declared.graph));
        assert_eq!(found.limits["memory"], 1 << 20);
        assert!(read(GOOD).expect("it is good").limits.is_empty());
    }

    #[test]
    fn a_mistake_is_told_with_the_file_and_the_key() {
        for (text, part) in [
            (
                GOOD.replace("vendor = \"V\"\n", ""),
                "missing field `vendor`",
            ),
            (GOOD.replace("\"V\"", "\" \""), "`vendor` is empty"),
            (GOOD.replace("\"js\"", "\"cobol\""), "cobol"),
            (
                GOOD.replace("\"js\"", "\"rust\""),
                "package.metadata.halofy",
            ),
            (
                GOOD.replace("mine.js", "other.js"),
                "there is no file other.js",
            ),
            (format!("licens = \"MIT\"\n{GOOD}"), "licens"),
        ] {
            let error = read(&text).expect_err("it is bad").to_string();
            assert!(
                error.contains(part) && error.contains(DESCRIPTOR),
                "{error}"
            );
        }
    }
}
