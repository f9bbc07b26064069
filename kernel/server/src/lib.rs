//! The `halofy` binary as a library: HTTP, the command line, configuration, wiring.
//!
//! The only crate that knows axum and clap. Not here: decisions about access (the
//! gate), SQL, WebAssembly.

pub mod boot;
pub mod cli;
pub mod config;
pub mod http;
pub mod locomo;

pub use cli::main;
