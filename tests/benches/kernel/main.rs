//! `cargo bench`: what the sandbox and the audit log cost, printed as ratios that
//! were measured side by side in one run. Nothing here can fail on a slow machine.
//!
//! `cargo bench -p halofy-tests -- FILE` loads LoCoMo from `locomo10.json`;
//! without it, a made-up corpus of the same shape; `-- sandbox FILE` stops after
//! the sandbox, `-- writes FILE` measures the writes only. The embedded store is always
//! measured; a server too, when `HALOFY_TEST_DATABASE_URL` names one.
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod corpus;
mod load;
mod sandbox;
mod searches;
mod writes;

use std::path::PathBuf;

use corpus::Corpus;
use halofy_tests::DATABASE_URL;

fn main() {
    // `cargo bench` adds `--bench`; `cargo test --benches` must not measure.
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if !arguments.iter().any(|argument| argument == "--bench") {
        return;
    }
    arguments.retain(|argument| !argument.starts_with("--"));
    let mut only = |part: &str| {
        let before = arguments.len();
        arguments.retain(|argument| argument != part);
        arguments.len() < before
    };
    let (only_sandbox, only_writes) = (only("sandbox"), only("writes"));
    let corpus = Corpus::load(arguments.first().map(PathBuf::from).as_deref());
    println!("corpus: {}", corpus.name);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    if !only_writes {
        runtime.block_on(sandbox::run(&corpus));
    }
    if only_sandbox {
        return;
    }
    let server = std::env::var(DATABASE_URL).is_ok();
    let places: &[bool] = if server { &[false, true] } else { &[false] };
    for server in places.iter().copied() {
        if !only_writes {
            runtime.block_on(searches::run(&corpus, server));
        }
        runtime.block_on(writes::run(&corpus, server));
    }
    if !server {
        println!("\nserver: not measured, {DATABASE_URL} is not set");
    }
}

/// The middle one of many durations, in microseconds.
fn p50_us(mut times: Vec<std::time::Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}
