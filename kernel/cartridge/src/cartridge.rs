//! An admitted, compiled component.

use std::fmt;

use sha2::Digest as _;
use wasmtime::component::{ComponentExportIndex, InstancePre};

use crate::manifest::Manifest;
use crate::state::CallState;

/// The SHA-256 of a component's bytes. Displays as lower-case hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{self}")
    }
}

/// A component that fits the contract, ready to run on the host that loaded it.
/// Holds machine code and nothing of any call.
pub struct Cartridge {
    pub(crate) name: String,
    pub(crate) digest: Digest,
    pub(crate) size: usize,
    pub(crate) manifest: Option<Manifest>,
    pub(crate) code: InstancePre<CallState>,
    pub(crate) plan: ComponentExportIndex,
    pub(crate) capabilities: ComponentExportIndex,
}

impl Cartridge {
    /// The manifest's name, or the one that the loader gave.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The manifest's version, `unversioned` without a manifest.
    pub fn version(&self) -> &str {
        self.manifest
            .as_ref()
            .map_or("unversioned", |manifest| &manifest.version)
    }

    /// The SHA-256 of the component's bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The component's size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// What the cartridge says about itself.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }
}

impl fmt::Debug for Cartridge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cartridge")
            .field("name", &self.name)
            .field("version", &self.version())
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}
