//! `halofy cartridge bench`: what a call costs, and where its time goes.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use halofy_cartridge::{CallStats, Cartridge, CartridgeHost, Limits, PlanQuery};
use halofy_gate::conformance::MemoryView;
use serde::Serialize;

use super::super::output::{self, line, table};
use super::super::settings::Settings;

/// Measure calls over a corpus in memory.
///
/// One call after another, each on a fresh instance, under the limits of a kernel that
/// nobody has configured. The view answers from memory, so that what is left is the
/// cartridge's own; a database costs more than any of it.
#[derive(Debug, Args)]
pub(crate) struct Bench {
    /// A component, or a folder to build first.
    #[arg(value_name = "FILE.wasm|DIR", default_value = ".")]
    source: PathBuf,
    /// Calls that are measured.
    #[arg(long, value_name = "N", default_value_t = 200)]
    calls: usize,
    /// Memories that the caller sees.
    #[arg(long, value_name = "N", default_value_t = 500)]
    memories: usize,
    /// Results asked for.
    #[arg(short, long, default_value_t = 10)]
    k: u32,
}

const TOKEN_BUDGET: u32 = 2_000;
const WARM_UP: usize = 5;
/// How long the call that is counted may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Times in milliseconds. Of the counts, the most that any call used.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Measured {
    driver: String,
    component_bytes: usize,
    /// Admission and compilation, once.
    load: f64,
    calls: usize,
    /// Fresh instances made: each call has one, those that warm up included.
    instances: usize,
    memories: usize,
    k: u32,
    total: Times,
    instantiate: Times,
    guest: Times,
    view: Times,
    host_calls: u64,
    rows: u64,
    bytes: u64,
    memory_bytes: u64,
    /// Instructions that the first question takes, as the engine counts them: the same on
    /// every machine.
    fuel: u64,
    violations: u64,
}

/// The 50th and 95th percentile, by nearest rank.
#[derive(Debug, Serialize)]
struct Times {
    p50: f64,
    p95: f64,
}

impl Bench {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        ensure!(self.calls > 0, "--calls is at least 1");
        let component = super::component(&self.source).await?;
        let began = Instant::now();
        let fuel = fuel(
            component.clone(),
            super::stem(&self.source),
            self.memories,
            self.k,
        );
        let (host, loaded) = super::load(component, super::stem(&self.source)).await?;
        let cartridge = loaded.context("the cartridge is refused")?;
        let load = began.elapsed();
        let calls = self.measure(&host, &cartridge).await?;
        let measured = self.summary(&cartridge, load, &calls, fuel.await?);
        if settings.json {
            output::json(&measured);
        } else {
            show(&measured);
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn measure(&self, host: &CartridgeHost, cartridge: &Cartridge) -> Result<Vec<CallStats>> {
        let view = MemoryView::corpus(self.memories);
        let questions = MemoryView::questions().cycle();
        let mut calls = Vec::with_capacity(self.calls);
        for (at, question) in questions.take(WARM_UP + self.calls).enumerate() {
            let query = PlanQuery {
                text: question.into(),
                token_budget: TOKEN_BUDGET,
                k: self.k,
            };
            let planned = host.plan(cartridge, Arc::clone(&view) as _, query).await;
            let plan = planned.with_context(|| format!("no answer to {question:?}"))?;
            if at >= WARM_UP {
                calls.push(plan.stats);
            }
        }
        Ok(calls)
    }

    fn summary(
        &self,
        cartridge: &Cartridge,
        load: Duration,
        calls: &[CallStats],
        fuel: u64,
    ) -> Measured {
        let most = |of: fn(&CallStats) -> u64| calls.iter().map(of).max().unwrap_or(0);
        Measured {
            driver: cartridge.name().to_owned(),
            component_bytes: cartridge.size(),
            load: millis(load),
            calls: calls.len(),
            instances: calls.len() + WARM_UP,
            memories: self.memories,
            k: self.k,
            total: Times::of(calls, |call| call.total),
            instantiate: Times::of(calls, |call| call.instantiate),
            guest: Times::of(calls, |call| call.guest),
            view: Times::of(calls, |call| call.view),
            host_calls: most(|call| call.host_calls),
            rows: most(|call| call.rows),
            bytes: most(|call| call.bytes),
            memory_bytes: most(|call| call.memory),
            fuel,
            violations: most(CallStats::violations),
        }
    }
}

/// Asks the first question on an engine that counts, and is slower for it.
async fn fuel(component: Vec<u8>, name: String, memories: usize, k: u32) -> Result<u64> {
    let loading = tokio::task::spawn_blocking(move || {
        let host = CartridgeHost::new(Limits {
            count_fuel: true,
            total_time: PATIENCE,
            ..Limits::default()
        })?;
        let cartridge = host.load(&component, &name)?;
        anyhow::Ok((host, cartridge))
    });
    let (host, cartridge) = loading.await.context("counting was interrupted")??;
    let question = MemoryView::questions()
        .next()
        .context("there is no question")?;
    let query = PlanQuery {
        text: question.into(),
        token_budget: TOKEN_BUDGET,
        k,
    };
    let view = MemoryView::corpus(memories);
    let plan = host.plan(&cartridge, view as _, query).await?;
    Ok(plan.stats.fuel)
}

impl Times {
    fn of(calls: &[CallStats], time: impl Fn(&CallStats) -> Duration) -> Self {
        let mut times: Vec<Duration> = calls.iter().map(time).collect();
        times.sort_unstable();
        let rank = |percent: usize| (times.len() * percent).div_ceil(100).saturating_sub(1);
        let at = |percent| times.get(rank(percent)).copied().unwrap_or_default();
        Self {
            p50: millis(at(50)),
            p95: millis(at(95)),
        }
    }
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn show(measured: &Measured) {
    line(format_args!(
        "{}: {} bytes, loaded in {:.0} ms; {} calls over {} memories, k {}",
        measured.driver,
        measured.component_bytes,
        measured.load,
        measured.calls,
        measured.memories,
        measured.k,
    ));
    let row = |part: &str, times: &Times| {
        [
            part.to_owned(),
            format!("{:.3}", times.p50),
            format!("{:.3}", times.p95),
        ]
    };
    table(
        ["ms", "p50", "p95"],
        [
            row("total", &measured.total),
            row("instantiate", &measured.instantiate),
            row("guest", &measured.guest),
            row("view", &measured.view),
        ],
    );
    line(format_args!(
        "at most {} host calls, {} rows, {} bytes, {} violations a call; {} fresh instances",
        measured.host_calls, measured.rows, measured.bytes, measured.violations, measured.instances,
    ));
    line(format_args!(
        "at most {} KiB of memory; the first question burns {} units of fuel",
        measured.memory_bytes >> 10,
        measured.fuel,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let call = |millis| CallStats {
            total: Duration::from_millis(millis),
            ..CallStats::default()
        };
        let calls: Vec<CallStats> = (1..=20).rev().map(call).collect();
        let times = Times::of(&calls, |call| call.total);
        assert_eq!((times.p50, times.p95), (10.0, 19.0));
    }
}
