//! The audit format and its verifier, through the public interface only.
//!
//! Must not live here: a database; the same faults made in a real one are the integration suite's.

mod detail;
mod export;
mod flips;
mod format;
mod support;
mod verify;
