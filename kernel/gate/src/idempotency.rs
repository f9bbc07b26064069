//! Calls under an `Idempotency-Key`: made at most once, and answered the same each time.
//!
//! Invariant: the claim of a key, the effect, its audit row and the answer are one commit,
//! or are tied together by a job that finishes what its kernel did not. Only an answer is
//! kept: a refused call leaves its key free.

use std::time::Duration;

use halofy_audit::Detail;
use halofy_core::{Invalid, JobId, MemoryId, Op};
use halofy_store::{Claimed, IdempotencyClaim, IdempotencyState, Transaction};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::Refusal;
use crate::audit::{Ending, Trail};
use crate::gate::{Call, Done, Gate, Recorded};
use crate::prologue::Authorized;

const MAX_BYTES: usize = 255;
/// How long a repeated call waits for the first one.
const PATIENCE: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The name that a caller gives to one call: 1 to 255 visible ASCII characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The header that holds it.
    pub const HEADER: &'static str = "Idempotency-Key";

    /// Reads a header's value.
    ///
    /// # Errors
    /// When it is something else; names the header.
    pub fn parse(value: &[u8]) -> Result<Self, Invalid> {
        let text = std::str::from_utf8(value).ok();
        let fits = |text: &&str| {
            (1..=MAX_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
        };
        match text.filter(fits) {
            Some(text) => Ok(Self(text.to_owned())),
            None => Err(Invalid::new(
                Self::HEADER,
                "must be 1 to 255 visible ASCII characters without spaces",
            )),
        }
    }
}

impl Gate {
    /// What a call claims. Nothing for one without a key, or that changes nothing.
    pub(crate) fn claim_of(
        &self,
        call: &Call,
        caller: &Authorized,
        bytes: &[u8],
    ) -> Result<Option<IdempotencyClaim>, Refusal> {
        let Some(key) = call.idempotency.as_ref().filter(|_| call.op.mutates()) else {
            return Ok(None);
        };
        let name = key.clone()?.0;
        Ok(Some(IdempotencyClaim {
            key: caller.identity().key.clone(),
            name,
            op: call.op,
            body_hash: Sha256::digest(bytes).into(),
            call: call.id.to_string(),
        }))
    }

    /// Makes a call that claims a key, or answers what it was answered before.
    pub(crate) async fn once(
        &self,
        op: Op,
        caller: &Authorized,
        bytes: &[u8],
        trail: &mut Trail,
    ) -> Result<Done, Refusal> {
        loop {
            if let Some(claim) = caller.idempotency()
                && let Some(done) = self.replayed(claim).await?
            {
                return Ok(done);
            }
            match self.dispatch(op, caller, bytes, trail).await {
                // Another call was first with this key, and has an answer or is about to.
                Err(Refusal::IdempotencyInProgress) => {}
                outcome => return outcome,
            }
        }
    }

    async fn replayed(&self, claim: &IdempotencyClaim) -> Result<Option<Done>, Refusal> {
        let until = Instant::now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            let read = self.store.idempotency_read(&claim.key, &claim.name).await?;
            let Some(first) = read else {
                return Ok(None);
            };
            if first.op != claim.op.as_str() || first.body_hash != claim.body_hash {
                return Err(Refusal::IdempotencyConflict);
            }
            match first.state {
                IdempotencyState::Answered(answer) => {
                    let detail = Detail::new().field("replayed", first.call);
                    let recorded = Recorded::Pending(Ending::ok(detail));
                    return Ok(Some(Done { answer, recorded }));
                }
                IdempotencyState::Erased => return Err(Refusal::IdempotencyErased),
                IdempotencyState::Open if Instant::now() >= until => {
                    return Err(Refusal::IdempotencyInProgress);
                }
                IdempotencyState::Open => tokio::time::sleep(pause).await,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl Authorized {
    /// Claims the call's key, if it has one: the first statement of the transaction with its
    /// effect. A call of several transactions names the `job` that finishes it, which the
    /// same transaction stores.
    ///
    /// # Errors
    /// [`Refusal::IdempotencyInProgress`] when another call was first: the transaction must
    /// be dropped, and [`Gate::once`] finds out what that call was answered.
    pub(crate) async fn claim(
        &self,
        tx: &mut Transaction<'_>,
        job: Option<&JobId>,
    ) -> Result<(), Refusal> {
        let Some(claim) = self.idempotency() else {
            return Ok(());
        };
        match tx.idempotency_claim(claim, job).await? {
            Claimed::Ours => Ok(()),
            Claimed::Theirs => Err(Refusal::IdempotencyInProgress),
        }
    }

    /// Notes what the call tells of, if it claimed a key: its answer goes with that.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub(crate) async fn tells_of(
        &self,
        tx: &mut Transaction<'_>,
        source_ref: Option<&str>,
    ) -> Result<(), Refusal> {
        match (self.idempotency(), source_ref) {
            (Some(claim), Some(source_ref)) => Ok(tx.idempotency_source(claim, source_ref).await?),
            _ => Ok(()),
        }
    }

    /// Keeps the answer of the call, if it claimed a key, in the transaction of its effect.
    /// `memories` are those that the answer speaks of. Not for a call that a job finishes:
    /// see `jobs::finish`.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub(crate) async fn answered(
        &self,
        tx: &mut Transaction<'_>,
        answer: &Value,
        memories: &[MemoryId],
    ) -> Result<(), Refusal> {
        match self.idempotency() {
            Some(claim) => Ok(tx.idempotency_answer(claim, answer, memories).await?),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_visible_ascii_of_1_to_255_bytes() {
        for good in ["a", "\"quoted\"", &"~".repeat(255), "9b1c-!"] {
            assert!(IdempotencyKey::parse(good.as_bytes()).is_ok(), "{good}");
        }
        let long = "a".repeat(256);
        for bad in ["", " ", "a b", "a\t", "é", "a\u{7f}", &long] {
            let refused = IdempotencyKey::parse(bad.as_bytes()).expect_err(bad);
            assert_eq!(refused.field, "Idempotency-Key");
        }
        assert!(IdempotencyKey::parse(&[0xff]).is_err());
    }
}
