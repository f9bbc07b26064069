//! Which cartridge answers to which name, swapped atomically: a call that has
//! taken a cartridge out keeps it until it ends.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use thiserror::Error;

use crate::cartridge::Cartridge;
use crate::error::LoadError;
use crate::host::CartridgeHost;

/// Why the registry was not changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegistryError {
    /// The baseline can be replaced, never removed.
    #[error("the baseline cannot be unmounted")]
    Baseline,
    /// No cartridge of this name is mounted.
    #[error("no cartridge named {0:?} is mounted")]
    Unknown(String),
}

/// Mounted cartridges by name.
///
/// Invariant: the baseline is always there.
#[derive(Debug)]
pub struct Drivers {
    mounted: RwLock<Mounted>,
}

#[derive(Debug)]
struct Mounted {
    baseline: Arc<Cartridge>,
    by_name: BTreeMap<String, Arc<Cartridge>>,
}

impl Drivers {
    /// The name of the cartridge that everything falls back to.
    pub const BASELINE: &'static str = "baseline";

    /// Loads the baseline and mounts it. Blocks while it compiles.
    ///
    /// # Errors
    /// [`LoadError`] when the bytes are no cartridge, or one of another name.
    pub fn new(host: &CartridgeHost, baseline: &[u8]) -> Result<Self, LoadError> {
        let baseline = host.load(baseline, Self::BASELINE)?;
        Self::of(Arc::new(baseline))
    }

    /// Mounts a baseline that was loaded before, such as from a cache.
    ///
    /// # Errors
    /// [`LoadError::Manifest`] when it has another name.
    pub fn of(baseline: Arc<Cartridge>) -> Result<Self, LoadError> {
        if baseline.name() != Self::BASELINE {
            let why = format!("the baseline calls itself {:?}", baseline.name());
            return Err(LoadError::Manifest(why));
        }
        let by_name = BTreeMap::from([(Self::BASELINE.to_owned(), Arc::clone(&baseline))]);
        Ok(Self {
            mounted: RwLock::new(Mounted { baseline, by_name }),
        })
    }

    /// The cartridge that everything falls back to.
    pub fn baseline(&self) -> Arc<Cartridge> {
        Arc::clone(&self.read().baseline)
    }

    /// The cartridge of that name.
    pub fn get(&self, name: &str) -> Option<Arc<Cartridge>> {
        self.read().by_name.get(name).cloned()
    }

    /// Mounts `cartridge` under its own name and gives the one that it replaces,
    /// for a roll-back.
    pub fn mount(&self, cartridge: Arc<Cartridge>) -> Option<Arc<Cartridge>> {
        let mut mounted = self.write();
        if cartridge.name() == Self::BASELINE {
            mounted.baseline = Arc::clone(&cartridge);
        }
        mounted
            .by_name
            .insert(cartridge.name().to_owned(), cartridge)
    }

    /// Takes the cartridge of that name out. Calls that run keep it.
    ///
    /// # Errors
    /// [`RegistryError`] for the baseline and for names that are not mounted.
    pub fn unmount(&self, name: &str) -> Result<Arc<Cartridge>, RegistryError> {
        if name == Self::BASELINE {
            return Err(RegistryError::Baseline);
        }
        let removed = self.write().by_name.remove(name);
        removed.ok_or_else(|| RegistryError::Unknown(name.to_owned()))
    }

    /// All mounted cartridges, by name.
    pub fn list(&self) -> Vec<Arc<Cartridge>> {
        self.read().by_name.values().cloned().collect()
    }

    // A panic while the lock is held leaves a complete map: nothing in here can
    // fail half-way.
    fn read(&self) -> std::sync::RwLockReadGuard<'_, Mounted> {
        self.mounted.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Mounted> {
        self.mounted.write().unwrap_or_else(PoisonError::into_inner)
    }
}
