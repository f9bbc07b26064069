//! The `halofy` command. Everything is in the library, so that tests run the same code.

use std::process::ExitCode;

fn main() -> ExitCode {
    halofy::main()
}
