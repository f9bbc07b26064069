//! The one authority: Postgres with pgvector, embedded in the process or on a
//! server, with the same schema, the same SQL and the same answers.
//!
//! The only crate that knows SQL. The pool never leaves it: callers get methods
//! named noun first (`memory_read`, `key_resolve`) and a [`Transaction`] with
//! methods of its own.
//!
//! Not here: who may do what (the gate decides), ranking (cartridges), HTTP.

mod audit;
mod changes;
mod config;
mod drivers;
mod embedded;
mod entities;
mod error;
mod keys;
mod memory;
mod policies;
mod retrieval;
mod scope;
mod stats;
mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod transaction;

pub use audit::{AuditFilter, ChainHead, Sequenced};
pub use changes::RegistryChanges;
pub use config::{Location, StoreConfig, VectorSpace};
pub use drivers::{CartridgeRecord, MountRecord, NewCartridge, VendorKeyRecord};
pub use embedded::{EmbeddedError, relocate_cache};
pub use error::StoreError;
pub use keys::{KeyRecord, NewKey, Resolved};
pub use memory::{Found, NewMemory, Upserted};
pub use policies::PolicyRecord;
pub use retrieval::{Candidate, Mention, Validness};
pub use scope::Scope;
pub use stats::Stats;
pub use store::Store;
pub use transaction::Transaction;
