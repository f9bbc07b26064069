//! The `halofy` command: what it takes, and which file answers to it.

mod audit;
mod cartridge;
pub(crate) mod compile;
mod conformance;
mod demo;
mod drivers;
mod eval;
mod import;
mod jobs;
mod keys;
mod memory;
mod output;
mod policy;
mod replay;
mod serve;
mod settings;
mod target;
mod trust;
mod truth;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use settings::Settings;
pub use target::Target;

/// Governed memory for AI agents.
///
/// A kernel that knows who an agent is from its key alone, decides what context it
/// may use, delegates ranking to sandboxed WebAssembly cartridges, and records
/// every outcome in a log that proves itself.
#[derive(Debug, Parser)]
#[command(
    name = "halofy",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(after_help = "\
Start here:
  halofy demo                                   the whole system in one run
  halofy keys create --namespace acme/eng --actor user:dana
  halofy serve                                  then: curl -H 'Authorization: Bearer hm_…' …
  halofy write --key hm_… 'The office is in Bern.'
  halofy search --key hm_… 'where is the office?'")]
struct Cli {
    #[command(flatten)]
    settings: Settings,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the kernel: HTTP for agents, a control socket for the operator.
    Serve(serve::Serve),
    /// Show the whole system in one run, on a database of its own.
    Demo(demo::Demo),
    /// Make, list and revoke keys.
    #[command(subcommand)]
    Keys(keys::Keys),
    /// Remember something.
    Write(memory::Write),
    /// Find what is relevant to a question.
    Search(memory::Search),
    /// Fetch one memory by its id.
    Read(memory::Read),
    /// Count what a key sees.
    Stats(memory::Stats),
    /// Show a memory, those that it replaced, and those that replaced it.
    History(truth::History),
    /// List memories that contradict each other and wait for somebody to decide.
    Disputes(truth::Disputes),
    /// Settle a dispute, or take back what the kernel decided.
    Resolve(truth::Resolve),
    /// Erase memories for good, with everything derived from them.
    Forget(truth::Forget),
    /// Write a file or a folder: JSON Lines, Markdown, or an export of mem0 or Graphiti.
    Import(import::Import),
    /// Show and set policies: driver, A/B split, budgets, rates, suspension.
    #[command(subcommand)]
    Policy(policy::Policies),
    /// List the drivers and change what is mounted: mount, roll back, quarantine, release.
    #[command(subcommand)]
    Drivers(drivers::Drivers),
    /// Make, build, check and measure a cartridge.
    #[command(subcommand)]
    Cartridge(cartridge::CartridgeCommand),
    /// List, add and revoke the keys of vendors whose cartridges may be mounted.
    #[command(subcommand)]
    Trust(trust::Trust),
    /// List, show, retry and cancel jobs: writes that nobody waits for, checks for conflicts.
    #[command(subcommand)]
    Jobs(jobs::Jobs),
    /// Run the search of an audit row again, over the memories as they were then.
    Replay(replay::Replay),
    #[command(name = compile::COMPILE, hide = true)]
    Compile(compile::CompileCartridge),
    /// Check a cartridge against the contract.
    Conformance(conformance::Conformance),
    /// Measure retrieval on a public data set.
    #[command(subcommand)]
    Eval(eval::Eval),
    /// Show and verify the audit log.
    #[command(subcommand)]
    Audit(audit::Audit),
}

/// Runs the command line and says how it ended: 0 done, 1 failed or refused,
/// 2 wrongly called.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    // Before anything is started: that process gives up all that it does not need.
    if let Command::Compile(compile) = cli.command {
        return compile.run();
    }
    output::init_tracing(matches!(cli.command, Command::Serve(_)));
    if let Err(error) = cli.settings.prepare() {
        output::fail(&error);
        return ExitCode::FAILURE;
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::fail(&anyhow::Error::new(error).context("the async runtime does not start"));
            return ExitCode::FAILURE;
        }
    };
    let json = cli.settings.json;
    match runtime.block_on(run(cli)) {
        Ok(code) => code,
        Err(error) => {
            output::fail(&error);
            if json {
                output::fail_as_json(&error);
            }
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let settings = &cli.settings;
    match cli.command {
        Command::Serve(serve) => serve.run(settings).await,
        Command::Demo(demo) => demo.run().await,
        Command::Keys(keys) => keys.run(settings).await,
        Command::Write(write) => write.run(settings).await,
        Command::Search(search) => search.run(settings).await,
        Command::Read(read) => read.run(settings).await,
        Command::Stats(stats) => stats.run(settings).await,
        Command::History(history) => history.run(settings).await,
        Command::Disputes(disputes) => disputes.run(settings).await,
        Command::Resolve(resolve) => resolve.run(settings).await,
        Command::Forget(forget) => forget.run(settings).await,
        Command::Import(import) => import.run(settings).await,
        Command::Policy(policy) => policy.run(settings).await,
        Command::Drivers(drivers) => drivers.run(settings).await,
        Command::Cartridge(cartridge) => cartridge.run(settings).await,
        Command::Trust(trust) => trust.run(settings).await,
        Command::Jobs(jobs) => jobs.run(settings).await,
        Command::Replay(replay) => replay.run(settings).await,
        Command::Compile(compile) => Ok(compile.run()),
        Command::Conformance(conformance) => conformance.run(settings).await,
        Command::Eval(eval) => eval.run(settings).await,
        Command::Audit(audit) => audit.run(settings).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
