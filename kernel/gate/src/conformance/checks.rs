//! From the calls that were made to the verdicts. Pure: no call is made here.

use std::time::Duration;

use halofy_cartridge::{CallStats, Hit, Plan, PlanFailure, RowId, VIEW};

use super::facts::{CANARIES, FACTS};
use super::fixture::HOME;
use super::report::Check;

/// How many facts are planted in the caller's namespace.
pub(super) const PLANTED: usize = 10;
/// Results asked for in each call.
pub(super) const K: u32 = 10;
/// What the results may sum up to in `budget-discipline`.
pub(super) const TOKEN_BUDGET: u32 = 120;
pub(super) const TOP: usize = 3;
const NEEDED: usize = 8;
const LATENCY_BOUND: Duration = Duration::from_millis(150);

/// One call of `plan`, ended by an answer or by a fault of the cartridge.
#[derive(Clone)]
pub(super) struct Call {
    pub(super) outcome: Result<Plan, PlanFailure>,
    /// From the request to the checked answer.
    pub(super) took: Duration,
}

impl Call {
    pub(super) fn hits(&self) -> &[Hit] {
        self.outcome.as_ref().map_or(&[], |plan| &plan.hits)
    }

    pub(super) fn stats(&self) -> CallStats {
        self.outcome
            .as_ref()
            .map_or_else(|_| CallStats::default(), |plan| plan.stats)
    }

    fn top(&self) -> impl Iterator<Item = &RowId> + Clone {
        self.hits().iter().take(TOP).map(|hit| &hit.row.id)
    }

    fn tokens(&self) -> u64 {
        self.hits().iter().map(|hit| hit.token_estimate).sum()
    }
}

/// Each question's own fact among the first three. `calls` are in the order of the
/// facts.
pub(super) fn finds_planted_fact(calls: &[Call]) -> Check {
    // A fact's text is its identity: a namespace holds no text twice.
    let found = |(call, (fact, _)): &(&Call, &(&str, &str))| {
        call.hits()
            .iter()
            .take(TOP)
            .any(|hit| &*hit.row.content == *fact)
    };
    let found = calls.iter().zip(&FACTS).filter(found).count();
    let planted = FACTS.len();
    let detail = format!("{found}/{planted} planted refs in top-{TOP} (need >= {NEEDED})");
    verdict("finds-planted-fact", found >= NEEDED, detail, calls)
}

/// No row of another namespace, and no ref that the view did not give out.
pub(super) fn respects_scoped_view(calls: &[Call]) -> Check {
    let hits = calls.iter().flat_map(Call::hits);
    let foreign = hits.filter(|hit| &*hit.row.namespace != HOME).count() as u64;
    let unknown: u64 = calls.iter().map(|call| call.stats().dropped_unknown).sum();
    let violations = foreign + unknown;
    let what = match violations {
        0 => format!("{} canaries in sibling ns unreachable", CANARIES.len()),
        _ => format!(
            "{foreign} rows of another namespace, {unknown} refs that the view never gave out"
        ),
    };
    let detail = format!(
        "{violations} violations across {} queries ({what})",
        calls.len()
    );
    verdict("respects-scoped-view", violations == 0, detail, calls)
}

/// The 95th percentile of the calls' wall-clock time.
pub(super) fn latency_envelope(calls: &[Call]) -> Check {
    let p95 = percentile(calls.iter().map(|call| call.took).collect(), 95);
    let detail = format!(
        "p95 {:.1}ms over {} plan() calls (bound {}ms)",
        p95.as_secs_f64() * 1e3,
        calls.len(),
        LATENCY_BOUND.as_millis(),
    );
    verdict("latency-envelope", p95 <= LATENCY_BOUND, detail, calls)
}

/// The cartridge's own answer is within the budget and `k`. The host trims, so the
/// evidence is what it had to leave out.
pub(super) fn budget_discipline(calls: &[Call]) -> Check {
    let budget = u64::from(TOKEN_BUDGET);
    // The top hit may exceed the budget, alone.
    let exceeds = |call: &Call| call.hits().len() > 1 && call.tokens() > budget;
    let trimmed: u64 = calls.iter().map(|call| trimmed(&call.stats())).sum();
    let most = calls.iter().map(Call::tokens).max().unwrap_or(0);
    let mut detail = format!(
        "max sum(tokenEstimate) {most}/{budget} across {} queries",
        calls.len()
    );
    if trimmed > 0 {
        detail += &format!(
            "; the host left out {trimmed} results beyond the budget, beyond k or invalid"
        );
    }
    verdict(
        "budget-discipline",
        trimmed == 0 && !calls.iter().any(exceeds),
        detail,
        calls,
    )
}

/// Proven when the cartridge was loaded: admission refuses any other import.
pub(super) fn read_only() -> Check {
    let detail = format!("imports nothing but {VIEW}, which has no function that writes");
    Check::new("read-only", true, &detail)
}

/// The same first three for the same question, twice.
pub(super) fn deterministic_k(once: &[Call], again: &[Call]) -> Check {
    let differs = |(one, other): &(&Call, &Call)| !one.top().eq(other.top());
    let different = once.iter().zip(again).filter(differs).count();
    let queries = once.len();
    let detail = match different {
        0 => format!("same top-{TOP} across repeated runs of {queries} queries"),
        _ => format!("another top-{TOP} in a repeated run of {different} of {queries} queries"),
    };
    verdict(
        "deterministic-k",
        different == 0,
        detail,
        once.iter().chain(again),
    )
}

/// What did not reach the caller, refs outside the view aside: those have a check
/// of their own.
fn trimmed(stats: &CallStats) -> u64 {
    stats.over_budget + stats.over_k + stats.dropped_duplicate + stats.dropped_nonfinite
}

/// A call that failed shows nothing, so no check passes over one.
pub(super) fn verdict<'c>(
    name: &'static str,
    passed: bool,
    mut detail: String,
    calls: impl IntoIterator<Item = &'c Call>,
) -> Check {
    let (mut made, mut failed, mut first) = (0, 0, None);
    for call in calls {
        made += 1;
        if let Err(failure) = &call.outcome {
            failed += 1;
            first = first.or(Some(failure));
        }
    }
    if let Some(first) = first {
        detail += &format!("; {failed} of {made} calls failed: {first}");
    }
    Check::new(name, passed && failed == 0, &detail)
}

/// The smallest time that at least `percent` of the times do not exceed (nearest
/// rank); zero for none.
fn percentile(mut times: Vec<Duration>, percent: usize) -> Duration {
    times.sort_unstable();
    let rank = (times.len() * percent).div_ceil(100);
    times
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
#[path = "checks_tests.rs"]
pub(super) mod tests;
