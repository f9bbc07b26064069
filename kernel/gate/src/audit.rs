//! The audit row of one call, gathered while the call runs.

use halofy_audit::{Detail, Event, Outcome, Sealed};
use halofy_core::{AgentKind, Identity};
use time::OffsetDateTime;
use ulid::Ulid;

/// The actor of what an operator does.
pub(crate) const OPERATOR: &str = "operator";
/// The actor of what the kernel does by itself.
pub(crate) const KERNEL: &str = "kernel";
/// The actor, and the namespace, of calls by nobody known.
pub(crate) const UNKNOWN: &str = "unknown";
/// Actors that no key may be made for.
pub(crate) const RESERVED_ACTORS: [&str; 3] = [OPERATOR, KERNEL, UNKNOWN];
/// The namespace of rows that concern the kernel as a whole: no key can live there.
pub(crate) const EVERYWHERE: &str = "/";

/// Names one call: in the answer, in the kernel's own log and in the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallId(Ulid);

impl CallId {
    /// A new one. Never taken from a request.
    #[allow(clippy::new_without_default, reason = "two of them are never equal")]
    pub fn new() -> Self {
        Self(Ulid::generate())
    }
}

impl std::fmt::Display for CallId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What is known of a call so far: enough to record it, however it ends.
#[derive(Debug, Clone)]
pub(crate) struct Trail {
    call: CallId,
    op: &'static str,
    agent: AgentKind,
    actor: String,
    key_id: Option<String>,
    namespace: String,
    purpose: Option<String>,
    memory_id: Option<String>,
}

/// How a call ended.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) result: Outcome,
    pub(crate) detail: Detail,
}

impl Ending {
    pub(crate) fn ok(detail: Detail) -> Self {
        let result = Outcome::Ok;
        Self { result, detail }
    }
}

impl Trail {
    /// Of a call by nobody known.
    pub(crate) fn new(call: CallId, op: &'static str, agent: AgentKind) -> Self {
        Self {
            call,
            op,
            agent,
            actor: UNKNOWN.to_owned(),
            key_id: None,
            namespace: UNKNOWN.to_owned(),
            purpose: None,
            memory_id: None,
        }
    }

    /// Of an operator's command on a namespace.
    pub(crate) fn operator(op: &'static str, namespace: &str) -> Self {
        Self {
            actor: OPERATOR.to_owned(),
            namespace: namespace.to_owned(),
            ..Self::new(CallId::new(), op, AgentKind::Cli)
        }
    }

    /// Of something that the kernel does by itself.
    pub(crate) fn kernel(op: &'static str, namespace: &str) -> Self {
        Self {
            actor: KERNEL.to_owned(),
            ..Self::operator(op, namespace)
        }
    }

    /// Of a call that a job makes for whoever asked for it.
    pub(crate) fn job(op: &'static str, identity: &Identity) -> Self {
        let mut trail = Self::new(CallId::new(), op, AgentKind::Kernel);
        trail.identify(identity);
        trail
    }

    pub(crate) fn identify(&mut self, identity: &Identity) {
        self.actor = identity.actor.to_string();
        self.key_id = Some(identity.key.0.clone());
        self.namespace = identity.namespace.to_string();
    }

    /// The query, unless the turn is sensitive.
    pub(crate) fn purpose(&mut self, query: &str, sensitive: bool) {
        self.purpose = (!sensitive).then(|| query.to_owned());
    }

    pub(crate) fn memory(&mut self, id: impl ToString) {
        self.memory_id = Some(id.to_string());
    }

    /// The call's name, as the row will have it.
    pub(crate) fn call(&self) -> String {
        self.call.to_string()
    }

    /// The finished row.
    pub(crate) fn seal(&self, ending: &Ending) -> Sealed {
        let event = Event {
            call_id: self.call.to_string(),
            ts: OffsetDateTime::now_utc(),
            actor: self.actor.clone(),
            agent_id: self.agent.as_str().to_owned(),
            key_id: self.key_id.clone(),
            op: self.op.to_owned(),
            memory_id: self.memory_id.clone(),
            namespace: self.namespace.clone(),
            purpose: self.purpose.clone(),
            result: ending.result,
            detail: Some(ending.detail.clone()),
        };
        event.seal()
    }
}
