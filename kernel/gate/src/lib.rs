//! The gate: every syscall enters here. It resolves who calls from the key alone,
//! decides, runs the call, and records the outcome before it answers.
//!
//! Not here: SQL, WebAssembly, HTTP, the command line. A transport hands over a
//! [`Call`] and gets an [`Answer`] or a [`Refusal`].

pub mod conformance;
pub mod embed;

mod answer;
mod appender;
mod audit;
mod body;
mod breaker;
mod claims;
mod classify;
mod clock;
mod conflicts;
mod driven;
mod drivers;
mod error;
mod forget;
mod gate;
mod history;
mod idempotency;
mod jobs;
mod keys;
mod limiter;
mod metrics;
mod model;
mod operator;
mod outbound;
mod prologue;
mod read;
mod replay;
#[cfg(test)]
mod scripted_server;
mod search;
mod sequencer;
mod shadow;
mod sidecar;
mod stats;
mod unseen;
mod view;
mod write;

pub use answer::{Attempt, Dropped, Explain, Fallback, Micros, Ranked, SearchAnswer};
pub use audit::CallId;
pub use body::{
    DEFAULT_K, DisputesRequest, ForgetRequest, HistoryRequest, MAX_K, ReadRequest, Resolution,
    ResolveRequest, SearchRequest, StatsRequest, TicketRequest, WriteRequest,
};
pub use breaker::BreakerConfig;
pub use claims::{Claim, claim_in_header};
pub use drivers::{
    Conformance, DriverState, DriverSummary, MissingDriver, MountChange, Push, Pushed,
    VendorKeySummary, VendorTrust,
};
pub use error::Refusal;
pub use gate::{Answer, Body, Call, Gate, GateConfig};
pub use idempotency::IdempotencyKey;
pub use jobs::{JobQuery, JobSummary, JobsRetried};
pub use keys::{Key, NewKeyRequest};
pub use model::{Model, ModelConfig, ResponseFormat};
pub use operator::{
    AuditTail, AuditVerification, EffectivePolicyView, KeySummary, PolicySet, PolicyView,
};
pub use outbound::{HttpStyle, Misconfigured};
pub use replay::Replay;
pub use sidecar::{Sidecar, SidecarError, SidecarFailure};
