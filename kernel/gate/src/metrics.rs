//! What the kernel counts. Names and label sets are here and nowhere else; labels
//! take values from closed sets, or from the drivers that are mounted.

use std::time::Duration;

use halofy_audit::Outcome;
use halofy_cartridge::CallStats;
use metrics::{counter, gauge, histogram};

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
