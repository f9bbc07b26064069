//! The acceptance cases, in one binary, against kernels that run in this process and
//! against the command. Each module holds one group of cases; its tests are named as
//! the sentences that they check.

mod architecture;
mod audit;
mod crash;
mod drivers;
mod extraction;
mod idempotency;
mod importing;
mod jobs;
mod languages;
mod model_check;
mod namespaces;
mod protocol;
mod retrieval;
mod routing;
mod tidy;
mod truth;
mod writing;

use halofy_tests::Program;

/// The `halofy` command.
fn halofy() -> Program {
    Program::at(env!("CARGO_BIN_EXE_halofy-under-test"))
}
