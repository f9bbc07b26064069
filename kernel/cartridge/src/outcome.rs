//! From what a guest answered to a plan: drops what the view did not hand out,
//! orders, keeps the budget, attaches content. Pure, so that a replay agrees.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use halofy_retrieval::{estimate_tokens, trim_to_budget};

use crate::table::AdmissionTable;
use crate::view::Row;
use crate::wire::ScoredRef;

/// One request for context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanQuery {
    /// What the caller asks.
    pub text: Arc<str>,
    /// The token estimates of the hits sum up to at most this; the top hit is
    /// kept even alone above it.
    pub token_budget: u32,
    /// At most this many hits.
    pub k: u32,
}

/// One ranked row.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// As the view handed it out in this call.
    pub row: Row,
    /// Finite, never -0. Higher is better.
    pub score: f64,
    /// `ceil(characters / 4)` of the content.
    pub token_estimate: u64,
}

/// What a call answered, and what it cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// Best first; equal scores in the order of admission.
    pub hits: Vec<Hit>,
    /// What was used and what was dropped.
    pub stats: CallStats,
}

/// Counts and times of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallStats {
    /// Calls of the view.
    pub host_calls: u64,
    /// Rows handed out, repeats counted.
    pub rows: u64,
    /// Bytes of content and vectors handed out, repeats counted.
    pub bytes: u64,
    /// Results whose handle the view did not give out in this call.
    pub dropped_unknown: u64,
    /// Results that named a row again; the best one was kept.
    pub dropped_duplicate: u64,
    /// Results whose score is NaN or infinite.
    pub dropped_nonfinite: u64,
    /// Results beyond `k`.
    pub over_k: u64,
    /// Results within `k` that did not fit the token budget.
    pub over_budget: u64,
    /// Making the store and the instance, start functions included, what they ask of
    /// the view aside.
    pub instantiate: Duration,
    /// The whole call, from the store to the checked answer or the failure.
    pub total: Duration,
    /// Waiting for the view, part of `total`.
    pub view: Duration,
    /// What is left of `total` without `instantiate` and `view`: the guest's own work,
    /// and copying across the boundary.
    pub guest: Duration,
    /// What the guest executed, in the engine's units, about one for an instruction;
    /// 0 where [`Limits::count_fuel`](crate::Limits::count_fuel) is off.
    pub fuel: u64,
    /// The most bytes of linear memory that the guest held.
    pub memory: u64,
}

impl CallStats {
    /// Sets `total`, and with it `guest`.
    pub(crate) fn finish(&mut self, total: Duration) {
        self.total = total;
        let elsewhere = self.instantiate + self.view;
        self.guest = total.saturating_sub(elsewhere);
    }

    /// Results that break the contract, so that conformance and quarantine need
    /// not know the kinds. Exceeding the budget or `k` is not among them.
    pub fn violations(&self) -> u64 {
        self.dropped_unknown + self.dropped_duplicate + self.dropped_nonfinite
    }
}

/// Turns the guest's answer into hits and counts in `stats` what is left out.
pub(crate) fn settle(
    answer: &[ScoredRef],
    table: &AdmissionTable,
    query: &PlanQuery,
    stats: &mut CallStats,
) -> Vec<Hit> {
    let mut best = admitted(answer, table, stats);
    best.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.handle.cmp(&b.handle)));
    let k = query.k as usize;
    stats.over_k = best.len().saturating_sub(k) as u64;
    best.truncate(k);
    within_budget(&best, table, u64::from(query.token_budget), stats)
}

/// The best score of each row that the view handed out.
fn admitted(answer: &[ScoredRef], table: &AdmissionTable, stats: &mut CallStats) -> Vec<ScoredRef> {
    let mut places: HashMap<u32, usize> = HashMap::with_capacity(answer.len().min(1024));
    let mut best: Vec<ScoredRef> = Vec::new();
    for &ScoredRef { handle, score } in answer {
        // Adding zero turns -0 into 0, which then ties with it.
        let scored = ScoredRef {
            handle,
            score: score + 0.0,
        };
        if table.row(handle).is_none() {
            stats.dropped_unknown += 1;
        } else if !score.is_finite() {
            stats.dropped_nonfinite += 1;
        } else if let Some(&place) = places.get(&handle) {
            stats.dropped_duplicate += 1;
            best[place].score = best[place].score.max(scored.score);
        } else {
            places.insert(handle, best.len());
            best.push(scored);
        }
    }
    best
}

/// Attaches the content and keeps what fits, as `halofy_retrieval` has it.
fn within_budget(
    ranked: &[ScoredRef],
    table: &AdmissionTable,
    budget: u64,
    stats: &mut CallStats,
) -> Vec<Hit> {
    let hit = |scored: &ScoredRef| {
        let row = table.row(scored.handle)?;
        Some(Hit {
            row: row.clone(),
            score: scored.score,
            token_estimate: estimate_tokens(&row.content),
        })
    };
    let mut hits: Vec<Hit> = ranked.iter().filter_map(hit).collect();
    let ranked = hits.len();
    trim_to_budget(&mut hits, budget, |hit| hit.token_estimate);
    stats.over_budget += (ranked - hits.len()) as u64;
    hits
}
