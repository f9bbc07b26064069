//! Whose signatures count: vendors' keys as operators list and revoke them.

use halofy_audit::Detail;
use halofy_cartridge::{PublicKey, TrustedKey};
use halofy_core::Invalid;
use halofy_store::{StoreError, VendorKeyRecord};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::Refusal;
use crate::audit::OPERATOR;
use crate::gate::Gate;

const MAX_VENDOR: usize = 128;

/// A vendor's key to be listed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VendorTrust {
    /// Whose it is.
    pub vendor: String,
    /// Ed25519: PEM, or base64 of 32 bytes.
    pub public_key: String,
    /// The drivers that it may sign: names, or beginnings such as `acme-*`.
    pub names: Vec<String>,
}

/// A vendor's key as an operator sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VendorKeySummary {
    /// Its fingerprint.
    pub id: String,
    /// Whose it is.
    pub vendor: String,
    /// The drivers that it may sign.
    pub names: Vec<String>,
    /// `trusted` or `revoked`.
    pub status: String,
    /// When it was listed.
    #[serde(with = "time::serde::rfc3339")]
    pub added_at: OffsetDateTime,
}

impl From<VendorKeyRecord> for VendorKeySummary {
    fn from(key: VendorKeyRecord) -> Self {
        let status = match key.revoked_at {
            Some(_) => "revoked",
            None => "trusted",
        };
        Self {
            id: key.id,
            vendor: key.vendor,
            names: key.names,
            status: status.to_owned(),
            added_at: key.added_at,
        }
    }
}

impl Gate {
    /// Lists a vendor's key: what it signs may be mounted.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] naming the field.
    pub async fn vendor_key_add(&self, trust: &VendorTrust) -> Result<VendorKeySummary, Refusal> {
        let key: PublicKey = trust
            .public_key
            .parse()
            .map_err(|error| Invalid::new("publicKey", format!("{error}")))?;
        check(trust)?;
        let record = VendorKeyRecord {
            id: key.id(),
            vendor: trust.vendor.clone(),
            public_key: key.to_bytes().to_vec(),
            names: trust.names.clone(),
            added_by: OPERATOR.to_owned(),
            added_at: OffsetDateTime::now_utc(),
            revoked_at: None,
        };
        let detail = Detail::new()
            .field("key", &record.id)
            .field("vendor", &record.vendor)
            .field("names", record.names.join(","));
        let mut tx = self.store.begin().await?;
        if !tx.vendor_key_insert(&record).await? {
            let problem = format!("{} is listed already; see halofy trust list", record.id);
            return Err(Invalid::new("publicKey", problem).into());
        }
        self.commit_change(tx, "vendor_key_add", detail).await?;
        self.mounts.refresh().await?;
        Ok(record.into())
    }

    /// Every vendor's key.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn vendor_key_list(&self) -> Result<Vec<VendorKeySummary>, Refusal> {
        let keys = self.store.vendor_key_list().await?;
        Ok(keys.into_iter().map(VendorKeySummary::from).collect())
    }

    /// Revokes a vendor's key: what it signed stops serving, on every kernel.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] when it is not listed.
    pub async fn vendor_key_revoke(&self, id: &str) -> Result<VendorKeySummary, Refusal> {
        let mut tx = self.store.begin().await?;
        let revoked = tx.vendor_key_revoke(id, OffsetDateTime::now_utc()).await?;
        let record = revoked.ok_or(Refusal::NotFound { hidden: false })?;
        let detail = Detail::new().field("key", id);
        self.commit_change(tx, "vendor_key_revoke", detail).await?;
        self.mounts.refresh().await?;
        Ok(record.into())
    }
}

fn check(trust: &VendorTrust) -> Result<(), Invalid> {
    let vendor = trust.vendor.trim();
    if vendor.is_empty() || vendor.len() > MAX_VENDOR || vendor.chars().any(char::is_control) {
        return Err(Invalid::new("vendor", "must be 1 to 128 bytes of text"));
    }
    if trust.names.is_empty() {
        let problem = "must name a driver, or a beginning such as `acme-*`";
        return Err(Invalid::new("names", problem));
    }
    match trust
        .names
        .iter()
        .find(|name| !TrustedKey::is_name_pattern(name))
    {
        Some(name) => Err(Invalid::new("names", format!("{name:?} is no driver name"))),
        None => Ok(()),
    }
}

/// The keys in the form that verification takes.
pub(crate) fn trusted_keys(records: &[VendorKeyRecord]) -> Result<Vec<TrustedKey>, StoreError> {
    let key = |record: &VendorKeyRecord| {
        let public_key = PublicKey::from_bytes(&record.public_key)
            .map_err(|error| StoreError::Corrupt(error.to_string()))?;
        Ok(TrustedKey {
            id: record.id.clone(),
            vendor: record.vendor.clone(),
            public_key,
            names: record.names.clone(),
            revoked: record.revoked_at.is_some(),
        })
    };
    records.iter().map(key).collect()
}
