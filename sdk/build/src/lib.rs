//! From a cartridge's crate to a component that a Halofy kernel can load: a nested
//! `cargo build` for `wasm32-unknown-unknown`, componentisation, and the manifest in a
//! custom section.
//!
//! Used by build scripts, tests and the command line alike. What must not live here:
//! signing, and the decision whether a component may be loaded, which is the kernel's.
//! The check of imports and exports is here only so that an author hears of a mistake
//! before the kernel refuses the file.
//!
//! ```no_run
//! # fn main() -> Result<(), halofy_build::Error> {
//! let built = halofy_build::Builder::new("drivers/baseline")
//!     .target_dir("/tmp/baseline-target")
//!     .build()?;
//! println!("{} {} {}", built.manifest.name, built.component.len(), built.digest_sha256);
//! # Ok(())
//! # }
//! ```

mod builder;
mod component;
mod error;
mod manifest;
mod project;
mod toolchain;

pub use builder::{Builder, Built};
pub use component::componentise;
pub use error::Error;
pub use manifest::{MANIFEST_SECTION, Manifest};
pub use toolchain::{ENVIRONMENT, TARGET, Toolchain};
