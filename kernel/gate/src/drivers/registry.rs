//! The drivers that this kernel could serve with, by name. Swapped whole: a search that
//! has taken a driver out keeps it until it ends.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use halofy_cartridge::{Cartridge, Digest, Overrides};
use halofy_core::{DEFAULT_DRIVER, DriverName, DriverRef, Pin};
use serde::{Deserialize, Serialize};

use crate::Sidecar;
use crate::drivers::Faults;

/// What ranks.
#[derive(Debug)]
pub(crate) enum Engine {
    /// In the sandbox.
    Cartridge(Arc<Cartridge>),
    /// Out of process.
    Sidecar(Arc<Sidecar>),
}

/// On whose word a driver is here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It came with this binary.
    BuiltIn,
    /// It stands in the configuration of this kernel.
    Configured,
    /// It is mounted in the database.
    Mount {
        /// The mount's id.
        id: i64,
        /// Who signed it, if anybody.
        signed_by: Option<String>,
    },
}

/// A driver that can run.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) name: DriverName,
    pub(crate) version: String,
    pub(crate) digest: Option<Digest>,
    pub(crate) engine: Engine,
    pub(crate) origin: Origin,
    pub(crate) faults: Faults,
}

impl Driver {
    /// Of a cartridge whose name is fit for policies.
    pub(crate) fn of(cartridge: Arc<Cartridge>, origin: Origin) -> Option<Self> {
        Some(Self {
            name: DriverName::parse(cartridge.name()).ok()?,
            version: cartridge.version().to_owned(),
            digest: Some(cartridge.digest()),
            faults: Faults::of_cartridge(),
            engine: Engine::Cartridge(cartridge),
            origin,
        })
    }

    pub(crate) fn of_sidecar(sidecar: Arc<Sidecar>) -> Self {
        Self {
            name: sidecar.name().clone(),
            version: "sidecar".to_owned(),
            digest: None,
            faults: Faults::of_sidecar(),
            engine: Engine::Sidecar(sidecar),
            origin: Origin::Configured,
        }
    }

    pub(crate) fn is_baseline(&self) -> bool {
        self.origin == Origin::BuiltIn
    }

    /// Whether somebody answers for it: a vendor's key, or whoever started this kernel.
    fn is_vouched_for(&self) -> bool {
        !matches!(
            self.origin,
            Origin::Mount {
                signed_by: None,
                ..
            }
        )
    }
}

/// Whether a driver serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", content = "why", rename_all = "camelCase")]
pub enum DriverState {
    /// It serves whoever selects it.
    Serving,
    /// It serves only where policy allows what nobody signed.
    Unsigned,
    /// It was taken out, by hand or by itself.
    Quarantined(String),
    /// This kernel cannot load it.
    Refused(String),
}

/// A driver as an operator sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriverSummary {
    /// The name that policy uses.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// Who made it, as it says.
    pub vendor: Option<String>,
    /// SHA-256 of the component, hex; absent for a sidecar.
    pub digest: Option<String>,
    /// Bytes of the component.
    pub size: Option<usize>,
    /// `built-in`, `configured`, `signed by …` or `unsigned`.
    pub origin: String,
    /// What one call of it may use; absent for a sidecar.
    pub limits: Option<Overrides>,
    /// Whether it is what the bare name means.
    pub default: bool,
    /// Whether it serves.
    #[serde(flatten)]
    pub state: DriverState,
}

/// A driver that a policy names and that does not serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MissingDriver {
    /// Whose policy.
    pub namespace: String,
    /// What it names.
    pub driver: String,
    /// Why the baseline serves in its place.
    pub reason: String,
}

/// What is known of one mount.
#[derive(Debug, Clone)]
pub(crate) enum Slot {
    Ready(Arc<Driver>),
    Out(Out),
}

/// A mount that cannot serve.
#[derive(Debug, Clone)]
pub(crate) struct Out {
    pub(crate) version: String,
    pub(crate) digest: Digest,
    pub(crate) state: DriverState,
    /// Kept for the way back.
    pub(crate) driver: Option<Arc<Driver>>,
}

/// All drivers, at one moment. Of a name, the one that the bare name means is first.
#[derive(Debug, Default, Clone)]
pub(crate) struct Snapshot {
    pub(crate) by_name: BTreeMap<DriverName, Vec<Slot>>,
    pub(crate) missing: Vec<MissingDriver>,
}

/// The registry of one kernel.
#[derive(Debug)]
pub(crate) struct Registry {
    baseline: Arc<Driver>,
    /// What the configuration names, the baseline included.
    fixed: Vec<Arc<Driver>>,
    current: RwLock<Arc<Snapshot>>,
}

impl Registry {
    /// With the drivers that need no database.
    pub(crate) fn new(baseline: Arc<Driver>, configured: Vec<Arc<Driver>>) -> Self {
        // A later one of a name stands in for an earlier, and the baseline is always there.
        let fixed = configured.into_iter().rev().chain([baseline.clone()]);
        let registry = Self {
            baseline,
            fixed: fixed.collect(),
            current: RwLock::default(),
        };
        registry.replace(Vec::new());
        registry
    }

    /// The driver that everything falls back to.
    pub(crate) fn baseline(&self) -> Arc<Driver> {
        Arc::clone(&self.baseline)
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes over what is mounted, the latest first.
    pub(crate) fn replace(&self, mounts: Vec<(DriverName, Slot)>) {
        let mut next = Snapshot::default();
        let fixed = self.fixed.iter();
        let fixed = fixed.map(|driver| (driver.name.clone(), Slot::Ready(driver.clone())));
        for (name, slot) in mounts.into_iter().chain(fixed) {
            next.by_name.entry(name).or_default().push(slot);
        }
        self.set(next);
    }

    /// Notes what policies name in vain.
    pub(crate) fn note_missing(&self, missing: Vec<MissingDriver>) {
        let mut next = (*self.snapshot()).clone();
        next.missing = missing;
        self.set(next);
    }

    fn set(&self, next: Snapshot) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }

    /// The driver that `wanted` means, or a stable word for why it cannot serve.
    pub(crate) fn resolve(
        &self,
        wanted: &DriverRef,
        allow_unsigned: bool,
    ) -> Result<Arc<Driver>, &'static str> {
        let snapshot = self.snapshot();
        let slots = snapshot.by_name.get(&wanted.name);
        let mut slots = slots.into_iter().flatten();
        let driver = match slots.find(|slot| slot.fits(wanted.pin.as_ref())) {
            None => return Err("unmounted"),
            Some(Slot::Out(out)) => return Err(out.reason()),
            Some(Slot::Ready(driver)) => driver,
        };
        driver.faults.ask()?;
        if !driver.is_vouched_for() && !allow_unsigned {
            return Err("unsigned");
        }
        Ok(Arc::clone(driver))
    }

    /// The driver with these bytes, whether it serves or not.
    pub(crate) fn by_digest(&self, digest: &str) -> Option<Arc<Driver>> {
        let snapshot = self.snapshot();
        let mut slots = snapshot.by_name.values().flatten();
        slots.find_map(|slot| {
            let driver = match slot {
                Slot::Ready(driver) => driver,
                Slot::Out(out) => out.driver.as_ref()?,
            };
            let found = driver.digest?.to_string();
            found.starts_with(digest).then(|| driver.clone())
        })
    }

    /// Whether a driver of that name is mounted, serving or not.
    pub(crate) fn knows(&self, name: &str) -> bool {
        let snapshot = self.snapshot();
        snapshot.by_name.keys().any(|known| known.as_str() == name)
    }

    /// The drivers of that name that this kernel has loaded.
    pub(crate) fn all_of(&self, name: &DriverName) -> Vec<Arc<Driver>> {
        let snapshot = self.snapshot();
        let slots = snapshot.by_name.get(name).into_iter().flatten();
        let ready = slots.filter_map(|slot| match slot {
            Slot::Ready(driver) => Some(driver.clone()),
            Slot::Out(_) => None,
        });
        ready.collect()
    }

    /// Every driver, by name, the default of each first.
    pub(crate) fn list(&self) -> Vec<DriverSummary> {
        let snapshot = self.snapshot();
        let of_name = |(name, slots): (&DriverName, &Vec<Slot>)| {
            let name = name.to_string();
            let summary = |(at, slot): (usize, &Slot)| slot.summary(&name, at == 0);
            slots.iter().enumerate().map(summary).collect::<Vec<_>>()
        };
        snapshot.by_name.iter().flat_map(of_name).collect()
    }
}

impl Slot {
    fn fits(&self, pin: Option<&Pin>) -> bool {
        let (version, digest) = match self {
            Self::Ready(driver) => (&driver.version, driver.digest),
            Self::Out(out) => (&out.version, Some(out.digest)),
        };
        match pin {
            None => true,
            Some(Pin::Version(wanted)) => version == wanted,
            Some(Pin::Digest(wanted)) => digest.is_some_and(|digest| digest.to_string() == *wanted),
        }
    }

    fn summary(&self, name: &str, default: bool) -> DriverSummary {
        match self {
            Self::Ready(driver) => driver.summary(name, default, driver.state()),
            Self::Out(out) => match &out.driver {
                Some(driver) => driver.summary(name, default, out.state.clone()),
                None => DriverSummary {
                    name: name.to_owned(),
                    version: out.version.clone(),
                    vendor: None,
                    digest: Some(out.digest.to_string()),
                    size: None,
                    origin: "mounted".to_owned(),
                    limits: None,
                    default,
                    state: out.state.clone(),
                },
            },
        }
    }
}

impl Out {
    fn reason(&self) -> &'static str {
        match self.state {
            DriverState::Quarantined(_) => "quarantined",
            _ => "refused",
        }
    }
}

impl Driver {
    fn state(&self) -> DriverState {
        match self.faults.out() {
            Some(reason) => DriverState::Quarantined(reason.to_owned()),
            None if self.is_vouched_for() => DriverState::Serving,
            None => DriverState::Unsigned,
        }
    }

    fn summary(&self, name: &str, default: bool, state: DriverState) -> DriverSummary {
        let (vendor, size, limits) = match &self.engine {
            Engine::Cartridge(cartridge) => {
                let manifest = cartridge.manifest();
                let vendor = manifest.map(|manifest| manifest.vendor.clone());
                let limits = Overrides::from(cartridge.limits());
                (vendor, Some(cartridge.size()), Some(limits))
            }
            Engine::Sidecar(_) => (None, None, None),
        };
        let origin = match &self.origin {
            Origin::BuiltIn => "built-in".to_owned(),
            Origin::Configured => "configured".to_owned(),
            Origin::Mount { signed_by, .. } => match signed_by {
                Some(key) => format!("signed by {key}"),
                None => "unsigned".to_owned(),
            },
        };
        DriverSummary {
            name: name.to_owned(),
            version: self.version.clone(),
            vendor,
            digest: self.digest.map(|digest| digest.to_string()),
            size,
            origin,
            limits,
            default,
            state,
        }
    }
}

/// Whether `name` may be pushed: the referee is not replaced.
pub(crate) fn is_reserved(name: &str) -> bool {
    name == DEFAULT_DRIVER
}
