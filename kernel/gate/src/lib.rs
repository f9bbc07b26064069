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
mod claims;
mod classify;
mod driven;
mod drivers;
mod error;
mod gate;
mod keys;
mod limiter;
mod metrics;
mod operator;
mod prologue;
mod read;
mod replay;
mod search;
mod sequencer;
mod shadow;
mod sidecar;
mod stats;
mod view;
mod write;

pub use answer::{Attempt, Dropped, Explain, Fallback, Micros, Ranked, SearchAnswer};
pub use audit::CallId;
pub use body::{DEFAULT_K, MAX_K, ReadRequest, SearchRequest, StatsRequest, WriteRequest};
pub use claims::{Claim, claim_in_header};
pub use drivers::{
    Conformance, DriverState, DriverSummary, MissingDriver, MountChange, Push, Pushed,
    VendorKeySummary, VendorTrust,
};
pub use error::Refusal;
pub use gate::{Answer, Body, Call, Gate, GateConfig};
pub use keys::{Key, NewKeyRequest};
pub use operator::{
    AuditTail, AuditVerification, EffectivePolicyView, KeySummary, PolicySet, PolicyView,
};
pub use replay::Replay;
pub use sidecar::{Sidecar, SidecarError, SidecarFailure};
