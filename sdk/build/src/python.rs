//! Python: a module on CPython, whose state after importing it is what the component starts
//! from. WASI is taken out, so a clock traps and `random` repeats itself.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::component::write_contract;
use crate::descriptor::{DESCRIPTOR, Descriptor};
use crate::tool::COMPONENTIZE_PY;

/// Builds the component. Gives the path of the tool's own output too.
pub(crate) fn build(
    descriptor: &Descriptor,
    dir: &Path,
    target_dir: &Path,
) -> Result<(Vec<u8>, PathBuf), Error> {
    let tool = COMPONENTIZE_PY.find(dir)?;
    let wit = write_contract(target_dir)?;
    let output = target_dir.join("python.wasm");
    let entry = dir.join(&descriptor.entry);
    let mut command = tool.command(dir);
    // Packages come from where the tool is installed, not from where it happens to be called.
    if let Some(root) = tool.virtual_env() {
        command.env("VIRTUAL_ENV", root);
    }
    command.args(["--quiet", "--wit-path"]).arg(wit);
    command.args(["--world", "driver", "componentize", "--stub-wasi"]);
    command
        .arg("--python-path")
        .arg(entry.parent().unwrap_or(dir));
    command.arg("--output").arg(&output);
    command.arg(module_name(descriptor, dir)?);
    tool.run(&mut command)?;
    crate::files::read(&output).map(|component| (component, output))
}

/// The bindings are modules of these names.
const TAKEN: [&str; 3] = ["driver", "wit_world", "componentize_py_types"];

fn module_name<'d>(descriptor: &'d Descriptor, dir: &Path) -> Result<&'d str, Error> {
    let stem = descriptor.entry.file_stem().and_then(|stem| stem.to_str());
    match stem {
        Some(name) if is_identifier(name) && !TAKEN.contains(&name) => Ok(name),
        _ => Err(Error::Descriptor {
            path: dir.join(DESCRIPTOR),
            message: format!(
                "`entry` must be a file whose name is a Python identifier, such as my_engine.py, \
                 and none of {}",
                TAKEN.join(", ")
            ),
        }),
    }
}

fn is_identifier(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
