//! What every call passes before its body runs: key, role, policy, tenant, rate.

use halofy_core::{EffectivePolicy, Identity, Op};
use halofy_store::IdempotencyClaim;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::Refusal;
use crate::audit::Trail;
use crate::gate::{Call, Gate};

/// A caller that may make this call, and the policy that it runs under. Only
/// [`Gate::authorize`] makes one, and a syscall's body takes nothing less.
#[derive(Debug)]
pub(crate) struct Authorized {
    identity: Identity,
    policy: EffectivePolicy,
    claim: Option<IdempotencyClaim>,
}

impl Authorized {
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(crate) fn policy(&self) -> &EffectivePolicy {
        &self.policy
    }

    /// The name under which this call is made at most once, if it has one.
    pub(crate) fn idempotency(&self) -> Option<&IdempotencyClaim> {
        self.claim.as_ref()
    }

    pub(crate) fn claiming(self, claim: IdempotencyClaim) -> Self {
        let claim = Some(claim);
        Self { claim, ..self }
    }
}

impl Gate {
    /// Resolves the key and decides. The order is part of the contract: role,
    /// policy, tenant, rate; a call that names an identity is refused first.
    pub(crate) async fn authorize(
        &self,
        call: &Call,
        trail: &mut Trail,
    ) -> Result<Authorized, Refusal> {
        let key = call
            .key
            .as_deref()
            .ok_or(Refusal::Unauthenticated { why: "no key" })?;
        let hash: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        let resolved = self.store.key_resolve(&hash).await?;
        let resolved = resolved.ok_or(Refusal::Unauthenticated { why: "unknown key" })?;
        let identity = resolved.key.identity;
        trail.identify(&identity);
        if resolved.key.revoked_at.is_some() {
            return Err(Refusal::Unauthenticated { why: "revoked key" });
        }
        let now = OffsetDateTime::now_utc();
        if resolved.key.expires_at.is_some_and(|at| at <= now) {
            return Err(Refusal::Unauthenticated { why: "expired key" });
        }
        let policy = EffectivePolicy::combine(&resolved.policies);
        self.admit(call.op, &identity, &policy)?;
        if let Some(claim) = &call.claim {
            let name = claim.0.clone();
            return Err(Refusal::IdentityClaimed { name });
        }
        Ok(Authorized {
            identity,
            policy,
            claim: None,
        })
    }

    fn admit(&self, op: Op, identity: &Identity, policy: &EffectivePolicy) -> Result<(), Refusal> {
        if !identity.role.may(op) {
            let role = identity.role;
            return Err(Refusal::RoleForbids { role, op });
        }
        if policy.suspended {
            return Err(Refusal::Suspended);
        }
        let taken = self.limiter.take(&identity.key, policy.rate_limit);
        taken.map_err(|retry_after| Refusal::RateLimited { retry_after })
    }
}
