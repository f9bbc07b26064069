//! What the kernel counts. Names and label sets are here and nowhere else; labels
//! take values from closed sets, or from the drivers that are mounted.

use std::time::Duration;

use halofy_audit::Outcome;
use metrics::{counter, histogram};

pub(crate) fn syscall(op: &'static str, outcome: Outcome, took: Duration) {
    counter!("halofy_syscalls_total", "op" => op, "result" => outcome.as_str()).increment(1);
    histogram!("halofy_syscall_seconds", "op" => op).record(took.as_secs_f64());
}

pub(crate) fn refused(code: &'static str) {
    counter!("halofy_refusals_total", "code" => code).increment(1);
}

pub(crate) fn driver_call(driver: &str, took: Duration) {
    let driver = driver.to_owned();
    histogram!("halofy_driver_plan_seconds", "driver" => driver).record(took.as_secs_f64());
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
