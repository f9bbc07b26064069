//! Cartridges against the host: small components written as text, most of them
//! hostile. Each test says what the kernel must make of one.
//!
//! The hazards by number, and where they stand: C1 `admission`; C2, C6, C7, C8 and C9
//! `hostile`, of C8 also `plan`; C3, C4, C15, C16 and C20 `isolation`; C5
//! `view_faults`; C10, C11 and the copying of C7 the binary `soak`; C12 and C14
//! `compiling`; C13 `caching`; C17 `signing`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod caching;
mod call_limits;
mod compiling;
mod contract;
mod hostile;
mod isolation;
mod manifest;
mod plan;
mod seeds;
mod signing;
mod view_faults;

mod guest;
mod memory_view;
