//! Writes that are not waited for: queued with a ticket, and run by a job. The job's end, its
//! memories and their audit row are one transaction, so a try that is repeated stores
//! nothing twice.

use std::sync::{Arc, Weak};
use std::time::Duration;

use halofy_audit::Detail;
use halofy_core::{EffectivePolicy, Identity, JobId, JobKind, MemoryId, Namespace};
use halofy_store::{Job, NewJob};
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use ulid::Ulid;

use super::{Draft, NoAllowance, Rider};
use crate::Refusal;
use crate::audit::{Ending, Trail};
use crate::body::WriteRequest;
use crate::breaker::jitter;
use crate::clock::{now, read_moment};
use crate::conflicts::Unchecked;
use crate::gate::{Done, Gate, Recorded};
use crate::jobs::{Again, Finished, Handlers, JobFailure, MAX_ATTEMPTS, Run};
use crate::model::ModelError;
use crate::prologue::Authorized;

/// How soon a job of a suspended namespace is looked at again.
const SUSPENDED: Duration = Duration::from_secs(30);
/// How long a check waits for its namespace to have something left to spend.
const LONGEST_BROKE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Over so long the checks of a new day are spread.
const DAWN: Duration = Duration::from_secs(300);

impl Gate {
    /// Queues a write whose request was checked.
    pub(super) async fn defer(
        &self,
        caller: &Authorized,
        request: &WriteRequest,
        trail: &mut Trail,
    ) -> Result<Done, Refusal> {
        let identity = caller.identity();
        let id = JobId::new(Ulid::generate());
        let source = request.provenance.reference.as_deref();
        // By the clock of the kernel that was told, as for a write that is waited for.
        let told_at = now().format(&Rfc3339).ok();
        let payload = json!({ "request": request, "source": source, "toldAt": told_at });
        let new = NewJob {
            id,
            kind: JobKind::Write,
            namespace: &identity.namespace,
            actor: identity.actor.as_str(),
            key: Some(&identity.key),
            payload: &payload,
            max_attempts: MAX_ATTEMPTS,
        };
        let answer = json!({ "ticket": id, "state": "queued" });
        let mut tx = self.store.begin().await?;
        // The ticket is the answer; what the job comes to is asked for with it.
        caller.claim(&mut tx, Some(&id)).await?;
        tx.job_insert(&new).await?;
        trail.memory(id);
        let detail = Detail::new().field("queued", 1);
        tx.audit_insert(&trail.seal(&Ending::ok(detail))).await?;
        caller.answered(&mut tx, &answer, &[]).await?;
        tx.commit().await?;
        self.jobs.queued();
        let recorded = Recorded::WithWork;
        Ok(Done { answer, recorded })
    }

    async fn write_deferred(&self, run: &Run) -> Result<Finished, JobFailure> {
        let job = &run.job;
        let request: WriteRequest = serde_json::from_value(job.payload["request"].clone())
            .map_err(|error| never("malformed", error.to_string()))?;
        let identity = self.identity_of(job).await?;
        let draft = Draft::of(&request, identity.role).map_err(Refusal::from)?;
        let policy = self.policy_of(&identity.namespace).await?;
        let told_at = job.payload["toldAt"].as_str().and_then(read_moment);
        let told_at = told_at.unwrap_or(job.created_at);
        let mut trail = Trail::job("write", &identity);
        let rider = Rider::Job(run);
        let draft = Arc::new(draft);
        let written = self
            .remember(&identity, &policy, draft, told_at, &mut trail, rider)
            .await;
        written?;
        Ok(Finished::Already)
    }

    async fn conflict_deferred(&self, run: &Run) -> Result<Finished, JobFailure> {
        let job = &run.job;
        let id = job.payload["memory"].as_str().unwrap_or_default();
        let id = MemoryId::parse(id).map_err(|error| never("malformed", error.to_string()))?;
        let policy = self.policy_of(&job.namespace).await?;
        let checked = self.check_conflicts(run, &policy, &id).await;
        let checked = checked.map_err(|unchecked| unchecked_failure(unchecked, job))?;
        let result = json!({ "compared": checked.compared, "decided": checked.decided });
        Ok(Finished::With(result))
    }

    /// Who asked for a job. A key that was revoked since was good when it asked.
    async fn identity_of(&self, job: &Job) -> Result<Identity, JobFailure> {
        let key = job.key.as_ref();
        let key = key.ok_or_else(|| never("malformed", "the job has no key".to_owned()))?;
        let record = self.store.key_read(key).await?;
        let record = record.ok_or_else(|| never("no_key", "its key is gone".to_owned()))?;
        Ok(record.identity)
    }

    /// The policy that a job runs under. While its namespace is suspended it waits, as calls
    /// are refused.
    async fn policy_of(&self, namespace: &Namespace) -> Result<EffectivePolicy, JobFailure> {
        let chain = self.store.policy_chain(namespace).await?;
        let policy = EffectivePolicy::combine(chain.iter().map(|record| &record.policy));
        if policy.suspended {
            let refusal = Refusal::Suspended;
            return Err(JobFailure {
                again: Again::Postponed(SUSPENDED),
                reason: refusal.code(),
                why: refusal.to_string(),
            });
        }
        Ok(policy)
    }
}

/// Who runs which jobs. The gate is held weakly: closing it waits for the last reference.
pub(crate) fn handlers(gate: &Arc<Gate>) -> Handlers {
    let (writes, conflicts) = (Arc::downgrade(gate), Arc::downgrade(gate));
    Handlers::default()
        .on(JobKind::Write, move |run: Run| {
            let gate = writes.clone();
            async move { alive(&gate)?.write_deferred(&run).await }
        })
        .on(JobKind::Conflict, move |run: Run| {
            let gate = conflicts.clone();
            async move { alive(&gate)?.conflict_deferred(&run).await }
        })
}

/// What becomes of a check that did not come to its end. An outage of the model or a spent
/// budget is no fault of the check, and must not end it.
fn unchecked_failure(unchecked: Unchecked, job: &Job) -> JobFailure {
    let (again, reason) = match unchecked {
        Unchecked::Refused(refusal) => return refusal.into(),
        Unchecked::Model(error) => {
            let again = match &error {
                ModelError::CircuitOpen { retry_after } => Again::Postponed(*retry_after),
                error if error.is_outage() => Again::Patiently,
                _ => Again::Soon,
            };
            (again, error.reason())
        }
        Unchecked::NoAllowance(none) => {
            let now = OffsetDateTime::now_utc();
            let again = match none {
                NoAllowance::Unknown => Again::Soon,
                _ if now - job.created_at > LONGEST_BROKE => Again::Never,
                _ => Again::Postponed(until_tomorrow(now) + DAWN.mul_f64(jitter())),
            };
            (again, none.reason())
        }
        Unchecked::GivenUp => (Again::Soon, "stopping"),
        Unchecked::Raced => (Again::Soon, "raced"),
    };
    JobFailure {
        again,
        reason,
        why: "the model did not compare it".to_owned(),
    }
}

/// Until the next day begins (UTC).
fn until_tomorrow(now: OffsetDateTime) -> Duration {
    let day = Duration::from_secs(24 * 60 * 60);
    day.saturating_sub((now - now.replace_time(time::Time::MIDNIGHT)).unsigned_abs())
}

fn alive(gate: &Weak<Gate>) -> Result<Arc<Gate>, JobFailure> {
    gate.upgrade().ok_or_else(|| JobFailure {
        again: Again::Soon,
        reason: "stopping",
        why: "the kernel stops".to_owned(),
    })
}

fn never(reason: &'static str, why: String) -> JobFailure {
    JobFailure {
        again: Again::Never,
        reason,
        why,
    }
}
