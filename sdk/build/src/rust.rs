//! Rust: the nested `cargo build` of a crate for bare WebAssembly. What must not live here:
//! anything about components.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::{Artifact, Message};

use crate::component::componentise;
use crate::project::Project;
use crate::tool::by_hand;
use crate::toolchain::TARGET;
use crate::{Error, Manifest, Toolchain};

/// Builds the crate in `crate_dir`. Gives the component, the manifest without a version of
/// the contract, and the path of the core module.
pub(crate) fn build(
    toolchain: &Toolchain,
    crate_dir: &Path,
    target_dir: &Path,
) -> Result<(Vec<u8>, Manifest, PathBuf), Error> {
    toolchain.ensure_target(crate_dir)?;
    let project = Project::load(toolchain, crate_dir)?;
    // A crate without a vendor or licence need not be compiled to be told so.
    let manifest = Manifest::of(&project.package, String::new())?;
    let module = compile(toolchain, &project, crate_dir, target_dir)?;
    let component = componentise(&crate::files::read(&module)?)?;
    Ok((component, manifest, module))
}

/// Runs cargo and returns the path of the module that it made.
fn compile(
    toolchain: &Toolchain,
    project: &Project,
    crate_dir: &Path,
    target_dir: &Path,
) -> Result<PathBuf, Error> {
    let sysroot = toolchain.sysroot(crate_dir)?;
    let mut command = toolchain.cargo(crate_dir);
    command.arg("build").args(toolchain.cargo_args());
    command.args(["--lib", "--target", TARGET, "--profile", project.profile]);
    command.arg("--message-format=json-render-diagnostics");
    command.arg("--target-dir").arg(target_dir);
    if project.locked {
        command.arg("--locked");
    }
    command.env(
        "CARGO_ENCODED_RUSTFLAGS",
        remap_flags(project, target_dir, &sysroot),
    );
    let artifacts = run(toolchain, &mut command, crate_dir)?;
    artifacts
        .into_iter()
        .filter(|artifact| artifact.package_id == project.package.id && artifact.target.is_cdylib())
        .flat_map(|artifact| artifact.filenames)
        .find(|file| file.extension() == Some("wasm"))
        .map(cargo_metadata::camino::Utf8PathBuf::into_std_path_buf)
        .ok_or_else(|| Error::NoArtifact {
            crate_dir: crate_dir.to_owned(),
        })
}

fn run(
    toolchain: &Toolchain,
    command: &mut Command,
    crate_dir: &Path,
) -> Result<Vec<Artifact>, Error> {
    let io = |source| Error::Io {
        path: crate_dir.to_owned(),
        source,
    };
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command
        .spawn()
        .map_err(|source| toolchain.cargo_not_run(source))?;
    let stdout = child
        .stdout
        .take()
        .expect("the standard output was piped above");
    let artifacts = Message::parse_stream(BufReader::new(stdout))
        .filter_map(|message| match message {
            Ok(Message::CompilerArtifact(artifact)) => Some(Ok(artifact)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        })
        .collect::<Result<Vec<_>, _>>();
    // Waiting comes first, whatever was read: no child is left behind.
    let status = child.wait().map_err(io)?;
    if !status.success() {
        return Err(Error::CargoBuild {
            crate_dir: crate_dir.to_owned(),
            status: status.to_string(),
            command: by_hand(command),
        });
    }
    artifacts.map_err(io)
}

/// Flags that give every source folder a name of its own in panic messages, the same on
/// each machine. They replace the flags of the environment and of cargo's configuration.
fn remap_flags(project: &Project, target_dir: &Path, sysroot: &Path) -> OsString {
    let mut names = project.remap.clone();
    names.push((target_dir.to_owned(), "/target".to_owned()));
    names.push((sysroot.to_owned(), "/rust".to_owned()));
    // rustc takes the last that fits, so a folder comes after the one that holds it.
    names.sort_by_key(|(folder, _)| folder.as_os_str().len());
    let mut flags = OsString::new();
    for (folder, name) in names {
        if !flags.is_empty() {
            // The separator that cargo documents for this variable.
            flags.push("\u{1f}");
        }
        flags.push("--remap-path-prefix=");
        flags.push(folder);
        flags.push("=");
        flags.push(name);
    }
    flags
}
