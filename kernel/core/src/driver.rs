//! How a driver is named: by name, or by one version or one digest of it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Invalid;

/// The driver that serves when policy names none, and when another one fails.
pub const DEFAULT_DRIVER: &str = "baseline";

/// A driver's name: 1 to 64 characters of `a-z 0-9 - _`, so that it can stand
/// in an audit line as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DriverName(String);

impl DriverName {
    /// Reads a name.
    ///
    /// # Errors
    /// When a character is not allowed, or the length is not 1 to 64.
    pub fn parse(name: &str) -> Result<Self, Invalid> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
            let problem = "must be 1 to 64 characters of a-z, 0-9, `-`, `_`";
            return Err(Invalid::new("driver", problem));
        }
        Ok(Self(name.to_owned()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for DriverName {
    fn default() -> Self {
        Self(DEFAULT_DRIVER.to_owned())
    }
}

impl TryFrom<String> for DriverName {
    type Error = Invalid;

    fn try_from(name: String) -> Result<Self, Invalid> {
        Self::parse(&name)
    }
}

impl From<DriverName> for String {
    fn from(name: DriverName) -> Self {
        name.0
    }
}

impl std::str::FromStr for DriverName {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        Self::parse(name)
    }
}

impl fmt::Display for DriverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which cartridge of a name is meant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pin {
    /// The one that calls itself this version.
    Version(String),
    /// The one of these bytes: SHA-256, 64 lower-case hexadecimal digits.
    Digest(String),
}

/// A driver as policy names it: `name`, `name@version` or `name@sha256:digest`. Without
/// a pin it is the version that was mounted last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DriverRef {
    /// The driver.
    pub name: DriverName,
    /// One of its versions.
    pub pin: Option<Pin>,
}

const MAX_VERSION: usize = 128;

impl DriverRef {
    /// Reads a reference.
    ///
    /// # Errors
    /// When the name, the version or the digest has not its form.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let Some((name, pin)) = text.split_once('@') else {
            let name = DriverName::parse(text)?;
            return Ok(Self { name, pin: None });
        };
        let name = DriverName::parse(name)?;
        let pin = Some(Pin::parse(pin)?);
        Ok(Self { name, pin })
    }
}

impl Pin {
    fn parse(text: &str) -> Result<Self, Invalid> {
        if let Some(digest) = text.strip_prefix("sha256:") {
            let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
            if digest.len() != 64 || !digest.chars().all(hex) {
                let problem = "a digest is `sha256:` and 64 lower-case hexadecimal digits";
                return Err(Invalid::new("driver", problem));
            }
            return Ok(Self::Digest(digest.to_owned()));
        }
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == '@' || c == ',';
        if text.is_empty() || text.len() > MAX_VERSION || text.chars().any(odd) {
            let problem = "a version is 1 to 128 bytes without spaces, commas or `@`";
            return Err(Invalid::new("driver", problem));
        }
        Ok(Self::Version(text.to_owned()))
    }
}

impl TryFrom<String> for DriverRef {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::parse(&text)
    }
}

impl From<DriverRef> for String {
    fn from(driver: DriverRef) -> Self {
        driver.to_string()
    }
}

impl From<DriverName> for DriverRef {
    fn from(name: DriverName) -> Self {
        Self { name, pin: None }
    }
}

impl std::str::FromStr for DriverRef {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::parse(text)
    }
}

impl fmt::Display for DriverRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pin {
            None => self.name.fmt(f),
            Some(Pin::Version(version)) => write!(f, "{}@{version}", self.name),
            Some(Pin::Digest(digest)) => write!(f, "{}@sha256:{digest}", self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_reads_back_as_it_was_written() {
        let digest = "0123456789abcdef".repeat(4);
        let by_digest = format!("graph@sha256:{digest}");
        for text in ["graph", "graph@1.2.0-rc.1+7", by_digest.as_str()] {
            let read = DriverRef::parse(text).expect("a reference");
            assert_eq!(read.to_string(), text);
        }
        assert_eq!(DriverRef::default().to_string(), DEFAULT_DRIVER);
    }

    #[test]
    fn what_is_no_reference_is_refused() {
        for text in [
            "",
            "@1",
            "graph@",
            "Graph",
            "graph@1 0",
            "graph@1@2",
            "graph@sha256:abc",
            "graph@sha256:",
            "a.b",
        ] {
            assert!(DriverRef::parse(text).is_err(), "{text:?}");
        }
    }
}
