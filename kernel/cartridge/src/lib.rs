//! The host side of retrieval cartridges: check a component's signature, admit it,
//! compile it in a process of its own, run one call of it over one caller's view, and
//! check what came back. The only crate that knows wasmtime.
//!
//! Not here: which keys an operator trusts, who may call what, the fall-back to the
//! baseline, the audit log, storage. The gate implements [`View`] over the store and decides what a
//! [`PlanFailure`] means for the caller.

mod admission;
mod artefact;
mod cache;
mod call;
mod call_limits;
mod cartridge;
mod child;
mod compiler;
mod contract;
mod error;
mod host;
mod imports;
mod keys;
mod limits;
mod manifest;
mod outcome;
mod signing;
mod state;
mod structure;
mod table;
mod ticker;
mod view;
mod wire;

pub use admission::{Inspection, Interface, RETRIEVER, TYPES, VIEW, inspect};
pub use cache::CodeCache;
pub use call_limits::{CallLimits, Import, Overrides};
pub use cartridge::{Cartridge, Digest};
pub use child::compile_child;
pub use compiler::Compiler;
pub use error::{EngineError, Failed, LoadError, PlanFailure};
pub use host::CartridgeHost;
pub use keys::{KeyError, PublicKey, VendorKey};
pub use limits::Limits;
pub use manifest::{MANIFEST_SECTION, Manifest};
pub use outcome::{CallStats, Hit, Plan, PlanQuery};
pub use signing::{
    SignatureError, SignatureFile, Trust, TrustedKey, Verdict, WORLD, read_component,
};
pub use view::{Row, RowId, View, ViewFailure, ViewFuture};
pub use wire::Capabilities;
