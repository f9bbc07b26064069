//! From a cartridge's folder to a component that a Halofy kernel can load: a nested build for
//! bare WebAssembly, componentisation, and the manifest in a custom section. A folder with a
//! `Cargo.toml` is built by cargo; one with a `halofy.toml` is C, JavaScript or Python, and
//! built by the [`Tool`] of its language. [`template`] writes such folders.
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
mod c;
mod component;
mod descriptor;
mod error;
mod files;
mod javascript;
mod language;
mod manifest;
mod project;
mod python;
mod rust;
mod sdk;
pub mod template;
mod tool;
mod toolchain;

pub use builder::{Builder, Built};
pub use component::{CONTRACT, componentise};
pub use descriptor::DESCRIPTOR;
pub use error::Error;
pub use language::{Language, UnknownLanguage};
pub use manifest::{DeclaredCapabilities, MANIFEST_SECTION, Manifest};
pub use tool::{COMPONENTIZE_PY, COMPONENTIZE_QJS, Tool, ZIG};
pub use toolchain::{ENVIRONMENT, TARGET, Toolchain};
