//! The process that compiles one component and ends: what it reads, the limits that
//! it sets on itself before it reads a byte of the component, how it ends. Its parent
//! is in `compiler.rs`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, nice, setrlimit};
use serde::{Deserialize, Serialize};
use wasmtime::Engine;

use crate::host::code_config;
use crate::limits::CodeSettings;

/// What the child's output begins with, so that no other program's is taken for code.
pub(crate) const GREETING: &[u8] = b"halofy machine code 1\n";
/// The component does not compile; why stands on standard error.
pub(crate) const REFUSED: u8 = 65;
/// The child could not do its work.
pub(crate) const BROKEN: u8 = 70;

/// The first line that the child reads, as JSON. The component follows.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) settings: CodeSettings,
    /// In bytes.
    pub(crate) memory: u64,
    /// Of all threads together, in seconds.
    pub(crate) processor_time: u64,
}

/// What runs in the child: reads an order and a component from standard input, and
/// writes machine code to standard output. To be called first thing in the process,
/// from the program that [`Compiler`](crate::Compiler) is given.
pub fn compile_child() -> ExitCode {
    let (code, why) = match obey() {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Refused(why)) => (REFUSED, why),
        Err(Failure::Broken(why)) => (BROKEN, why),
    };
    // Where the parent is gone, nobody wants to know.
    let _ = std::io::stderr().write_all(why.as_bytes());
    ExitCode::from(code)
}

enum Failure {
    Refused(String),
    Broken(String),
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::Broken(error.to_string())
}

fn obey() -> Result<(), Failure> {
    let mut input = BufReader::new(std::io::stdin());
    let mut order = String::new();
    (&mut input)
        .take(4096)
        .read_line(&mut order)
        .map_err(broken)?;
    let order: Order = serde_json::from_str(&order).map_err(broken)?;
    confine(&order).map_err(broken)?;
    let mut component = Vec::new();
    input.read_to_end(&mut component).map_err(broken)?;
    let artefact = compile(&order, &component)?;
    let mut output = std::io::stdout().lock();
    output.write_all(GREETING).map_err(broken)?;
    output.write_all(&artefact).map_err(broken)?;
    output.flush().map_err(broken)
}

/// Takes away what compiling does not need.
fn confine(order: &Order) -> rustix::io::Result<()> {
    let limit = |resource, current: u64, maximum: u64| {
        let (current, maximum) = (Some(current), Some(maximum));
        setrlimit(resource, Rlimit { current, maximum })
    };
    // Private, writable memory. Address space is the second fence, for systems that
    // count only the heap as data; the program's own file is part of it.
    limit(Resource::Data, order.memory, order.memory)?;
    let space = order.memory.saturating_mul(2).saturating_add(4 << 30);
    limit(Resource::As, space, space)?;
    // A signal at the limit, and an end that cannot be caught after it.
    let time = order.processor_time;
    limit(Resource::Cpu, time, time.saturating_add(1))?;
    limit(Resource::Core, 0, 0)?;
    limit(Resource::Fsize, 0, 0)?;
    // Answering requests comes first.
    nice(10).map(drop)
}

fn compile(order: &Order, component: &[u8]) -> Result<Vec<u8>, Failure> {
    let engine = Engine::new(&code_config(order.settings)).map_err(broken)?;
    // The panic's message is on standard error by then.
    let compiled = catch_unwind(AssertUnwindSafe(|| engine.precompile_component(component)));
    match compiled {
        Ok(artefact) => artefact.map_err(|e| Failure::Refused(format!("{e:#}"))),
        Err(_) => Err(Failure::Refused("the compiler panicked".to_owned())),
    }
}
