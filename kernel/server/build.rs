//! Builds the baseline cartridge, so that it is inside the binary and a kernel can serve
//! before any vendor's cartridge is loaded. How a cartridge is built is not known here.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The folder of the repository, from that of this package.
const ROOT: &str = "../..";
/// Everything that the baseline is made of, from the root.
const SOURCES: [&str; 9] = [
    "drivers/baseline/Cargo.toml",
    "drivers/baseline/src",
    "sdk/driver/Cargo.toml",
    "sdk/driver/src",
    "sdk/retrieval/Cargo.toml",
    "sdk/retrieval/src",
    "wit",
    "Cargo.toml",
    "Cargo.lock",
];

fn main() -> ExitCode {
    match embed_baseline() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the baseline cartridge was not built: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes `baseline.wasm` into `OUT_DIR`.
fn embed_baseline() -> Result<(), Box<dyn std::error::Error>> {
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?).join(ROOT);
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    for variable in halofy_build::ENVIRONMENT {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let out = std::env::var("OUT_DIR")?;
    let out = Path::new(&out);
    let built = halofy_build::Builder::new(root.join("drivers/baseline"))
        .target_dir(out.join("baseline-target"))
        .build()?;
    std::fs::write(out.join("baseline.wasm"), built.component)?;
    Ok(())
}
