//! The host side of retrieval cartridges: admit a component, run one call of it
//! over one caller's view, and check what came back. The only crate that knows
//! wasmtime.
//!
//! Not here: who may call what, the fall-back to the baseline, the audit log,
//! storage. The gate implements [`View`] over the store and decides what a
//! [`PlanFailure`] means for the caller.

mod admission;
mod call;
mod cartridge;
mod error;
mod host;
mod imports;
mod limits;
mod manifest;
mod outcome;
mod registry;
mod signature;
mod state;
mod table;
mod ticker;
mod view;
mod wire;

pub use admission::{RETRIEVER, TYPES, VIEW};
pub use cartridge::{Cartridge, Digest};
pub use error::{EngineError, LoadError, PlanFailure};
pub use host::CartridgeHost;
pub use limits::Limits;
pub use manifest::{MANIFEST_SECTION, Manifest};
pub use outcome::{CallStats, Hit, Plan, PlanQuery};
pub use registry::{Drivers, RegistryError};
pub use view::{Row, RowId, View, ViewFailure, ViewFuture};
pub use wire::Capabilities;
