//! The command line, run as a process of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::Data;

/// The `halofy` command, and the flags that every run of it gets.
#[derive(Debug, Clone)]
pub struct Program {
    path: PathBuf,
    flags: Vec<String>,
}

/// How a run ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The exit code; absent when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Program {
    /// The command at `path`, which a test has from
    /// `env!("CARGO_BIN_EXE_halofy-under-test")`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        let flags = Vec::new();
        Self { path, flags }
    }

    /// The same command on these data.
    #[must_use]
    pub fn on(mut self, data: &Data) -> Self {
        self.flags.extend(data.flags());
        self
    }

    /// The same command, configured by this file.
    #[must_use]
    pub fn configured(mut self, file: &Path) -> Self {
        self.flags.push("--config".to_owned());
        self.flags.push(file.display().to_string());
        self
    }

    /// A run, still to be started: with an environment that holds no setting of
    /// the command, and killed when dropped.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("HALOFY_") || name == "DATABASE_URL" {
                command.env_remove(&*name);
            }
        }
        command.args(arguments).args(&self.flags).kill_on_drop(true);
        command
    }

    /// Runs it to its end.
    pub async fn run(&self, arguments: &[&str]) -> Finished {
        self.run_with(arguments, b"").await
    }

    /// Runs it to its end, with standard input.
    pub async fn run_with(&self, arguments: &[&str], input: &[u8]) -> Finished {
        let mut command = self.command(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let feed = async {
            // It may end without reading.
            drop(stdin.write_all(input).await);
            drop(stdin);
        };
        let ((), output) = tokio::join!(feed, child.wait_with_output());
        let output = output.expect("the command ends");
        Finished {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Finished {
    /// Asserts the exit code and gives the run on.
    ///
    /// # Panics
    /// When it is another one; shows what was printed.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(
            self.code,
            Some(code),
            "stdout: {}\nstderr: {}",
            self.stdout,
            self.stderr
        );
        self
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[track_caller]
    pub fn json(&self) -> Value {
        let value = serde_json::from_str(&self.stdout);
        value.unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }
}
