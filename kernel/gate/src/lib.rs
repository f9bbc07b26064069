//! The gate: every syscall enters here. It resolves who calls from the key alone,
//! decides, runs the call, and records the outcome before it answers.
//!
//! Not here: SQL, WebAssembly, HTTP, the command line. A transport hands over a
//! [`Call`] and gets an [`Answer`] or a [`Refusal`].

pub mod conformance;
pub mod embed;

mod appender;
mod audit;
mod body;
mod claims;
mod classify;
mod error;
mod gate;
mod keys;
mod limiter;
mod metrics;
mod operator;
mod prologue;
mod read;
mod search;
mod sequencer;
mod sidecar;
mod stats;
mod view;
mod write;

pub use audit::CallId;
pub use body::{DEFAULT_K, MAX_K, ReadRequest, SearchRequest, StatsRequest, WriteRequest};
pub use claims::{Claim, claim_in_header};
pub use error::Refusal;
pub use gate::{Answer, Body, Call, Gate, GateConfig};
pub use keys::{Key, NewKeyRequest};
pub use operator::{
    AuditTail, AuditVerification, DriverSummary, EffectivePolicyView, KeySummary, PolicyView,
};
pub use search::{Fallback, Ranked, SearchAnswer};
pub use sidecar::{Sidecar, SidecarError, SidecarFailure};
