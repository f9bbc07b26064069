//! The build of a cartridge, from its crate's folder to the bytes of a component.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cargo_metadata::{Artifact, Message};
use sha2::{Digest as _, Sha256};

use crate::component::{componentise, contract_version};
use crate::project::Project;
use crate::toolchain::TARGET;
use crate::{Error, Manifest, Toolchain};

/// Builds one cartridge.
#[derive(Debug, Clone)]
pub struct Builder {
    crate_dir: PathBuf,
    target_dir: Option<PathBuf>,
    toolchain: Option<Toolchain>,
}

/// A cartridge that was built.
#[derive(Debug, Clone)]
pub struct Built {
    /// The component, its manifest embedded. The same sources, lock file and compiler
    /// give the same bytes.
    pub component: Vec<u8>,
    /// What the component says about itself.
    pub manifest: Manifest,
    /// SHA-256 of `component`, in lower-case hexadecimal.
    pub digest_sha256: String,
    /// The core module that cargo made, in the target directory.
    pub crate_artifact: PathBuf,
}

impl Builder {
    /// A builder for the crate whose `Cargo.toml` is in `crate_dir`.
    pub fn new(crate_dir: impl Into<PathBuf>) -> Self {
        Self {
            crate_dir: crate_dir.into(),
            target_dir: None,
            toolchain: None,
        }
    }

    /// Where the nested build keeps its files; `target/cartridge` in the crate's folder
    /// unless set. A build script sets a folder in its `OUT_DIR`: the target directory of
    /// the cargo that runs it is locked until it ends, and the nested one would wait.
    #[must_use]
    pub fn target_dir(mut self, target_dir: impl Into<PathBuf>) -> Self {
        self.target_dir = Some(target_dir.into());
        self
    }

    /// Which programs to build with; [`Toolchain::from_env`] unless set.
    #[must_use]
    pub fn toolchain(mut self, toolchain: Toolchain) -> Self {
        self.toolchain = Some(toolchain);
        self
    }

    /// Builds the crate, makes a component of it and embeds its manifest. The compiler's
    /// messages go to the standard error as they come.
    ///
    /// # Errors
    /// Any [`Error`]; each says what to do about it.
    pub fn build(self) -> Result<Built, Error> {
        let crate_dir = absolute(&self.crate_dir)?;
        let toolchain = self.toolchain.map_or_else(Toolchain::from_env, Ok)?;
        let target_dir = self
            .target_dir
            .unwrap_or_else(|| crate_dir.join("target/cartridge"));
        std::fs::create_dir_all(&target_dir).map_err(|source| Error::Io {
            path: target_dir.clone(),
            source,
        })?;
        let target_dir = absolute(&target_dir)?;

        toolchain.ensure_target(&crate_dir)?;
        let project = Project::load(&toolchain, &crate_dir)?;
        // A crate without a vendor or licence need not be compiled to be told so.
        let mut manifest = Manifest::of(&project.package, String::new())?;
        let crate_artifact = compile(&toolchain, &project, &crate_dir, &target_dir)?;
        let module = std::fs::read(&crate_artifact).map_err(|source| Error::Io {
            path: crate_artifact.clone(),
            source,
        })?;
        let mut component = componentise(&module)?;
        manifest.wit = contract_version(&component)?;
        manifest.embed(&mut component);
        let digest_sha256 = hex::encode(Sha256::digest(&component));
        Ok(Built {
            component,
            manifest,
            digest_sha256,
            crate_artifact,
        })
    }
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    path.canonicalize().map_err(|source| Error::Io {
        path: path.to_owned(),
        source,
    })
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

fn by_hand(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    shlex::try_join(words.iter().map(AsRef::as_ref)).unwrap_or_else(|_| words.join(" "))
}
