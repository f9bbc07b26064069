//! Halofy's vocabulary: namespaces and the ancestor rule, roles, identity,
//! memories and their validity, policy. Pure values and decisions.
//!
//! Not here: a clock, randomness, a runtime, SQL, HTTP, WebAssembly. A decision
//! made here gives the same answer for the same arguments, always.

mod driver;
mod error;
mod identity;
mod memory;
mod namespace;
mod op;
mod policy;
mod text;

pub use driver::{DEFAULT_DRIVER, DriverName, DriverRef, Pin};
pub use error::Invalid;
pub use identity::{Actor, AgentKind, Identity, KeyId, Role};
pub use memory::{Classification, Kind, Memory, MemoryId, Sensitivity, Telemetry, Validity};
pub use namespace::Namespace;
pub use op::Op;
pub use policy::{AbTest, EffectivePolicy, Policy, RateLimit, Routing};
pub use text::{Content, MAX_CONTENT_BYTES, MAX_QUERY_BYTES, QueryText, normalize_for_dedupe};
