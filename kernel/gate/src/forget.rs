//! `forget`: erasure, the one exception to never deleting. Within the caller's namespace and
//! what lies below it, in one transaction with the audit row: memories and their vectors,
//! decisions about them, entities that nothing is left of, jobs that would bring them back,
//! answers that are kept for repeated calls.
//!
//! Not here: certificates. The audit log is never touched.

use halofy_audit::Detail;
use halofy_core::{MemoryId, Namespace};
use halofy_store::{AnswersOf, ErasureTarget, JobRecord, JobsOf, Transaction};
use serde_json::json;

use crate::Refusal;
use crate::audit::{Ending, Trail};
use crate::body::ForgetRequest;
use crate::clock::now;
use crate::gate::{Done, Gate, Recorded};
use crate::jobs::Ended;
use crate::prologue::Authorized;

impl Gate {
    pub(crate) async fn forget(
        &self,
        caller: &Authorized,
        request: &ForgetRequest,
        trail: &mut Trail,
    ) -> Result<Done, Refusal> {
        let own = &caller.identity().namespace;
        let target = request.target(own)?;
        if let ErasureTarget::Memory(id) = target {
            trail.memory(id);
        }
        let mut tx = self.store.begin().await?;
        caller.claim(&mut tx, None).await?;
        tx.erasure_note(own, &target).await?;
        // First, so that what a job commits meanwhile is seen below, and nothing later.
        let mut stopped = stop_writes(&mut tx, own, &target).await?;
        let doomed = tx.memory_doomed(own, &target).await?;
        if let (ErasureTarget::Memory(id), true) = (&target, doomed.is_empty()) {
            let hidden = tx.memory_exists(id).await?;
            return Err(Refusal::NotFound { hidden });
        }
        let about = tx.jobs_scrub(JobsOf::Memories(&doomed)).await?;
        stopped.extend(about);
        for job in stopped.iter().filter(|job| job.ended_by_erasure()) {
            tx.audit_insert(&Ended::of_record(job, "erased").row())
                .await?;
        }
        let answers = erase_answers(&mut tx, own, &target, &doomed).await?;
        let erased = tx.memory_erase(doomed, &trail.call(), now()).await?;
        let detail = Detail::new()
            .field("erased", erased.memories.len())
            .field("entities", erased.entities)
            .field("conflicts", erased.conflicts)
            .field("ended", erased.ended)
            .field("jobs", stopped.len())
            .field("answers", answers);
        tx.audit_insert(&trail.seal(&Ending::ok(detail))).await?;
        let answer = json!({
            "erased": erased.memories,
            "entities": erased.entities,
            "conflicts": erased.conflicts,
            "ended": erased.ended,
            "jobs": stopped.len(),
            "answers": answers,
        });
        caller.answered(&mut tx, &answer, &[]).await?;
        tx.commit().await?;
        let recorded = Recorded::WithWork;
        Ok(Done { answer, recorded })
    }
}

/// Ends the writes that wait and would bring back what is erased.
async fn stop_writes(
    tx: &mut Transaction<'_>,
    own: &Namespace,
    target: &ErasureTarget,
) -> Result<Vec<JobRecord>, Refusal> {
    let stopped = match target {
        ErasureTarget::Memory(_) => Vec::new(),
        ErasureTarget::Source(reference) => tx.jobs_scrub(JobsOf::Source(own, reference)).await?,
        ErasureTarget::Namespace(namespace) => tx.jobs_scrub(JobsOf::Subtree(namespace)).await?,
    };
    Ok(stopped)
}

/// What is kept for repeated calls and speaks of the erased.
async fn erase_answers(
    tx: &mut Transaction<'_>,
    own: &Namespace,
    target: &ErasureTarget,
    doomed: &[MemoryId],
) -> Result<u64, Refusal> {
    let of_memories = tx.idempotency_erase(AnswersOf::Memories(doomed)).await?;
    let of_target = match target {
        ErasureTarget::Namespace(namespace) => {
            tx.idempotency_erase(AnswersOf::Subtree(namespace)).await?
        }
        ErasureTarget::Source(reference) => {
            tx.idempotency_erase(AnswersOf::Source(own, reference))
                .await?
        }
        ErasureTarget::Memory(_) => 0,
    };
    Ok(of_memories + of_target)
}
