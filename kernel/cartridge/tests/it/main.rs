//! Cartridges against the host: small components written as text, most of them
//! hostile. Each test says what the kernel must make of one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admission;
mod contract;
mod hostile;
mod isolation;
mod manifest;
mod plan;
mod view_faults;

mod guest;
mod memory_view;
