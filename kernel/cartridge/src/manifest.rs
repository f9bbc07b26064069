//! What a cartridge says about itself, in the custom section `halofy:manifest`.

use serde::{Deserialize, Serialize};

use crate::call_limits::Overrides;
use crate::error::LoadError;

/// The custom section of the component that holds the manifest as JSON.
pub const MANIFEST_SECTION: &str = "halofy:manifest";

/// The contract that this kernel runs, as a manifest names it.
const CONTRACT: &str = "1.0.0";
const MAX_BYTES: usize = 16 << 10;
const MAX_FIELD: usize = 128;

/// A cartridge's own statement. Claims, not facts: only the signature binds them
/// to a vendor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Lower-case letters, digits, `-` and `_`, at most 64.
    pub name: String,
    /// The vendor's own version.
    pub version: String,
    /// The contract it was built against: `1.0.0`, or `halofy:driver@1.0.0`.
    pub wit: String,
    /// Who made it.
    #[serde(default)]
    pub vendor: String,
    /// An SPDX expression.
    #[serde(default)]
    pub licence: String,
    /// Lower limits than the kernel's, for calls of this cartridge.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Overrides>,
}

impl Manifest {
    /// Reads the section.
    ///
    /// # Errors
    /// [`LoadError::Manifest`] when it is too long, not JSON, or names something
    /// that this kernel cannot use.
    pub fn parse(section: &[u8]) -> Result<Self, LoadError> {
        if section.len() > MAX_BYTES {
            return Err(LoadError::Manifest(format!(
                "longer than {MAX_BYTES} bytes"
            )));
        }
        let manifest: Self =
            serde_json::from_slice(section).map_err(|e| LoadError::Manifest(e.to_string()))?;
        manifest.check()?;
        Ok(manifest)
    }

    pub(crate) fn check(&self) -> Result<(), LoadError> {
        if !is_driver_name(&self.name) {
            return Err(LoadError::Manifest(format!("bad name {:?}", self.name)));
        }
        let contract = self.wit.strip_prefix("halofy:driver@").unwrap_or(&self.wit);
        if contract != CONTRACT {
            let why = format!("built against {:?}, this kernel runs {CONTRACT}", self.wit);
            return Err(LoadError::Manifest(why));
        }
        for (field, text) in [
            ("version", &self.version),
            ("vendor", &self.vendor),
            ("licence", &self.licence),
        ] {
            // Versions and vendors end up in audit lines, one field a word.
            if text.len() > MAX_FIELD || text.chars().any(char::is_control) {
                return Err(LoadError::Manifest(format!("bad {field} {text:?}")));
            }
        }
        if let Some(Err(name)) = self.limits.as_ref().map(Overrides::check) {
            return Err(LoadError::Manifest(format!("the limit {name} is 0")));
        }
        if self.version.is_empty() || self.version.contains(char::is_whitespace) {
            return Err(LoadError::Manifest(format!(
                "bad version {:?}",
                self.version
            )));
        }
        Ok(())
    }
}

/// A name that is safe in an audit line, a path and a URL.
pub(crate) fn is_driver_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    (1..=64).contains(&name.len()) && name.chars().all(allowed)
}
