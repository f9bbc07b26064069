//! `ticket`: what became of a call that was not waited for, for whoever made it and for those
//! who manage the namespace: the answer quotes what was told. A ticket of somebody else, one
//! of another namespace, one of the kernel's own jobs, and one that nobody has look the same.

use halofy_audit::Detail;
use halofy_core::{Identity, JobId, JobState, Role};
use halofy_store::JobRecord;
use serde_json::{Value, json};

use crate::Refusal;
use crate::audit::{Ending, Trail};
use crate::body::TicketRequest;
use crate::gate::{Done, Gate, Recorded};
use crate::prologue::Authorized;

impl Gate {
    pub(crate) async fn ticket(
        &self,
        caller: &Authorized,
        request: &TicketRequest,
        trail: &mut Trail,
    ) -> Result<Done, Refusal> {
        let id = JobId::parse(&request.ticket)?;
        // The log's one column for what a call is about.
        trail.memory(id);
        let job = self.store.job_read(&id).await?;
        let job = job.ok_or(Refusal::NotFound { hidden: false })?;
        if !may_see(&job, caller.identity()) {
            return Err(Refusal::NotFound { hidden: true });
        }
        let detail = Detail::new().field("state", job.state);
        let answer = answer(&job);
        let recorded = Recorded::Pending(Ending::ok(detail));
        Ok(Done { answer, recorded })
    }
}

fn may_see(job: &JobRecord, caller: &Identity) -> bool {
    let manages = matches!(caller.role, Role::Admin | Role::Owner);
    let own = job.actor == caller.actor.as_str();
    job.key.is_some() && job.namespace == caller.namespace && (own || manages)
}

fn answer(job: &JobRecord) -> Value {
    let mut answer = json!({ "ticket": job.id, "state": job.state, "attempts": job.attempts });
    if let Some(result) = &job.result {
        answer["result"] = result.clone();
    }
    let failed = matches!(job.state, JobState::Dead | JobState::Cancelled);
    if let Some(error) = job
        .error
        .as_ref()
        .filter(|_| failed || job.erased_at.is_some())
    {
        answer["error"] = error.as_str().into();
    }
    answer
}
