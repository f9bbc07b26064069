//! The `halofy` command, built beside the tests. Nothing of its own lives here.

use std::process::ExitCode;

fn main() -> ExitCode {
    halofy::main()
}
