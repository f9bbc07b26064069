//! What an operator does on the kernel's own machine: keys, policies, drivers,
//! the audit log. Whoever can open the store or its control socket is one.
//!
//! Every change has an audit row in its own transaction, actor `operator`.

use halofy_audit::{Detail, Record, Report, StoredRow, Verifier};
use halofy_core::{
    ConflictReview, EffectivePolicy, Identity, Invalid, KeyId, Namespace, Policy, Routing,
};
use halofy_store::{AuditFilter, KeyRecord, NewKey, PolicyRecord};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::audit::{Ending, OPERATOR, RESERVED_ACTORS, Trail, UNKNOWN};
use crate::drivers::{DriverSummary, unserved};
use crate::gate::Gate;
use crate::keys::{Key, NewKeyRequest, check_expiry, check_groups, new_id};
use crate::{Refusal, sequencer};

const PAGE: usize = 2_000;
const MAX_TAIL: usize = 10_000;

/// A key without its secret.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeySummary {
    /// Its public name.
    pub id: String,
    /// The first characters of the key.
    pub hint: String,
    /// Where its holder lives.
    pub namespace: String,
    /// Whom the audit log names.
    pub actor: String,
    /// What it may do.
    pub role: String,
    /// Groups that it belongs to.
    #[serde(default)]
    pub groups: Vec<String>,
    /// `active`, `expired` or `revoked`.
    pub status: String,
    /// When it was made.
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When it stops working, if ever.
    #[serde(with = "time::serde::rfc3339::option")]
    pub expires_at: Option<OffsetDateTime>,
    /// When it was revoked, if it was.
    #[serde(with = "time::serde::rfc3339::option")]
    pub revoked_at: Option<OffsetDateTime>,
}

impl From<KeyRecord> for KeySummary {
    fn from(key: KeyRecord) -> Self {
        let expired = key
            .expires_at
            .is_some_and(|at| at <= OffsetDateTime::now_utc());
        let status = match key.revoked_at {
            Some(_) => "revoked",
            None if expired => "expired",
            None => "active",
        };
        Self {
            id: key.identity.key.0,
            hint: key.hint,
            namespace: key.identity.namespace.to_string(),
            actor: key.identity.actor.to_string(),
            role: key.identity.role.to_string(),
            groups: key.identity.groups,
            status: status.to_owned(),
            created_at: key.created_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
        }
    }
}

/// A policy as it was set, and as it works with those above it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyView {
    /// The namespace asked for.
    pub namespace: String,
    /// Its own policy's version; absent when it has none.
    pub version: Option<i32>,
    /// Its own policy.
    pub policy: Option<Policy>,
    /// What holds, ancestors included.
    pub effective: EffectivePolicyView,
    /// Drivers that the policy names and that are not mounted.
    pub unmounted: Vec<String>,
}

/// What holds for a namespace.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectivePolicyView {
    /// `baseline`, or `a/b 25%`.
    pub retriever: String,
    /// Tokens of a search that names none.
    pub token_budget: u32,
    /// Requests a second, sustained, of each key.
    pub requests_per_second: u32,
    /// Requests at once.
    pub burst: u32,
    /// Whether calls are refused.
    pub suspended: bool,
    /// The driver that ranks beside, unserved.
    pub shadow: Option<String>,
    /// Whether a driver that nobody signed may serve.
    pub allow_unsigned: bool,
    /// What becomes of facts that contradict each other.
    pub conflict_review: ConflictReview,
    /// Whether extracted facts are verified.
    pub verifier: bool,
    /// Tokens of the language model a day.
    pub model_tokens_per_day: Option<u64>,
    /// The region that content may be sent to.
    pub data_region: Option<String>,
}

impl From<&EffectivePolicy> for EffectivePolicyView {
    fn from(policy: &EffectivePolicy) -> Self {
        let retriever = match &policy.routing {
            Routing::One(name) => name.to_string(),
            Routing::Split(test) => format!("{} / {} {}%", test.a, test.b, test.pct_b),
        };
        Self {
            retriever,
            token_budget: policy.token_budget,
            requests_per_second: policy.rate_limit.per_second,
            burst: policy.rate_limit.burst,
            suspended: policy.suspended,
            shadow: policy.shadow.as_ref().map(ToString::to_string),
            allow_unsigned: policy.allow_unsigned,
            conflict_review: policy.conflict_review,
            verifier: policy.verifier,
            model_tokens_per_day: policy.model_tokens_per_day,
            data_region: policy.data_region.clone(),
        }
    }
}

/// How a policy is set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PolicySet {
    /// Although a driver that it names would not serve.
    #[serde(default)]
    pub force: bool,
    /// Fields that are not given are cleared, and not kept.
    #[serde(default)]
    pub replace: bool,
}

/// Which audit rows to show.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditTail {
    /// The newest so many.
    pub limit: usize,
    /// Only a namespace and what lies below it.
    pub under: Option<Namespace>,
}

/// What verification found.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditVerification {
    /// The verifier's report.
    #[serde(flatten)]
    pub report: Report,
}

impl Gate {
    /// Makes a key. The plain key is in the answer and nowhere else.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] for an expiry in the past.
    pub async fn key_create(&self, request: &NewKeyRequest) -> Result<(Key, KeySummary), Refusal> {
        let now = OffsetDateTime::now_utc();
        check_expiry(request.expires_at, now)?;
        check_groups(&request.groups)?;
        if request.namespace.as_str() == UNKNOWN {
            let problem = "is where the audit log puts calls by nobody known; choose another";
            return Err(Invalid::new("namespace", problem).into());
        }
        if RESERVED_ACTORS.contains(&request.actor.as_str()) {
            let problem =
                "stands for the kernel itself in the audit log; choose another, such as user:dana";
            return Err(Invalid::new("actor", problem).into());
        }
        let key = Key::generate()?;
        let identity = Identity {
            key: new_id(),
            namespace: request.namespace.clone(),
            actor: request.actor.clone(),
            role: request.role,
            groups: request.groups.clone(),
        };
        let new = NewKey {
            identity: &identity,
            hash: key.hash(),
            hint: key.hint(),
            created_at: now,
            expires_at: request.expires_at,
        };
        let detail = Detail::new()
            .field("key", &identity.key)
            .field("role", identity.role)
            .field("for", &identity.actor);
        let row =
            Trail::operator("key_create", identity.namespace.as_str()).seal(&Ending::ok(detail));
        let mut tx = self.store.begin().await?;
        tx.key_insert(&new).await?;
        tx.audit_insert(&row).await?;
        tx.commit().await?;
        self.wake.notify();
        let record = KeyRecord {
            hint: new.hint.to_owned(),
            created_at: now,
            expires_at: request.expires_at,
            revoked_at: None,
            identity,
        };
        Ok((key, record.into()))
    }

    /// Every key, or those of a subtree.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn key_list(&self, under: Option<&Namespace>) -> Result<Vec<KeySummary>, Refusal> {
        let keys = self.store.key_list(under).await?;
        Ok(keys.into_iter().map(KeySummary::from).collect())
    }

    /// Revokes a key: the next call with it is refused.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] when there is no such key.
    pub async fn key_revoke(&self, id: &str) -> Result<KeySummary, Refusal> {
        let id = KeyId(id.to_owned());
        let mut tx = self.store.begin().await?;
        let revoked = tx.key_revoke(&id, OffsetDateTime::now_utc()).await?;
        let record = revoked.ok_or(Refusal::NotFound { hidden: false })?;
        let detail = Detail::new().field("key", &id);
        let trail = Trail::operator("key_revoke", record.identity.namespace.as_str());
        tx.audit_insert(&trail.seal(&Ending::ok(detail))).await?;
        tx.commit().await?;
        self.wake.notify();
        Ok(record.into())
    }

    /// A namespace's policy and what holds there.
    ///
    /// # Errors
    /// [`Refusal::NotFound`] when neither a key nor a policy knows the namespace.
    pub async fn policy_get(&self, namespace: &Namespace) -> Result<PolicyView, Refusal> {
        let chain = self.store.policy_chain(namespace).await?;
        let known = chain.iter().any(|record| record.namespace == *namespace);
        if !known && self.store.key_list(Some(namespace)).await?.is_empty() {
            return Err(Refusal::NotFound { hidden: false });
        }
        Ok(self.policy_view(namespace, &chain))
    }

    /// Sets what a namespace's policy says, and keeps the rest of it unless told to
    /// replace it. A driver that would not serve is refused, unless forced: the baseline
    /// would serve in its place.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] naming the field.
    pub async fn policy_set(
        &self,
        namespace: &Namespace,
        policy: &Policy,
        how: PolicySet,
    ) -> Result<PolicyView, Refusal> {
        let policy = &match how.replace {
            true => policy.clone(),
            false => self.policy_own(namespace).await?.overlaid(policy.clone()),
        };
        policy.check()?;
        let chain = self.store.policy_chain(namespace).await?;
        let above = chain.iter().filter(|record| record.namespace != *namespace);
        let above = above.map(|record| &record.policy);
        let effective = EffectivePolicy::combine(above.chain([policy]));
        let unmounted = unserved(&self.registry, policy, effective.allow_unsigned);
        if let (false, Some((driver, reason))) = (how.force, unmounted.first()) {
            let problem = format!(
                "{driver} would not serve ({reason}); see halofy drivers list, \
                 or set the policy with --force"
            );
            return Err(Invalid::new("driver", problem).into());
        }
        let now = OffsetDateTime::now_utc();
        let mut tx = self.store.begin().await?;
        let version = tx.policy_insert(namespace, policy, OPERATOR, now).await?;
        let detail = Detail::new()
            .field("version", version)
            .field("unmounted", unmounted.len());
        let trail = Trail::operator("policy_set", namespace.as_str());
        tx.audit_insert(&trail.seal(&Ending::ok(detail))).await?;
        tx.registry_changed().await?;
        tx.commit().await?;
        self.wake.notify();
        self.mounts.refresh().await?;
        let chain = self.store.policy_chain(namespace).await?;
        Ok(self.policy_view(namespace, &chain))
    }

    /// The drivers that are mounted, whether they serve or not.
    pub fn driver_list(&self) -> Vec<DriverSummary> {
        self.registry.list()
    }

    /// The newest audit rows, oldest of them first.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn audit_tail(&self, tail: &AuditTail) -> Result<Vec<Record>, Refusal> {
        let filter = AuditFilter {
            under: tail.under.clone(),
            limit: tail.limit.min(MAX_TAIL),
        };
        Ok(self.store.audit_tail(&filter).await?)
    }

    /// Chains what can be chained, then verifies every row from the first.
    ///
    /// # Errors
    /// See [`Refusal`]. A broken chain is no error: the report says so.
    pub async fn audit_verify(&self) -> Result<AuditVerification, Refusal> {
        // A chain that was tampered with may not let itself be extended: that is what
        // the report is for. A store that is down fails the reads below.
        if let Err(error) = sequencer::drain(&self.store).await {
            tracing::warn!(%error, "audit rows wait to be chained");
        }
        let mut verifier = Verifier::new();
        let mut after = None;
        loop {
            let rows = self.store.audit_page(after, PAGE).await?;
            let Some(StoredRow {
                entry: Some(last), ..
            }) = rows.last()
            else {
                break;
            };
            after = Some(last.index);
            push_all(&mut verifier, &rows);
        }
        let mut after = None;
        loop {
            let rows = self.store.audit_pending(after, PAGE).await?;
            let Some(StoredRow {
                record: Some(last), ..
            }) = rows.last()
            else {
                break;
            };
            after = Some(last.seq);
            push_all(&mut verifier, &rows);
        }
        let report = verifier.finish();
        Ok(AuditVerification { report })
    }

    /// Notes an operator's command that was refused.
    ///
    /// # Errors
    /// When the log does not take it.
    pub async fn refused_command(
        &self,
        op: &'static str,
        refusal: &Refusal,
    ) -> Result<(), Refusal> {
        self.record_refusal(op, refusal, refusal.detail()).await
    }

    async fn policy_own(&self, namespace: &Namespace) -> Result<Policy, Refusal> {
        let chain = self.store.policy_chain(namespace).await?;
        let own = chain
            .into_iter()
            .find(|record| record.namespace == *namespace);
        Ok(own.map(|record| record.policy).unwrap_or_default())
    }

    fn policy_view(&self, namespace: &Namespace, chain: &[PolicyRecord]) -> PolicyView {
        let own = chain.iter().find(|record| record.namespace == *namespace);
        let effective = EffectivePolicy::combine(chain.iter().map(|record| &record.policy));
        PolicyView {
            namespace: namespace.to_string(),
            version: own.map(|record| record.version),
            policy: own.map(|record| record.policy.clone()),
            effective: EffectivePolicyView::from(&effective),
            unmounted: own
                .map(|record| self.unmounted(&record.policy, effective.allow_unsigned))
                .unwrap_or_default(),
        }
    }

    fn unmounted(&self, policy: &Policy, allow_unsigned: bool) -> Vec<String> {
        let unserved = unserved(&self.registry, policy, allow_unsigned).into_iter();
        unserved.map(|(driver, _)| driver).collect()
    }
}

/// The verifier keeps every fault for its report.
fn push_all(verifier: &mut Verifier, rows: &[StoredRow]) {
    for row in rows {
        if let Err(fault) = verifier.push(row) {
            tracing::warn!(%fault, "an audit row does not verify");
        }
    }
}
