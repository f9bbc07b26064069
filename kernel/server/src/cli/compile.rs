//! `halofy compile-cartridge`: the child process in which the kernel compiles one
//! component. Not for people, so it is not shown.

use std::process::ExitCode;

use clap::Args;
use halofy_cartridge::{Compiler, compile_child};

/// The command's name; the kernel starts itself with it.
pub(crate) const COMPILE: &str = "compile-cartridge";

/// Compile a component from standard input, for the kernel that started this.
#[derive(Debug, Args)]
pub(crate) struct CompileCartridge {}

impl CompileCartridge {
    /// To be called before a runtime, a log or a database is started: the process gives
    /// up what it does not need, and its standard output is machine code.
    pub(crate) fn run(self) -> ExitCode {
        compile_child()
    }
}

/// Compiles in children of the program that is running.
///
/// # Errors
/// When the system does not say which program that is.
pub(crate) fn compiler() -> std::io::Result<Compiler> {
    Compiler::of_this_program([COMPILE])
}
