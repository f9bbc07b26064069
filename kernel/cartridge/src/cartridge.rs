//! An admitted, compiled component.

use std::fmt;
use std::sync::Arc;

use sha2::Digest as _;
use wasmtime::component::{ComponentExportIndex, InstancePre};

use crate::call_limits::{CallLimits, Overrides};
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
/// Holds machine code and nothing of any call; a clone shares the code.
#[derive(Clone)]
pub struct Cartridge {
    pub(crate) name: Arc<str>,
    pub(crate) digest: Digest,
    pub(crate) size: usize,
    pub(crate) manifest: Option<Arc<Manifest>>,
    pub(crate) code: InstancePre<CallState>,
    pub(crate) plan: ComponentExportIndex,
    pub(crate) capabilities: ComponentExportIndex,
    /// Of a call without an operator's word: the kernel's, lowered by the manifest.
    pub(crate) own_limits: Arc<CallLimits>,
    pub(crate) ceiling: Arc<CallLimits>,
    /// Of a call.
    pub(crate) limits: Arc<CallLimits>,
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
        self.manifest.as_deref()
    }

    /// The limits of a call.
    pub fn limits(&self) -> &CallLimits {
        &self.limits
    }

    /// The same cartridge under an operator's limits, which replace those of an
    /// earlier call of this function. They lower and raise, up to
    /// [`Limits::maxima`](crate::Limits::maxima), and win over the manifest. Cheap:
    /// nothing is compiled again.
    #[must_use]
    pub fn with_overrides(&self, overrides: &Overrides) -> Self {
        let limits = self.own_limits.overridden(overrides, &self.ceiling);
        let limits = Arc::new(limits);
        Self {
            limits,
            ..self.clone()
        }
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
