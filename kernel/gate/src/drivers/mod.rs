//! Which engine answers to which name: the registry that searches read, what fills it
//! from the database, how an operator changes it, and when a driver is taken out.
//!
//! Not here: running an engine (the cartridge host and the sidecar do), or what a search
//! does when one fails.

mod admin;
mod faults;
mod push;
mod registry;
mod sync;
mod trust;

pub use admin::MountChange;
pub(crate) use faults::Faults;
pub use push::{Conformance, Push, Pushed};
pub(crate) use registry::{Driver, Engine, Origin, Registry};
pub use registry::{DriverState, DriverSummary, MissingDriver};
pub(crate) use sync::{Mounts, start, unserved};
pub use trust::{VendorKeySummary, VendorTrust};
