//! Which cargo, rustc and linker build a cartridge, in what environment, and whether
//! they can build for WebAssembly at all. What must not live here: the build itself.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::Error;

/// The target of every cartridge: the bare one, without WASI.
pub const TARGET: &str = "wasm32-unknown-unknown";

const CARGO: &str = "HALOFY_WASM_CARGO";
const RUSTC: &str = "HALOFY_WASM_RUSTC";
const LINKER: &str = "HALOFY_WASM_LINKER";
const CARGO_ARGS: &str = "HALOFY_WASM_CARGO_ARGS";

/// The variables that change the outcome; a build script reruns when one of them does.
pub const ENVIRONMENT: [&str; 5] = [CARGO, RUSTC, LINKER, CARGO_ARGS, "RUSTC_BOOTSTRAP"];

/// The programs that build a cartridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    cargo: OsString,
    /// `None` means the one beside cargo, else the one that cargo finds.
    rustc: Option<OsString>,
    linker: Option<OsString>,
    cargo_args: Vec<String>,
    /// Somebody chose the programs, so none of them is ours to complete.
    overridden: bool,
    offline: bool,
}

impl Toolchain {
    /// Reads the overrides from the environment: `HALOFY_WASM_CARGO`, `HALOFY_WASM_RUSTC`
    /// and `HALOFY_WASM_LINKER` name programs, `HALOFY_WASM_CARGO_ARGS` holds further
    /// arguments of `cargo build` as shell words. Without them it is the toolchain that
    /// runs the calling build script, else the one on the `PATH`.
    ///
    /// # Errors
    /// [`Error::BadArguments`] when the arguments are not shell words.
    pub fn from_env() -> Result<Self, Error> {
        Self::from_vars(std::env::var_os)
    }

    /// As [`Self::from_env`], from any source of variables. An empty one counts as unset.
    ///
    /// # Errors
    /// [`Error::BadArguments`] when the arguments are not shell words.
    pub fn from_vars(var: impl Fn(&'static str) -> Option<OsString>) -> Result<Self, Error> {
        let var = |name| var(name).filter(|value| !value.is_empty());
        let (cargo, rustc, linker) = (var(CARGO), var(RUSTC), var(LINKER));
        let cargo_args = var(CARGO_ARGS)
            .map(shell_words)
            .transpose()?
            .unwrap_or_default();
        let overridden = cargo.is_some() || rustc.is_some() || !cargo_args.is_empty();
        // A cargo that was named brings its own rustc; the outer one would not fit it.
        let outer_rustc = if cargo.is_some() { None } else { var("RUSTC") };
        Ok(Self {
            cargo: cargo
                .or_else(|| var("CARGO"))
                .unwrap_or_else(|| "cargo".into()),
            rustc: rustc.or(outer_rustc),
            linker,
            cargo_args,
            overridden,
            offline: var("CARGO_NET_OFFLINE").is_some_and(|value| value == "true" || value == "1"),
        })
    }

    /// Arguments of `cargo build` that come before those of the builder.
    pub(crate) fn cargo_args(&self) -> &[String] {
        &self.cargo_args
    }

    /// A cargo command in `crate_dir`, cleaned of what a surrounding cargo has set.
    pub(crate) fn cargo(&self, crate_dir: &Path) -> Command {
        let mut command = clean_command(&self.cargo, crate_dir);
        if let Some(rustc) = self.rustc() {
            command.env("RUSTC", rustc);
        }
        if let Some(linker) = &self.linker {
            command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
        }
        if self.offline {
            command.env("CARGO_NET_OFFLINE", "true");
        }
        command
    }

    /// Runs a command of [`Self::cargo`], and takes in its output.
    pub(crate) fn output_of_cargo(&self, command: &mut Command) -> Result<Output, Error> {
        command
            .output()
            .map_err(|source| self.cargo_not_run(source))
    }

    pub(crate) fn cargo_not_run(&self, source: std::io::Error) -> Error {
        Error::Spawn {
            program: self.cargo.to_string_lossy().into_owned(),
            variable: CARGO,
            source,
        }
    }

    /// Where the compiler and its libraries live.
    pub(crate) fn sysroot(&self, crate_dir: &Path) -> Result<PathBuf, Error> {
        self.ask_rustc(crate_dir, &["--print", "sysroot"])
    }

    /// Makes sure that there is a standard library for the target: installed, built by
    /// `-Zbuild-std`, or, for a toolchain of rustup that nobody has overridden, added.
    ///
    /// # Errors
    /// [`Error::MissingTarget`] with both recipes when it cannot be had.
    pub(crate) fn ensure_target(&self, crate_dir: &Path) -> Result<(), Error> {
        if self
            .cargo_args
            .iter()
            .any(|argument| argument.contains("build-std"))
        {
            return Ok(());
        }
        let libdir =
            self.ask_rustc(crate_dir, &["--print", "target-libdir", "--target", TARGET])?;
        if holds_core(&libdir) {
            return Ok(());
        }
        self.add_target(crate_dir)?;
        if holds_core(&libdir) {
            return Ok(());
        }
        Err(self.missing(format!(
            "nothing in {} even after rustup added it",
            libdir.display()
        )))
    }

    fn add_target(&self, crate_dir: &Path) -> Result<(), Error> {
        if self.overridden {
            return Err(self.missing(format!(
                "it was chosen by {CARGO}, {RUSTC} or {CARGO_ARGS}, and is not completed for you"
            )));
        }
        if self.offline {
            return Err(self.missing("CARGO_NET_OFFLINE forbids to fetch one".to_owned()));
        }
        let sysroot = self.sysroot(crate_dir)?;
        let Some(toolchain) = rustup_toolchain(&sysroot) else {
            return Err(self.missing(format!(
                "{} is not a toolchain of rustup",
                sysroot.display()
            )));
        };
        let output = clean_command(OsStr::new("rustup"), crate_dir)
            .args(["target", "add", "--toolchain"])
            .arg(toolchain)
            .arg(TARGET)
            .output()
            .map_err(|source| self.missing(format!("cannot run rustup ({source})")))?;
        if output.status.success() {
            return Ok(());
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        Err(self.missing(format!("rustup could not add it ({})", last_line(&stderr))))
    }

    fn ask_rustc(&self, crate_dir: &Path, arguments: &[&str]) -> Result<PathBuf, Error> {
        let rustc = self.rustc().unwrap_or_else(|| "rustc".into());
        let name = rustc.to_string_lossy().into_owned();
        let output = clean_command(&rustc, crate_dir)
            .args(arguments)
            .output()
            .map_err(|source| Error::Spawn {
                program: name.clone(),
                variable: RUSTC,
                source,
            })?;
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::Compiler {
                rustc: name,
                message,
            });
        }
        Ok(PathBuf::from(
            String::from_utf8_lossy(&output.stdout).trim(),
        ))
    }

    /// A cargo that was named by its path has its rustc beside it, in rustup's folders as
    /// in `/usr/bin`; the first on the `PATH` may belong to another.
    fn rustc(&self) -> Option<OsString> {
        let beside = || {
            let path = Path::new(&self.cargo).with_file_name("rustc");
            (path.is_absolute() && path.is_file()).then(|| path.into_os_string())
        };
        self.rustc.clone().or_else(beside)
    }

    fn missing(&self, reason: String) -> Error {
        let rustc = self.rustc().unwrap_or_else(|| "rustc".into());
        Error::MissingTarget {
            rustc: rustc.to_string_lossy().into_owned(),
            reason,
        }
    }
}

fn shell_words(value: OsString) -> Result<Vec<String>, Error> {
    let value = value.to_string_lossy().into_owned();
    shlex::split(&value).ok_or(Error::BadArguments {
        variable: CARGO_ARGS,
        value,
    })
}

/// A command without the variables by which a surrounding cargo, its build script, or
/// clippy would steer the nested build: flags and wrappers meant for the host, a job
/// server whose pipes are closed, a target directory whose lock is held.
fn clean_command(program: &OsStr, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(poisons) {
            command.env_remove(name);
        }
    }
    command
}

/// Whether a variable would change the nested build. Of cargo's own, those stay that say
/// where crates come from and how to print.
fn poisons(name: &str) -> bool {
    const KEPT: [&str; 7] = [
        "CARGO_HOME",
        "CARGO_NET_",
        "CARGO_HTTP_",
        "CARGO_REGISTRIES_",
        "CARGO_REGISTRY_",
        "CARGO_SOURCE_",
        "CARGO_TERM_",
    ];
    const OTHERS: [&str; 19] = [
        "DEBUG",
        "HOST",
        "MAKEFLAGS",
        "MFLAGS",
        "NUM_JOBS",
        "OPT_LEVEL",
        "OUT_DIR",
        "PROFILE",
        "RUSTC",
        "RUSTC_LINKER",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_WRAPPER",
        "RUSTDOC",
        "RUSTDOCFLAGS",
        "RUSTFLAGS",
        "TARGET",
        "CLIPPY_ARGS",
        "CLIPPY_CONF_DIR",
        "__CARGO_DEFAULT_LIB_METADATA",
    ];
    let of_cargo = name == "CARGO" || name.starts_with("CARGO_");
    (of_cargo && !KEPT.iter().any(|kept| name.starts_with(kept))) || OTHERS.contains(&name)
}

fn holds_core(libdir: &Path) -> bool {
    let Ok(entries) = libdir.read_dir() else {
        return false;
    };
    entries.flatten().any(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with("libstd-") && name.ends_with(".rlib")
    })
}

/// The name of a toolchain that lives in rustup's folder of toolchains.
fn rustup_toolchain(sysroot: &Path) -> Option<&OsStr> {
    let parent = sysroot.parent()?.file_name()?;
    if parent == "toolchains" {
        sysroot.file_name()
    } else {
        None
    }
}

fn last_line(text: &str) -> &str {
    text.trim().lines().last().unwrap_or("no message")
}

#[cfg(test)]
#[path = "toolchain_tests.rs"]
mod tests;
