//! The compiler's process, as the kernel starts it under its hidden subcommand.

use std::process::ExitCode;

fn main() -> ExitCode {
    halofy_cartridge::compile_child()
}
