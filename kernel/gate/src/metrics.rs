//! What the kernel counts. Names and label sets are here and nowhere else; labels
//! take values from closed sets, or from the drivers that are mounted.

use std::time::Duration;

use halofy_audit::Outcome;
use halofy_cartridge::CallStats;
use halofy_core::{JobKind, JobState};
use metrics::{counter, gauge, histogram};

use crate::breaker::State;
use crate::drivers::Driver;

pub(crate) fn syscall(op: &'static str, outcome: Outcome, took: Duration) {
    counter!("halofy_syscalls_total", "op" => op, "result" => outcome.as_str()).increment(1);
    histogram!("halofy_syscall_seconds", "op" => op).record(took.as_secs_f64());
}

pub(crate) fn refused(code: &'static str) {
    counter!("halofy_refusals_total", "code" => code).increment(1);
}

/// One run of a driver, served or not.
pub(crate) fn driver_ran(driver: &Driver, stats: &CallStats, free_places: usize) {
    let name = driver.name.to_string();
    let stage = |stage: &'static str, took: Duration| {
        let labels = [("driver", name.clone()), ("stage", stage.to_owned())];
        histogram!("halofy_driver_stage_seconds", &labels).record(took.as_secs_f64());
    };
    stage("instantiate", stats.instantiate);
    stage("guest", stats.guest);
    stage("view", stats.view);
    histogram!("halofy_driver_plan_seconds", "driver" => name.clone())
        .record(stats.total.as_secs_f64());
    counter!("halofy_driver_calls_total", "driver" => name.clone()).increment(1);
    for (kind, count) in [
        ("unknown_ref", stats.dropped_unknown),
        ("duplicate_ref", stats.dropped_duplicate),
        ("non_finite_score", stats.dropped_nonfinite),
    ] {
        if count > 0 {
            let labels = [("driver", name.clone()), ("kind", kind.to_owned())];
            counter!("halofy_driver_violations_total", &labels).increment(count);
        }
    }
    #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
    {
        let most = driver.faults.high_water(stats.memory) as f64;
        gauge!("halofy_driver_memory_high_water_bytes", "driver" => name).set(most);
        gauge!("halofy_cartridge_places_free").set(free_places as f64);
    }
}

pub(crate) fn quarantined(driver: &str) {
    let driver = driver.to_owned();
    counter!("halofy_driver_quarantines_total", "driver" => driver).increment(1);
}

pub(crate) fn shadow_ran(driver: &str, overlap: f64) {
    let driver = driver.to_owned();
    histogram!("halofy_shadow_overlap_ratio", "driver" => driver).record(overlap);
}

pub(crate) fn shadow_failed(reason: &'static str) {
    counter!("halofy_shadow_failures_total", "reason" => reason).increment(1);
}

pub(crate) fn shadow_skipped() {
    counter!("halofy_shadow_skipped_total").increment(1);
}

pub(crate) fn driver_fallback(driver: &str, reason: &'static str) {
    let driver = driver.to_owned();
    counter!("halofy_driver_fallbacks_total", "driver" => driver, "reason" => reason).increment(1);
}

pub(crate) fn audit_batch(rows: usize) {
    #[allow(clippy::cast_precision_loss, reason = "a batch has at most 512 rows")]
    histogram!("halofy_audit_commit_rows").record(rows as f64);
}

pub(crate) fn audit_sequenced(rows: usize) {
    counter!("halofy_audit_sequenced_total").increment(rows as u64);
}

/// One call of the language model, sent or not.
pub(crate) fn model_asked(call: &'static str, result: &'static str, took: Duration, tokens: u64) {
    counter!("halofy_model_requests_total", "call" => call, "result" => result).increment(1);
    if result != "circuit_open" {
        histogram!("halofy_model_seconds", "call" => call).record(took.as_secs_f64());
    }
    counter!("halofy_model_tokens_total").increment(tokens);
}

/// A write that was stored verbatim although a model should have read it.
pub(crate) fn brownout(reason: &'static str) {
    counter!("halofy_write_brownouts_total", "reason" => reason).increment(1);
}

/// 0 while calls go through, 1 while one finds out, 2 while none goes.
pub(crate) fn model_circuit(state: State) {
    let number = match state {
        State::Closed => 0.0,
        State::HalfOpen => 1.0,
        State::Open => 2.0,
    };
    gauge!("halofy_model_circuit_state").set(number);
}

/// Plain writes of one transaction.
pub(crate) fn write_batch(writes: usize) {
    #[allow(clippy::cast_precision_loss, reason = "at most 64")]
    histogram!("halofy_write_commit_rows").record(writes as f64);
}

/// One try of a job.
pub(crate) fn job(kind: JobKind, result: &'static str, took: Duration) {
    counter!("halofy_job_tries_total", "kind" => kind.as_str(), "result" => result).increment(1);
    histogram!("halofy_job_seconds", "kind" => kind.as_str()).record(took.as_secs_f64());
}

/// Jobs of the database, not of this kernel alone.
pub(crate) fn jobs_unsettled(counts: &[(JobState, u64)]) {
    for (state, count) in counts {
        #[allow(clippy::cast_precision_loss, reason = "far below 2^53")]
        gauge!("halofy_jobs", "state" => state.as_str()).set(*count as f64);
    }
}
