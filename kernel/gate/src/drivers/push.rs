//! How a cartridge comes in: trust, admission, conformance, one transaction with its audit
//! row. A refusal is audited too, with the reason that its vendor gets.

use halofy_audit::Detail;
use halofy_cartridge::{Cartridge, Digest, Overrides, Verdict};
use halofy_core::Invalid;
use halofy_store::{CartridgeRecord, NewCartridge};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::admin::as_json;
use super::registry::is_reserved;
use super::sync::NotAdmitted;
use super::trust::trusted_keys;
use crate::Refusal;
use crate::audit::OPERATOR;
use crate::conformance::{self, Report};
use crate::gate::Gate;

/// A cartridge on its way in.
#[derive(Debug, Clone, Default)]
pub struct Push {
    /// The bytes.
    pub component: Vec<u8>,
    /// The signature file.
    pub signature: Option<String>,
    /// Whether it is mounted too.
    pub mount: bool,
    /// The operator's limits for it.
    pub limits: Overrides,
    /// Although nobody signed it: it serves only where policy allows that.
    pub allow_unsigned: bool,
    /// Although it fails conformance.
    pub force: bool,
}

/// Whether a cartridge that fails conformance is mounted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Conformance {
    /// Only when the operator forces it.
    #[default]
    Required,
    /// Yes, and the log says that it failed.
    Advisory,
}

/// What became of a push.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pushed {
    /// The manifest's name.
    pub name: String,
    /// The manifest's version.
    pub version: String,
    /// SHA-256 of the component, hex.
    pub digest: String,
    /// The vendor whose key signed; absent when nobody did.
    pub signed_by: Option<String>,
    /// Whether it is mounted now.
    pub mounted: bool,
    /// Whether it passed conformance; absent when it was not mounted.
    pub conformance: Option<bool>,
}

impl Gate {
    /// Takes a cartridge in: verifies its signature before anything else, admits and
    /// compiles it in a process of its own, checks that it conforms, stores it, and
    /// mounts it. When this returns, this kernel serves it.
    ///
    /// # Errors
    /// [`Refusal::DriverRefused`] with a reason that its vendor can act on.
    pub async fn cartridge_push(&self, push: &Push) -> Result<Pushed, Refusal> {
        let digest = Digest::of(&push.component);
        let outcome = self.push(push, digest).await;
        if let Err(refusal) = &outcome {
            let detail = refusal.detail().field("digest", digest);
            self.record_refusal("cartridge_push", refusal, detail)
                .await?;
        }
        outcome
    }

    async fn push(&self, push: &Push, digest: Digest) -> Result<Pushed, Refusal> {
        push.limits
            .check()
            .map_err(|field| Invalid::new(field, "must be at least 1"))?;
        let keys = trusted_keys(&self.store.vendor_key_list().await?)?;
        let signature = push.signature.as_deref();
        let admitted = self
            .mounts
            .admit(&push.component, signature, &keys, push.allow_unsigned)
            .await;
        let (cartridge, verdict) = admitted.map_err(Refusal::from)?;
        let Some(manifest) = cartridge.manifest().cloned() else {
            let why = "it has no manifest; build it with `halofy cartridge build`";
            return Err(refused("no_manifest", why));
        };
        if is_reserved(&manifest.name) {
            return Err(refused(
                "reserved_name",
                "the baseline comes with the kernel",
            ));
        }
        let passed = match push.mount {
            // As it will run, the operator's limits included.
            true => {
                let limited = cartridge.with_overrides(&push.limits);
                Some(self.conforms(&limited, push.force).await?)
            }
            false => None,
        };
        let signed_by = match &verdict {
            Verdict::Signed { vendor, .. } => Some(vendor.clone()),
            Verdict::Unsigned => None,
        };
        if signed_by.is_none() {
            tracing::warn!(driver = manifest.name, "an unsigned cartridge was pushed");
        }
        let pushed = Pushed {
            name: manifest.name.clone(),
            version: manifest.version.clone(),
            digest: digest.to_string(),
            signed_by,
            mounted: push.mount,
            conformance: passed,
        };
        let json = serde_json::to_value(&manifest).map_err(|error| Refusal::Internal {
            why: error.to_string(),
        })?;
        let new = NewCartridge {
            digest: digest.0,
            name: &pushed.name,
            version: &pushed.version,
            component: &push.component,
            manifest: &json,
            signature,
            pushed_by: OPERATOR,
            pushed_at: OffsetDateTime::now_utc(),
        };
        self.store_pushed(&new, push, &pushed).await?;
        self.mounts.refresh().await?;
        Ok(pushed)
    }

    async fn store_pushed(
        &self,
        new: &NewCartridge<'_>,
        push: &Push,
        pushed: &Pushed,
    ) -> Result<(), Refusal> {
        let detail = Detail::new()
            .field("driver", &pushed.name)
            .field("version", &pushed.version)
            .field("digest", &pushed.digest)
            .field("signed_by", pushed.signed_by.as_deref().unwrap_or("nobody"))
            .field("mounted", pushed.mounted);
        let detail = match push.limits == Overrides::default() {
            true => detail,
            false => detail.field("limits", as_json(&push.limits)?),
        };
        let detail = match pushed.conformance {
            Some(passed) => detail.field("conformance", if passed { "passed" } else { "failed" }),
            None => detail,
        };
        let others = self.store.cartridge_list().await?;
        let same_version = |other: &&CartridgeRecord| {
            other.name == new.name && other.version == new.version && other.digest != new.digest
        };
        if others.iter().any(|other| same_version(&other)) {
            let why = format!(
                "{} {} is here with other bytes; give the build a version of its own",
                new.name, new.version
            );
            return Err(refused("version_taken", why));
        }
        let mut tx = self.store.begin().await?;
        tx.cartridge_insert(new).await?;
        if push.mount {
            let limits = as_json(&push.limits)?;
            tx.mount_open(&new.digest, &limits, OPERATOR, new.pushed_at)
                .await?;
        }
        self.commit_change(tx, "cartridge_push", detail).await
    }

    /// Runs the checks. An error when policy demands that they pass and they do not.
    async fn conforms(&self, cartridge: &Cartridge, force: bool) -> Result<bool, Refusal> {
        let scratch = tempfile::tempdir().map_err(|error| unavailable(&error))?;
        let data = scratch.path().join("data");
        let report = conformance::run(&self.host, cartridge, &data);
        let report = report.await.map_err(|error| unavailable(&error))?;
        if !report.passed() && !force && self.conformance == Conformance::Required {
            return Err(refused("conformance", failed_checks(&report)));
        }
        Ok(report.passed())
    }
}

impl From<NotAdmitted> for Refusal {
    fn from(refused: NotAdmitted) -> Self {
        let NotAdmitted { reason, why } = refused;
        Self::DriverRefused { reason, why }
    }
}

fn refused(reason: &'static str, why: impl Into<String>) -> Refusal {
    let why = why.into();
    Refusal::DriverRefused { reason, why }
}

fn unavailable(error: &dyn std::error::Error) -> Refusal {
    Refusal::Unavailable {
        what: "conformance",
        why: error.to_string(),
    }
}

fn failed_checks(report: &Report) -> String {
    let failed = report.checks.iter().filter(|check| !check.passed);
    let lines = failed.map(|check| format!("{}: {}", check.name, check.detail));
    let lines: Vec<String> = lines.collect();
    format!(
        "it fails conformance: {}; see `halofy conformance FILE.wasm`, or push with --force",
        lines.join("; ")
    )
}
