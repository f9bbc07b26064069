//! The driver registry: vendors' keys, cartridges, mounts, and how kernels learn of a
//! change. What a signature or a component means is not known here.

use serde_json::Value;
use sqlx::Row;
use sqlx::postgres::PgRow;
use time::OffsetDateTime;

use crate::{Store, StoreError, Transaction};

/// The channel on which a server tells that the registry changed.
pub(crate) const CHANGED: &str = "halofy_drivers";

/// A vendor's key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VendorKeyRecord {
    /// Its fingerprint.
    pub id: String,
    /// Whose it is.
    pub vendor: String,
    /// Ed25519, 32 bytes.
    pub public_key: Vec<u8>,
    /// The drivers that it may sign: names, or beginnings such as `acme-*`.
    pub names: Vec<String>,
    /// Who listed it.
    pub added_by: String,
    /// When.
    pub added_at: OffsetDateTime,
    /// When it was revoked, if it was.
    pub revoked_at: Option<OffsetDateTime>,
}

/// A cartridge to be stored.
#[derive(Debug)]
pub struct NewCartridge<'a> {
    /// SHA-256 of the component.
    pub digest: [u8; 32],
    /// The manifest's name.
    pub name: &'a str,
    /// The manifest's version.
    pub version: &'a str,
    /// The bytes.
    pub component: &'a [u8],
    /// What it says about itself.
    pub manifest: &'a Value,
    /// The signature file, if anybody signed.
    pub signature: Option<&'a str>,
    /// Who pushed it.
    pub pushed_by: &'a str,
    /// When.
    pub pushed_at: OffsetDateTime,
}

/// A stored cartridge, without its bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct CartridgeRecord {
    /// SHA-256 of the component.
    pub digest: [u8; 32],
    /// The manifest's name.
    pub name: String,
    /// The manifest's version.
    pub version: String,
    /// What it says about itself.
    pub manifest: Value,
    /// The signature file, if anybody signed.
    pub signature: Option<String>,
    /// Bytes of the component.
    pub size: i64,
    /// Who pushed it.
    pub pushed_by: String,
    /// When.
    pub pushed_at: OffsetDateTime,
}

/// A cartridge that is mounted.
#[derive(Debug, Clone, PartialEq)]
pub struct MountRecord {
    /// Counts up; of two mounts of a name the later one is meant by the bare name.
    pub id: i64,
    /// What is mounted.
    pub cartridge: CartridgeRecord,
    /// The operator's limits for it.
    pub limits: Value,
    /// Who mounted it.
    pub mounted_by: String,
    /// When.
    pub mounted_at: OffsetDateTime,
    /// Why it does not serve, if it is in quarantine.
    pub quarantine: Option<String>,
}

impl Store {
    /// How often the registry has changed.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn registry_revision(&self) -> Result<i64, StoreError> {
        let row = sqlx::query("select revision from driver_registry")
            .fetch_one(self.pool())
            .await?;
        Ok(row.try_get("revision")?)
    }

    /// Every vendor's key, revoked ones too, oldest first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn vendor_key_list(&self) -> Result<Vec<VendorKeyRecord>, StoreError> {
        let rows = sqlx::query("select * from vendor_keys order by added_at, id")
            .fetch_all(self.pool())
            .await?;
        rows.iter().map(read_vendor_key).collect()
    }

    /// Every cartridge, by name, then newest first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn cartridge_list(&self) -> Result<Vec<CartridgeRecord>, StoreError> {
        let rows = sqlx::query(
            "select digest, name, version, manifest, signature, octet_length(component)::bigint as size,
                    pushed_by, pushed_at
               from cartridges order by name, pushed_at desc",
        )
        .fetch_all(self.pool())
        .await?;
        rows.iter().map(read_cartridge).collect()
    }

    /// The bytes of a cartridge.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn cartridge_component(
        &self,
        digest: &[u8; 32],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let row = sqlx::query("select component from cartridges where digest = $1")
            .bind(digest.as_slice())
            .fetch_optional(self.pool())
            .await?;
        row.map(|row| Ok(row.try_get("component")?)).transpose()
    }

    /// What is mounted, the latest first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn mount_list(&self) -> Result<Vec<MountRecord>, StoreError> {
        let rows = sqlx::query(
            "select m.id, m.limits, m.mounted_by, m.mounted_at, m.quarantine_reason,
                    c.digest, c.name, c.version, c.manifest, c.signature,
                    octet_length(c.component)::bigint as size, c.pushed_by, c.pushed_at
               from mounts m join cartridges c using (digest)
              where m.ended_at is null order by m.id desc",
        )
        .fetch_all(self.pool())
        .await?;
        let read = |row: &PgRow| {
            Ok(MountRecord {
                id: row.try_get("id")?,
                cartridge: read_cartridge(row)?,
                limits: row.try_get("limits")?,
                mounted_by: row.try_get("mounted_by")?,
                mounted_at: row.try_get("mounted_at")?,
                quarantine: row.try_get("quarantine_reason")?,
            })
        };
        rows.iter().map(read).collect()
    }
}

impl Transaction<'_> {
    /// Tells every kernel to look at the registry once this transaction is committed.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn registry_changed(&mut self) -> Result<(), StoreError> {
        sqlx::query("update driver_registry set revision = revision + 1")
            .execute(self.connection())
            .await?;
        sqlx::query("select pg_notify($1, '')")
            .bind(CHANGED)
            .execute(self.connection())
            .await?;
        Ok(())
    }

    /// Lists a vendor's key. False when it is listed already.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn vendor_key_insert(&mut self, key: &VendorKeyRecord) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "insert into vendor_keys (id, vendor, public_key, names, added_by, added_at)
             values ($1, $2, $3, $4, $5, $6) on conflict (id) do nothing",
        )
        .bind(&key.id)
        .bind(&key.vendor)
        .bind(&key.public_key)
        .bind(&key.names)
        .bind(&key.added_by)
        .bind(key.added_at)
        .execute(self.connection())
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Revokes a vendor's key. Revoking it again changes nothing. Nothing when it is
    /// not listed.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn vendor_key_revoke(
        &mut self,
        id: &str,
        now: OffsetDateTime,
    ) -> Result<Option<VendorKeyRecord>, StoreError> {
        let row = sqlx::query(
            "update vendor_keys set revoked_at = coalesce(revoked_at, $2) where id = $1 returning *",
        )
        .bind(id)
        .bind(now)
        .fetch_optional(self.connection())
        .await?;
        row.as_ref().map(read_vendor_key).transpose()
    }

    /// Stores a cartridge. False when these bytes are stored already.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when the version is there with other bytes.
    pub async fn cartridge_insert(&mut self, new: &NewCartridge<'_>) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "insert into cartridges
                    (digest, name, version, component, manifest, signature, pushed_by, pushed_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (digest) do nothing",
        )
        .bind(new.digest.as_slice())
        .bind(new.name)
        .bind(new.version)
        .bind(new.component)
        .bind(new.manifest)
        .bind(new.signature)
        .bind(new.pushed_by)
        .bind(new.pushed_at)
        .execute(self.connection())
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Mounts a cartridge, or mounts it anew as the latest of its name.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn mount_open(
        &mut self,
        digest: &[u8; 32],
        limits: &Value,
        by: &str,
        now: OffsetDateTime,
    ) -> Result<i64, StoreError> {
        sqlx::query(
            "update mounts set ended_at = $2, ended_because = 'mounted anew'
              where digest = $1 and ended_at is null",
        )
        .bind(digest.as_slice())
        .bind(now)
        .execute(self.connection())
        .await?;
        let row = sqlx::query(
            "insert into mounts (digest, name, limits, mounted_by, mounted_at)
             select digest, name, $2, $3, $4 from cartridges where digest = $1 returning id",
        )
        .bind(digest.as_slice())
        .bind(limits)
        .bind(by)
        .bind(now)
        .fetch_one(self.connection())
        .await?;
        Ok(row.try_get("id")?)
    }

    /// Ends a mount. False when it had ended.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn mount_end(
        &mut self,
        id: i64,
        because: &str,
        now: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "update mounts set ended_at = $3, ended_because = $2
              where id = $1 and ended_at is null",
        )
        .bind(id)
        .bind(because)
        .bind(now)
        .execute(self.connection())
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Takes a mount out of service, or (`None`) back into it. False when it had ended
    /// or was so already.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn mount_quarantine(
        &mut self,
        id: i64,
        reason: Option<&str>,
        now: OffsetDateTime,
    ) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "update mounts set quarantine_reason = $2,
                    quarantined_at = case when $2::text is null then null else $3 end
              where id = $1 and ended_at is null and (quarantined_at is null) = ($2::text is not null)",
        )
        .bind(id)
        .bind(reason)
        .bind(now)
        .execute(self.connection())
        .await?;
        Ok(done.rows_affected() == 1)
    }
}

fn read_vendor_key(row: &PgRow) -> Result<VendorKeyRecord, StoreError> {
    Ok(VendorKeyRecord {
        id: row.try_get("id")?,
        vendor: row.try_get("vendor")?,
        public_key: row.try_get("public_key")?,
        names: row.try_get("names")?,
        added_by: row.try_get("added_by")?,
        added_at: row.try_get("added_at")?,
        revoked_at: row.try_get("revoked_at")?,
    })
}

fn read_cartridge(row: &PgRow) -> Result<CartridgeRecord, StoreError> {
    let digest: Vec<u8> = row.try_get("digest")?;
    Ok(CartridgeRecord {
        digest: <[u8; 32]>::try_from(digest)
            .map_err(|_| StoreError::Corrupt("a digest is not of 32 bytes".to_owned()))?,
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        manifest: row.try_get("manifest")?,
        signature: row.try_get("signature")?,
        size: row.try_get("size")?,
        pushed_by: row.try_get("pushed_by")?,
        pushed_at: row.try_get("pushed_at")?,
    })
}
