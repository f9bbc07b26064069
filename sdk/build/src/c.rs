//! C: bindings made here, compiled and linked by zig's C compiler for bare WebAssembly, with
//! a library of a few functions in place of the C library.

use std::path::{Path, PathBuf};

use wit_bindgen_core::Files;

use crate::Error;
use crate::component::{componentise, driver_world};
use crate::descriptor::Descriptor;
use crate::tool::ZIG;

/// What a cartridge in C is linked with, and the headers that it sees.
const LIBRARY: [(&str, &str); 4] = [
    ("halofy.h", include_str!("../c/halofy.h")),
    ("stdlib.h", include_str!("../c/stdlib.h")),
    ("string.h", include_str!("../c/string.h")),
    ("runtime.c", include_str!("../c/runtime.c")),
];

/// Small, without a system, and without fused or reordered arithmetic. The linker puts the
/// stack below the data, so that an overflow traps and overwrites nothing.
const FLAGS: [&str; 10] = [
    "-target",
    "wasm32-freestanding",
    "-mcpu=generic+bulk_memory",
    "-std=c17",
    "-O2",
    "-ffp-contract=off",
    "-nostdlib",
    "-Wall",
    "-Wl,--no-entry,--gc-sections,--strip-debug",
    "-Wl,-z,stack-size=131072",
];

/// Builds the core module and makes a component of it. Gives the path of the module too.
pub(crate) fn build(
    descriptor: &Descriptor,
    dir: &Path,
    target_dir: &Path,
) -> Result<(Vec<u8>, PathBuf), Error> {
    let zig = ZIG.find(dir)?;
    let generated = target_dir.join("c");
    write_sources(&generated)?;
    let module = target_dir.join("module.wasm");
    let mut command = zig.command(dir);
    // Nothing is kept outside of the target directory.
    for variable in ["ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"] {
        command.env(variable, target_dir.join("zig-cache"));
    }
    command.arg("cc").args(FLAGS).arg("-I").arg(&generated);
    command.arg("-o").arg(&module).arg(&descriptor.entry);
    command.args(&descriptor.sources);
    command.args(["driver.c", "driver_component_type.o", "runtime.c"].map(|f| generated.join(f)));
    zig.run(&mut command)?;
    let bytes = std::fs::read(&module).map_err(|source| Error::Io {
        path: module.clone(),
        source,
    })?;
    Ok((componentise(&bytes)?, module))
}

/// Writes the bindings, the headers and the library.
fn write_sources(into: &Path) -> Result<(), Error> {
    let (mut resolve, world) = driver_world();
    let mut files = Files::default();
    let generated =
        wit_bindgen_c::Opts::default()
            .build()
            .generate(&mut resolve, world, &mut files);
    generated.map_err(|cause| Error::Componentise {
        message: format!("{cause:#}"),
    })?;
    let library = LIBRARY.map(|(name, text)| (name, text.as_bytes()));
    for (name, content) in files.iter().chain(library) {
        crate::files::write(&into.join(name), content)?;
    }
    Ok(())
}
