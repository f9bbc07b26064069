//! Programs that other languages are built with: where they are looked for, how they are
//! run, and what to install when they are absent. What must not live here: their arguments.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Error, Language};

/// A program that builds cartridges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    /// As it is known, such as `componentize-py`.
    pub name: &'static str,
    /// The language that it builds.
    pub language: Language,
    /// The variable of the environment that names another one, as shell words.
    pub variable: &'static str,
    /// The file names that it may have.
    programs: &'static [&'static str],
    /// Commands that install it, run in the folder of the cartridge.
    pub install: &'static [&'static str],
}

/// Builds C: its compiler and linker for WebAssembly need nothing else.
pub const ZIG: Tool = Tool {
    name: "zig",
    language: Language::C,
    variable: "HALOFY_ZIG",
    programs: &["zig", "python-zig"],
    install: &[
        "python3 -m venv .venv",
        ".venv/bin/pip install ziglang==0.15.2",
    ],
};

/// Builds JavaScript.
pub const COMPONENTIZE_QJS: Tool = Tool {
    name: "componentize-qjs",
    language: Language::JavaScript,
    variable: "HALOFY_COMPONENTIZE_QJS",
    programs: &["componentize-qjs"],
    install: &["npm install --save-dev --save-exact componentize-qjs@0.4.5"],
};

/// Builds Python.
pub const COMPONENTIZE_PY: Tool = Tool {
    name: "componentize-py",
    language: Language::Python,
    variable: "HALOFY_COMPONENTIZE_PY",
    programs: &["componentize-py"],
    install: &[
        "python3 -m venv .venv",
        ".venv/bin/pip install componentize-py==0.25.1",
    ],
};

/// Folders beside a project, or beside one that holds it, where its tools are installed.
const LOCAL: [&str; 3] = [".venv/bin", "venv/bin", "node_modules/.bin"];

/// A tool that was found: a program and what it is given first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    tool: Tool,
    words: Vec<OsString>,
}

impl Tool {
    /// Looks for the tool: in its variable, in the `.venv`, `venv` and `node_modules` of
    /// `dir` and of the folders that hold it, then on the `PATH`.
    pub(crate) fn find(self, dir: &Path) -> Result<Found, Error> {
        self.find_with(dir, |name| std::env::var_os(name))
    }

    fn find_with(self, dir: &Path, var: impl Fn(&str) -> Option<OsString>) -> Result<Found, Error> {
        let set = var(self.variable).filter(|value| !value.is_empty());
        if let Some(value) = set {
            let value = value.to_string_lossy().into_owned();
            let words = shlex::split(&value).filter(|words| !words.is_empty());
            let words = words.ok_or(Error::BadArguments {
                variable: self.variable,
                value,
            })?;
            return Ok(self.found(words.into_iter().map(OsString::from).collect()));
        }
        let local = dir
            .ancestors()
            .flat_map(|dir| LOCAL.map(|local| dir.join(local)));
        let path = var("PATH").unwrap_or_default();
        local
            .chain(std::env::split_paths(&path))
            .flat_map(|folder| self.programs.iter().map(move |name| folder.join(name)))
            .find(|file| is_program(file))
            .map(|file| self.found(vec![file.into_os_string()]))
            .ok_or(Error::MissingTool {
                tool: self,
                dir: dir.to_owned(),
            })
    }

    fn found(self, words: Vec<OsString>) -> Found {
        Found { tool: self, words }
    }
}

impl Found {
    /// A command in `dir` that says on the standard error what it has to say.
    pub(crate) fn command(&self, dir: &Path) -> Command {
        let mut command = Command::new(&self.words[0]);
        command
            .args(&self.words[1..])
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(io::stderr());
        command
    }

    /// The virtual environment that the tool is installed in, if it is in one.
    pub(crate) fn virtual_env(&self) -> Option<PathBuf> {
        let root = Path::new(&self.words[0]).parent()?.parent()?;
        root.join("pyvenv.cfg").is_file().then(|| root.to_owned())
    }

    /// Runs a command of [`Self::command`] to its end.
    pub(crate) fn run(&self, command: &mut Command) -> Result<(), Error> {
        let status = command.status().map_err(|source| Error::Spawn {
            program: self.words[0].to_string_lossy().into_owned(),
            variable: self.tool.variable,
            source,
        })?;
        if status.success() {
            return Ok(());
        }
        Err(Error::ToolFailed {
            tool: self.tool.name,
            status: status.to_string(),
            command: by_hand(command),
        })
    }
}

/// A command line for a shell.
pub(crate) fn by_hand(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
    shlex::try_join(words.iter().map(AsRef::as_ref)).unwrap_or_else(|_| words.join(" "))
}

#[cfg(unix)]
fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(file: &Path) -> bool {
    file.is_file()
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn program(file: &Path) {
        fs::create_dir_all(file.parent().expect("it is in a folder")).expect("a temporary folder");
        fs::write(file, "#!/bin/sh\n").expect("a temporary file");
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    fn first(found: &Found) -> &Path {
        Path::new(&found.words[0])
    }

    #[test]
    fn a_local_tool_comes_before_the_path_and_a_variable_before_both() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let (dir, bin) = (root.path().join("a/b"), root.path().join("bin"));
        fs::create_dir_all(&dir).expect("a temporary folder");
        program(&bin.join("python-zig"));
        let path = |name: &str| (name == "PATH").then(|| bin.clone().into_os_string());
        let on_path = ZIG.find_with(&dir, path).expect("it is on the path");
        assert_eq!(first(&on_path), bin.join("python-zig"));

        let local = root.path().join("a/.venv/bin/python-zig");
        program(&local);
        let found = ZIG.find_with(&dir, path).expect("it is local");
        assert_eq!(first(&found), local);
        assert_eq!(found.virtual_env(), None);
        fs::write(root.path().join("a/.venv/pyvenv.cfg"), "").expect("a temporary file");
        assert_eq!(found.virtual_env(), Some(root.path().join("a/.venv")));

        let set = |name: &str| (name == "HALOFY_ZIG").then(|| "python3 -m ziglang".into());
        let words = ZIG.find_with(&dir, set).expect("it is named").words;
        assert_eq!(words, ["python3", "-m", "ziglang"]);
    }

    #[test]
    fn an_absent_tool_is_told_how_to_be_installed() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        for tool in [ZIG, COMPONENTIZE_PY, COMPONENTIZE_QJS] {
            let error = tool
                .find_with(dir.path(), |_| None)
                .expect_err("it is absent");
            let text = error.to_string();
            for part in tool.install.iter().chain([&tool.name, &tool.variable]) {
                assert!(text.contains(part), "`{part}` is not in:\n{text}");
            }
        }
    }

    #[test]
    fn a_tool_that_fails_shows_its_command() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let set = |name: &str| (name == "HALOFY_ZIG").then(|| "false".into());
        let found = ZIG.find_with(dir.path(), set).expect("it is named");
        let error = found
            .run(found.command(dir.path()).arg("a b"))
            .expect_err("it fails");
        assert!(error.to_string().contains("false 'a b'"), "{error}");
    }
}
