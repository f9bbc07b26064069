//! JavaScript: an ECMAScript module on QuickJS, whose state after loading is what the
//! component starts from. WASI is taken out, so a clock or randomness traps.

use std::path::{Path, PathBuf};

use crate::Error;
use crate::component::write_contract;
use crate::descriptor::Descriptor;
use crate::tool::COMPONENTIZE_QJS;

/// Builds the component. Gives the path of the tool's own output too.
pub(crate) fn build(
    descriptor: &Descriptor,
    dir: &Path,
    target_dir: &Path,
) -> Result<(Vec<u8>, PathBuf), Error> {
    let tool = COMPONENTIZE_QJS.find(dir)?;
    let wit = write_contract(target_dir)?;
    let output = target_dir.join("javascript.wasm");
    let mut command = tool.command(dir);
    command.arg("--wit").arg(wit);
    command.args(["--world", "driver", "--stub-wasi", "--sync"]);
    command.arg("--module-root").arg(dir);
    command.arg("--js").arg(dir.join(&descriptor.entry));
    command.arg("--output").arg(&output);
    tool.run(&mut command)?;
    crate::files::read(&output).map(|component| (component, output))
}
