//! The languages that a cartridge can be written in. What must not live here: how one is
//! built; each has a module of its own for that.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

/// A language that a cartridge can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub enum Language {
    /// A crate, built by cargo.
    #[serde(rename = "rust")]
    Rust,
    /// An ECMAScript module, on QuickJS.
    #[serde(rename = "js")]
    JavaScript,
    /// A Python module, on CPython.
    #[serde(rename = "python")]
    Python,
    /// C files, without a system or a standard library.
    #[serde(rename = "c")]
    C,
}

impl Language {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Rust, Self::JavaScript, Self::Python, Self::C];

    /// The variable of the environment that names the tool which builds it; cargo is found
    /// otherwise.
    #[must_use]
    pub const fn tool_variable(self) -> Option<&'static str> {
        match self {
            Self::Rust => None,
            Self::JavaScript => Some("HALOFY_COMPONENTIZE_QJS"),
            Self::Python => Some("HALOFY_COMPONENTIZE_PY"),
            Self::C => Some("HALOFY_ZIG"),
        }
    }

    /// As it is written in `halofy.toml` and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::JavaScript => "js",
            Self::Python => "python",
            Self::C => "c",
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no such language here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is none of the languages rust, js, python and c")]
pub struct UnknownLanguage(String);

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL
            .into_iter()
            .find(|language| language.name() == text);
        found.ok_or_else(|| UnknownLanguage(text.to_owned()))
    }
}
