//! From the database to the registry: what is mounted anywhere is mounted here, within a
//! second.

use std::collections::HashMap;
use std::sync::Arc;

use halofy_cartridge::{
    Cartridge, CartridgeHost, Compiler, Digest, Overrides, SignatureFile, Trust, TrustedKey,
    Verdict,
};
use halofy_core::{DriverName, EffectivePolicy, Policy};
use halofy_store::{MountRecord, PolicyRecord, RegistryChanges, Store, StoreError};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::registry::{Out, Slot};
use super::trust::trusted_keys;
use super::{Driver, DriverState, MissingDriver, Origin, Registry};

/// Loads what is mounted and keeps what is loaded.
pub(crate) struct Mounts {
    store: Arc<Store>,
    host: Arc<CartridgeHost>,
    compiler: Compiler,
    registry: Arc<Registry>,
    /// By mount. Also the lock that makes refreshes follow each other.
    loaded: Mutex<HashMap<i64, Arc<Driver>>>,
}

impl Mounts {
    pub(crate) fn new(
        store: Arc<Store>,
        host: Arc<CartridgeHost>,
        compiler: Compiler,
        registry: Arc<Registry>,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            host,
            compiler,
            registry,
            loaded: Mutex::default(),
        })
    }

    /// Makes the registry what the database says. A cartridge that this kernel cannot
    /// load is listed with the reason and does not keep the others out.
    ///
    /// # Errors
    /// When the database does not answer; the registry stays as it was.
    pub(crate) async fn refresh(&self) -> Result<(), StoreError> {
        let mut loaded = self.loaded.lock().await;
        let keys = trusted_keys(&self.store.vendor_key_list().await?)?;
        let mounts = self.store.mount_list().await?;
        let mut slots = Vec::with_capacity(mounts.len());
        let mut kept = HashMap::new();
        for mount in &mounts {
            let Ok(name) = DriverName::parse(&mount.cartridge.name) else {
                continue;
            };
            let known = loaded.get(&mount.id).cloned();
            let slot = self.slot(mount, &keys, known).await?;
            if let Slot::Ready(driver)
            | Slot::Out(Out {
                driver: Some(driver),
                ..
            }) = &slot
            {
                kept.insert(mount.id, driver.clone());
            }
            slots.push((name, slot));
        }
        self.registry.replace(slots);
        *loaded = kept;
        let policies = self.store.policy_list().await?;
        self.registry
            .note_missing(missing(&self.registry, &policies));
        Ok(())
    }

    async fn slot(
        &self,
        mount: &MountRecord,
        keys: &[TrustedKey],
        known: Option<Arc<Driver>>,
    ) -> Result<Slot, StoreError> {
        let (driver, refused) = match known {
            Some(driver) => match revoked(mount, keys) {
                Some(why) => (Some(driver), Some(why)),
                None => (Some(driver), None),
            },
            None => match self.load(mount, keys).await? {
                Ok(driver) => (Some(driver), None),
                Err(why) => (None, Some(why)),
            },
        };
        let state = match (&mount.quarantine, refused) {
            (Some(reason), _) => DriverState::Quarantined(reason.clone()),
            (None, Some(why)) => {
                tracing::warn!(
                    driver = mount.cartridge.name,
                    why,
                    "a mounted cartridge is refused"
                );
                DriverState::Refused(why)
            }
            (None, None) => {
                if let Some(driver) = driver {
                    return Ok(Slot::Ready(driver));
                }
                DriverState::Refused("it is not loaded".to_owned())
            }
        };
        if let Some(driver) = &driver {
            // The way back begins with a clean slate.
            driver.faults.forgive();
        }
        Ok(Slot::Out(Out {
            version: mount.cartridge.version.clone(),
            digest: Digest(mount.cartridge.digest),
            state,
            driver,
        }))
    }

    /// Loads a mount's cartridge, its signature verified anew: the database is not
    /// trusted with that.
    async fn load(
        &self,
        mount: &MountRecord,
        keys: &[TrustedKey],
    ) -> Result<Result<Arc<Driver>, String>, StoreError> {
        let digest = mount.cartridge.digest;
        let Some(component) = self.store.cartridge_component(&digest).await? else {
            return Ok(Err("its bytes are missing".to_owned()));
        };
        if Digest::of(&component).0 != digest {
            return Ok(Err("its bytes are not those that were pushed".to_owned()));
        }
        let limits = match serde_json::from_value::<Overrides>(mount.limits.clone()) {
            Ok(limits) => limits,
            Err(error) => return Ok(Err(format!("its limits cannot be read: {error}"))),
        };
        let signature = mount.cartridge.signature.as_deref();
        let (cartridge, verdict) = match self.admit(&component, signature, keys, true).await {
            Ok(admitted) => admitted,
            Err(refused) => return Ok(Err(refused.why)),
        };
        let origin = Origin::Mount {
            id: mount.id,
            signed_by: match verdict {
                Verdict::Signed { vendor, .. } => Some(vendor),
                Verdict::Unsigned => None,
            },
        };
        let cartridge = Arc::new(cartridge.with_overrides(&limits));
        let driver = Driver::of(cartridge, origin).map(Arc::new);
        Ok(driver.ok_or_else(|| "its name is not fit for policies".to_owned()))
    }

    /// A stored cartridge, mounted or not, under the kernel's own limits: for a replay.
    ///
    /// # Errors
    /// When the database does not answer.
    pub(crate) async fn stored(&self, digest: [u8; 32]) -> Result<Option<Arc<Driver>>, StoreError> {
        let Some(component) = self.store.cartridge_component(&digest).await? else {
            return Ok(None);
        };
        // What a key that was revoked since has signed can still be looked back at.
        let admitted = self.admit(&component, None, &[], true).await;
        let origin = Origin::Configured;
        Ok(admitted.ok().and_then(|(cartridge, _)| {
            let same = cartridge.digest().0 == digest;
            let driver = Driver::of(Arc::new(cartridge), origin)?;
            same.then(|| Arc::new(driver))
        }))
    }

    /// Verifies, admits and compiles a component that came from outside.
    pub(crate) async fn admit(
        &self,
        component: &[u8],
        signature: Option<&str>,
        keys: &[TrustedKey],
        allow_unsigned: bool,
    ) -> Result<(Cartridge, Verdict), NotAdmitted> {
        let signature = match signature.map(|json| SignatureFile::parse(json.as_bytes())) {
            None => None,
            Some(Ok(signature)) => Some(signature),
            Some(Err(error)) => return Err(NotAdmitted::new(error.reason(), &error)),
        };
        let trust = Trust {
            keys,
            allow_unsigned,
            limit: self.host.limits().component,
        };
        self.host
            .load_signed(
                component,
                "unnamed",
                signature.as_ref(),
                &trust,
                &self.compiler,
            )
            .await
            .map_err(|error| NotAdmitted::new(error.reason(), &error))
    }
}

/// Why a component was not let in.
#[derive(Debug)]
pub(crate) struct NotAdmitted {
    /// A stable word.
    pub(crate) reason: &'static str,
    /// For whoever sent it.
    pub(crate) why: String,
}

impl NotAdmitted {
    fn new(reason: &'static str, why: &impl ToString) -> Self {
        let why = why.to_string();
        Self { reason, why }
    }
}

/// Why a cartridge that was let in must not serve any longer.
fn revoked(mount: &MountRecord, keys: &[TrustedKey]) -> Option<String> {
    let signature = SignatureFile::parse(mount.cartridge.signature.as_ref()?.as_bytes()).ok()?;
    let signer = signature.public_key();
    let mut listed = keys.iter().filter(|key| key.public_key == signer);
    match listed.next() {
        None => Some("the key that signed it is no longer listed".to_owned()),
        Some(key) if key.revoked => Some(format!("the key {} was revoked", key.id)),
        Some(_) => None,
    }
}

/// What policies name and nobody serves.
fn missing(registry: &Registry, policies: &[PolicyRecord]) -> Vec<MissingDriver> {
    let of_policy = |record: &PolicyRecord| {
        let namespace = record.namespace.to_string();
        let above = record.namespace.visible();
        let chain = policies.iter();
        let chain = chain.filter(|other| above.iter().any(|path| path == other.namespace.as_str()));
        let mut chain: Vec<&PolicyRecord> = chain.collect();
        chain.sort_by_key(|other| other.namespace.as_str().len());
        let effective = EffectivePolicy::combine(chain.iter().map(|other| &other.policy));
        unserved(registry, &record.policy, effective.allow_unsigned)
            .into_iter()
            .map(move |(driver, reason)| MissingDriver {
                namespace: namespace.clone(),
                driver,
                reason: reason.to_owned(),
            })
            .collect::<Vec<_>>()
    };
    policies.iter().flat_map(of_policy).collect()
}

/// The drivers that a policy names and that would not serve, with the reason.
pub(crate) fn unserved(
    registry: &Registry,
    policy: &Policy,
    allow_unsigned: bool,
) -> Vec<(String, &'static str)> {
    let named = policy.drivers();
    let missing = named.filter_map(|driver| {
        let reason = registry.resolve(driver, allow_unsigned).err()?;
        Some((driver.to_string(), reason))
    });
    missing.collect()
}

/// Follows the database until told to stop.
pub(crate) fn start(mounts: Arc<Mounts>, stop: CancellationToken) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut changes = RegistryChanges::watch(mounts.store.clone());
        loop {
            tokio::select! {
                _ = changes.next() => {}
                () = stop.cancelled() => return,
            }
            // Not dropped half-way: a query that is dropped costs the connection.
            if let Err(error) = mounts.refresh().await {
                tracing::warn!(%error, "the driver registry is not up to date");
                changes.again();
                tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            }
        }
    })
}
