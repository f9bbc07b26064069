//! The one authority: Postgres with pgvector, embedded in the process or on a
//! server, with the same schema, the same SQL and the same answers.
//!
//! The only crate that knows SQL. The pool never leaves it: callers get methods
//! named noun first (`memory_read`, `key_resolve`) and a [`Transaction`] with
//! methods of its own.
//!
//! Not here: who may do what (the gate decides), ranking (cartridges), HTTP.

mod audit;
mod chain;
mod changes;
mod config;
mod conflicts;
mod drivers;
mod embedded;
mod entities;
mod erasure;
mod erasures;
mod error;
mod history;
mod idempotency;
mod insert;
mod jobs;
mod keys;
mod memory;
mod policies;
mod registry;
mod retold;
mod retrieval;
mod scope;
mod stats;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod timeline;
mod transaction;
mod usage;

pub use audit::{AuditFilter, ChainHead, Sequenced};
pub use chain::{Incumbent, Successor};
pub use changes::RegistryChanges;
pub use config::{Location, StoreConfig, VectorSpace};
pub use conflicts::{Conflict, Contender, Decision, NewConflict};
pub use drivers::{CartridgeRecord, MountRecord, NewCartridge, VendorKeyRecord};
pub use embedded::{EmbeddedError, relocate_cache};
pub use erasure::{Erased, ErasureTarget};
pub use erasures::ErasureMark;
pub use error::StoreError;
pub use history::HistoryPage;
pub use idempotency::{AnswersOf, Claimed, IdempotencyClaim, IdempotencyRecord, IdempotencyState};
pub use jobs::{
    Failed, Job, JobChange, JobFilter, JobRecord, JobsOf, Kept, Lease, NewJob, Pruned, Stale, Turn,
};
pub use keys::{KeyRecord, NewKey, Resolved};
pub use memory::{Found, NewMemory, Placement, Upserted};
pub use policies::PolicyRecord;
pub use registry::Named;
pub use retrieval::{Candidate, Mention, Validness};
pub use scope::Scope;
pub use stats::Stats;
pub use store::Store;
pub use timeline::Between;
pub use transaction::Transaction;
