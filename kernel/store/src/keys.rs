//! Keys: from a hash to an identity and its policies; creating, listing, revoking.
//!
//! Not here: key material. The store sees SHA-256 hashes only.

use halofy_core::{Actor, Identity, KeyId, Namespace, Policy, Role};
use sqlx::Row;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use time::OffsetDateTime;

use crate::scope::{in_subtree, subtree_pattern};
use crate::{Store, StoreError, Transaction};

/// A key to be stored.
#[derive(Debug)]
pub struct NewKey<'a> {
    /// Whom it stands for.
    pub identity: &'a Identity,
    /// SHA-256 of the key.
    pub hash: [u8; 32],
    /// The first characters of the key.
    pub hint: &'a str,
    /// When it was made.
    pub created_at: OffsetDateTime,
    /// When it stops working, if ever.
    pub expires_at: Option<OffsetDateTime>,
}

/// A stored key, as an operator sees it.
#[derive(Debug, Clone)]
pub struct KeyRecord {
    /// Whom it stands for.
    pub identity: Identity,
    /// The first characters of the key.
    pub hint: String,
    /// When it was made.
    pub created_at: OffsetDateTime,
    /// When it stops working, if ever.
    pub expires_at: Option<OffsetDateTime>,
    /// When it was revoked, if it was.
    pub revoked_at: Option<OffsetDateTime>,
}

/// What a key's hash leads to.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The key.
    pub key: KeyRecord,
    /// The policies of its namespace and its ancestors, root first.
    pub policies: Vec<Policy>,
}

impl Store {
    /// The key with this hash, and the policies that hold for it, in one round
    /// trip: every syscall begins with it.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when a policy cannot be read: a decision that
    /// cannot be made is not a permit.
    pub async fn key_resolve(&self, hash: &[u8; 32]) -> Result<Option<Resolved>, StoreError> {
        let row = sqlx::query(
            "select k.id, k.namespace, k.actor, k.role, k.groups, k.hint,
                    k.created_at, k.expires_at, k.revoked_at,
                    array(select latest.doc
                            from (select distinct on (p.namespace) p.namespace, p.doc
                                    from policies p
                                   where p.namespace = any(array(
                                         select array_to_string(path.parts[1:n], '/')
                                           from generate_series(1, cardinality(path.parts)) n))
                                   order by p.namespace, p.version desc) latest
                           order by length(latest.namespace)) as policies
               from api_keys k,
                    lateral (select string_to_array(k.namespace, '/') as parts) path
              where k.key_hash = $1",
        )
        .bind(hash.as_slice())
        .fetch_optional(self.pool())
        .await?;
        let Some(row) = row else { return Ok(None) };
        let policies: Vec<Json<Policy>> = row.try_get("policies")?;
        Ok(Some(Resolved {
            key: read_key(&row)?,
            policies: policies.into_iter().map(|doc| doc.0).collect(),
        }))
    }

    /// The key with this public name.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn key_read(&self, id: &KeyId) -> Result<Option<KeyRecord>, StoreError> {
        let row = sqlx::query(
            "select id, namespace, actor, role, groups, hint, created_at, expires_at, revoked_at
               from api_keys where id = $1",
        )
        .bind(&id.0)
        .fetch_optional(self.pool())
        .await?;
        row.as_ref().map(read_key).transpose()
    }

    /// Every key, or those of a subtree, oldest first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn key_list(&self, under: Option<&Namespace>) -> Result<Vec<KeyRecord>, StoreError> {
        let rows = match under {
            Some(namespace) => {
                sqlx::query(concat!(
                    "select id, namespace, actor, role, groups, hint,
                            created_at, expires_at, revoked_at
                       from api_keys where ",
                    in_subtree!(),
                    " order by created_at, id"
                ))
                .bind(namespace.as_str())
                .bind(subtree_pattern(namespace))
                .fetch_all(self.pool())
                .await?
            }
            None => {
                sqlx::query(
                    "select id, namespace, actor, role, groups, hint,
                            created_at, expires_at, revoked_at
                       from api_keys order by created_at, id",
                )
                .fetch_all(self.pool())
                .await?
            }
        };
        rows.iter().map(read_key).collect()
    }
}

impl Transaction<'_> {
    /// Stores a key.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn key_insert(&mut self, key: &NewKey<'_>) -> Result<(), StoreError> {
        sqlx::query(
            "insert into api_keys
                    (id, key_hash, hint, namespace, actor, role, groups, created_at, expires_at)
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        )
        .bind(&key.identity.key.0)
        .bind(key.hash.as_slice())
        .bind(key.hint)
        .bind(key.identity.namespace.as_str())
        .bind(key.identity.actor.as_str())
        .bind(key.identity.role.as_str())
        .bind(&key.identity.groups)
        .bind(key.created_at)
        .bind(key.expires_at)
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// Revokes a key. Revoking it again changes nothing.
    ///
    /// Returns the key as it is now, or nothing when there is no such key.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn key_revoke(
        &mut self,
        id: &KeyId,
        now: OffsetDateTime,
    ) -> Result<Option<KeyRecord>, StoreError> {
        let row = sqlx::query(
            "update api_keys set revoked_at = coalesce(revoked_at, $2) where id = $1
             returning id, namespace, actor, role, groups, hint,
                            created_at, expires_at, revoked_at",
        )
        .bind(&id.0)
        .bind(now)
        .fetch_optional(self.connection())
        .await?;
        row.as_ref().map(read_key).transpose()
    }
}

fn read_key(row: &PgRow) -> Result<KeyRecord, StoreError> {
    let text = |column: &str| row.try_get::<String, _>(column);
    let damaged = |error: halofy_core::Invalid| StoreError::Corrupt(error.to_string());
    Ok(KeyRecord {
        identity: Identity {
            key: KeyId(text("id")?),
            namespace: Namespace::parse(&text("namespace")?).map_err(damaged)?,
            actor: Actor::parse(&text("actor")?).map_err(damaged)?,
            role: text("role")?.parse::<Role>().map_err(damaged)?,
            groups: row.try_get("groups")?,
        },
        hint: text("hint")?,
        created_at: row.try_get("created_at")?,
        expires_at: row.try_get("expires_at")?,
        revoked_at: row.try_get("revoked_at")?,
    })
}
