//! Halofy's vocabulary: namespaces and the ancestor rule, roles, identity,
//! memories and their validity, policy. Pure values and decisions.
//!
//! Not here: a clock, randomness, a runtime, SQL, HTTP, WebAssembly. A decision
//! made here gives the same answer for the same arguments, always.

mod classification;
mod driver;
mod error;
mod identity;
mod job;
mod memory;
mod namespace;
mod op;
mod policy;
mod provenance;
mod supersedence;
mod text;

pub use classification::{
    Classification, Cleared, Destination, DestinationDenied, PiiKind, Provider, Sensitivity,
};
pub use driver::{DEFAULT_DRIVER, DriverName, DriverRef, Pin};
pub use error::Invalid;
pub use identity::{Actor, AgentKind, Identity, KeyId, Role};
pub use job::{JobId, JobKind, JobState};
pub use memory::{Kind, Memory, MemoryId, Origin, Status, Telemetry, Validity};
pub use namespace::Namespace;
pub use op::Op;
pub use policy::{AbTest, ConflictReview, EffectivePolicy, Policy, RateLimit, Routing};
pub use provenance::{Provenance, Source, SourceAccess, group_reader, principal_reader};
pub use supersedence::{Standing, Verdict, weigh};
pub use text::{Content, MAX_CONTENT_BYTES, MAX_QUERY_BYTES, QueryText, normalize_for_dedupe};
