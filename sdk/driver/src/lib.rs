//! What a cartridge in Rust depends on: the [`ScopedView`] of one caller, the
//! [`Retriever`] to implement, [`export!`] to make a component of it, and a
//! [`fake::FakeView`] to test it natively.
//!
//! What must not live here: ranking (that is the cartridge's), or anything a cartridge
//! may not have, such as clocks, files, randomness and the network.
//!
//! ```
//! use halofy_driver::{Capabilities, PlanError, Query, Retriever, ScopedView, ScoredRef};
//!
//! struct Newest;
//!
//! impl Retriever for Newest {
//!     const CAPABILITIES: Capabilities = Capabilities { graph: false, streaming: false };
//!
//!     fn plan(view: &impl ScopedView, query: &Query) -> Result<Vec<ScoredRef>, PlanError> {
//!         let newest = view.candidates(query.k)?;
//!         let rank = |(at, hit): (usize, halofy_driver::Candidate)| ScoredRef {
//!             handle: hit.handle,
//!             score: 1.0 / (1.0 + at as f64),
//!         };
//!         Ok(newest.into_iter().enumerate().map(rank).collect())
//!     }
//! }
//!
//! halofy_driver::export!(Newest);
//! ```

#[doc(hidden)]
pub mod bindings;
mod export;
pub mod fake;
mod host;
mod types;
mod view;

#[doc(hidden)]
pub use export::Component;
pub use export::Retriever;
pub use host::HostView;
pub use types::{
    Candidate, Capabilities, EntityFact, Handle, PlanError, Query, ScoredCandidate, ScoredRef,
    ViewError,
};
pub use view::ScopedView;
