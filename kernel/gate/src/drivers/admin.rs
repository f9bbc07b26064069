//! How an operator changes what is mounted: mount, unmount, roll back, quarantine, release.
//! Each step is one transaction with its audit row, and so is each refusal.

use halofy_audit::Detail;
use halofy_cartridge::{Digest, Overrides};
use halofy_core::{DriverRef, Invalid, Pin};
use halofy_store::{CartridgeRecord, MountRecord, Transaction};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Driver, DriverSummary, Origin};
use crate::audit::{EVERYWHERE, Ending, OPERATOR, Trail};
use crate::gate::Gate;
use crate::{Refusal, metrics};

/// A change of what is mounted.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(
    tag = "change",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum MountChange {
    /// Makes a stored cartridge the latest of its name.
    Mount {
        /// With these limits.
        #[serde(default)]
        limits: Overrides,
    },
    /// Takes one version out for good.
    Unmount,
    /// Takes the latest version out, so that the one before it serves again.
    Rollback,
    /// Takes one version out until it is released.
    Quarantine {
        /// Why.
        reason: String,
    },
    /// Lets one version back.
    Release,
}

impl MountChange {
    fn op(&self) -> &'static str {
        match self {
            Self::Mount { .. } => "driver_mount",
            Self::Unmount => "driver_unmount",
            Self::Rollback => "driver_rollback",
            Self::Quarantine { .. } => "driver_quarantine",
            Self::Release => "driver_release",
        }
    }
}

impl Gate {
    /// Changes what is mounted of a driver, on every kernel of this database.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] when the driver is not what the change is for.
    pub async fn mount_change(
        &self,
        driver: &DriverRef,
        change: &MountChange,
    ) -> Result<Vec<DriverSummary>, Refusal> {
        let outcome = self.change(driver, change).await;
        if let Err(refusal) = &outcome {
            let detail = refusal.detail().field("driver", driver);
            self.record_refusal(change.op(), refusal, detail).await?;
        }
        outcome?;
        self.mounts.refresh().await?;
        let name = driver.name.as_str();
        let all = self.registry.list().into_iter();
        Ok(all.filter(|summary| summary.name == name).collect())
    }

    async fn change(&self, driver: &DriverRef, change: &MountChange) -> Result<(), Refusal> {
        let now = OffsetDateTime::now_utc();
        if let MountChange::Mount { limits } = change {
            limits
                .check()
                .map_err(|field| Invalid::new(field, "must be at least 1"))?;
            let digest = self.stored(driver).await?;
            let mut tx = self.store.begin().await?;
            tx.mount_open(&digest, &as_json(limits)?, OPERATOR, now)
                .await?;
            let detail = about(driver)
                .field("digest", Digest(digest))
                .field("limits", as_json(limits)?);
            return self.commit_change(tx, change.op(), detail).await;
        }
        let Some(mount) = self.mounted(driver).await? else {
            return self.change_fixed(driver, change).await;
        };
        if matches!(change, MountChange::Rollback) && self.open_mounts(driver).await? < 2 {
            let problem = format!(
                "{driver} has no version before this one; see halofy drivers unmount and quarantine"
            );
            return Err(Invalid::new("driver", problem).into());
        }
        let detail = about(driver)
            .field("version", &mount.cartridge.version)
            .field("digest", Digest(mount.cartridge.digest));
        let mut tx = self.store.begin().await?;
        let (done, detail) = match change {
            MountChange::Quarantine { reason } => {
                let reason = reason.trim();
                let done = tx.mount_quarantine(mount.id, Some(reason), now).await?;
                (done, detail.field("reason", reason))
            }
            MountChange::Release => (tx.mount_quarantine(mount.id, None, now).await?, detail),
            other => (tx.mount_end(mount.id, other.op(), now).await?, detail),
        };
        if !done {
            return Err(Invalid::new("driver", format!("{driver} is so already")).into());
        }
        self.commit_change(tx, change.op(), detail).await
    }

    /// A driver of this kernel's own configuration can be let back, and nothing else.
    async fn change_fixed(&self, driver: &DriverRef, change: &MountChange) -> Result<(), Refusal> {
        let snapshot = self.registry.snapshot();
        let known = snapshot.by_name.contains_key(&driver.name);
        if !known {
            let problem = format!("{driver} is not mounted; see halofy drivers list");
            return Err(Invalid::new("driver", problem).into());
        }
        if !matches!(change, MountChange::Release) {
            let problem =
                format!("{driver} is not mounted in the database; see halofy drivers list");
            return Err(Invalid::new("driver", problem).into());
        }
        for driver in self.registry.all_of(&driver.name) {
            driver.faults.forgive();
        }
        let tx = self.store.begin().await?;
        self.commit_change(tx, change.op(), about(driver)).await
    }

    async fn open_mounts(&self, driver: &DriverRef) -> Result<usize, Refusal> {
        let mounts = self.store.mount_list().await?;
        let of_name = |mount: &&MountRecord| mount.cartridge.name == driver.name.as_str();
        Ok(mounts.iter().filter(of_name).count())
    }

    /// The open mount that `driver` means.
    async fn mounted(&self, driver: &DriverRef) -> Result<Option<MountRecord>, Refusal> {
        let mounts = self.store.mount_list().await?;
        let fits = |mount: &MountRecord| is_meant(driver, &mount.cartridge);
        Ok(mounts.into_iter().find(fits))
    }

    /// The stored cartridge that `driver` means, the newest first.
    async fn stored(&self, driver: &DriverRef) -> Result<[u8; 32], Refusal> {
        let stored = self.store.cartridge_list().await?;
        let found = stored
            .into_iter()
            .find(|cartridge| is_meant(driver, cartridge));
        found.map(|cartridge| cartridge.digest).ok_or_else(|| {
            let problem = format!("{driver} was never pushed; see halofy cartridge push");
            Invalid::new("driver", problem).into()
        })
    }

    /// Takes a driver out that failed too often, once for all kernels.
    pub(crate) async fn quarantine_by_itself(&self, driver: &Driver, why: String) {
        metrics::quarantined(driver.name.as_str());
        tracing::error!(driver = %driver.name, version = driver.version, why, "quarantined");
        if let Err(error) = self.try_quarantine(driver, &why).await {
            // It is out on this kernel all the same.
            tracing::error!(%error, "the quarantine is not in the database");
        }
    }

    async fn try_quarantine(&self, driver: &Driver, why: &str) -> Result<(), Refusal> {
        let detail = Detail::new()
            .field("driver", &driver.name)
            .field("version", &driver.version)
            .field("reason", why);
        let mut tx = self.store.begin().await?;
        if let Origin::Mount { id, .. } = driver.origin {
            let now = OffsetDateTime::now_utc();
            if !tx.mount_quarantine(id, Some(why), now).await? {
                // Another kernel was faster.
                return Ok(());
            }
        }
        let trail = Trail::kernel("driver_quarantine", EVERYWHERE);
        self.commit(tx, &trail, detail).await?;
        self.mounts.refresh().await?;
        Ok(())
    }

    /// Commits an operator's change with its row, and tells every kernel.
    pub(super) async fn commit_change(
        &self,
        tx: Transaction<'_>,
        op: &'static str,
        detail: Detail,
    ) -> Result<(), Refusal> {
        let trail = Trail::operator(op, EVERYWHERE);
        self.commit(tx, &trail, detail).await
    }

    async fn commit(
        &self,
        mut tx: Transaction<'_>,
        trail: &Trail,
        detail: Detail,
    ) -> Result<(), Refusal> {
        let row = trail.seal(&Ending::ok(detail));
        tx.audit_insert(&row).await?;
        tx.registry_changed().await?;
        tx.commit().await?;
        self.wake.notify();
        Ok(())
    }

    /// Notes an operator's command that was refused.
    pub(crate) async fn record_refusal(
        &self,
        op: &'static str,
        refusal: &Refusal,
        detail: Detail,
    ) -> Result<(), Refusal> {
        let result = refusal.outcome();
        let row = Trail::operator(op, EVERYWHERE).seal(&Ending { result, detail });
        self.append(row).await
    }
}

pub(super) fn as_json(limits: &Overrides) -> Result<serde_json::Value, Refusal> {
    serde_json::to_value(limits).map_err(|error| Refusal::Internal {
        why: error.to_string(),
    })
}

fn about(driver: &DriverRef) -> Detail {
    Detail::new().field("driver", driver)
}

fn is_meant(driver: &DriverRef, cartridge: &CartridgeRecord) -> bool {
    let pinned = match &driver.pin {
        None => true,
        Some(Pin::Version(version)) => cartridge.version == *version,
        Some(Pin::Digest(digest)) => Digest(cartridge.digest).to_string() == *digest,
    };
    cartridge.name == driver.name.as_str() && pinned
}
