//! From a sidecar's answer to hits: drops what was not sent, orders, keeps `k` and the
//! budget, attaches the view's own content. Pure.

use std::collections::HashMap;

use halofy_cartridge::{CallStats, Hit, PlanQuery, Row};
use halofy_retrieval::{estimate_tokens, trim_to_budget};

use super::exchange::{Candidate, PlanAnswer};

/// The rows of one plan under the refs that stand for them in it. A ref says nothing
/// about the memory, and nothing in another plan.
#[derive(Debug)]
pub(super) struct Sent {
    id: String,
    rows: Vec<Row>,
    refs: Vec<String>,
}

impl Sent {
    /// `rows` under refs that begin with `id`, which names the plan.
    pub(super) fn new(id: &str, rows: Vec<Row>) -> Self {
        Self {
            id: id.to_owned(),
            refs: (0..rows.len()).map(|at| format!("{id}-{at}")).collect(),
            rows,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// As they are sent, in order.
    pub(super) fn candidates(&self) -> Vec<Candidate<'_>> {
        let rows = self.refs.iter().zip(&self.rows);
        rows.map(|(reference, row)| Candidate {
            reference,
            content: &row.content,
        })
        .collect()
    }
}

/// The hits, and in `stats` what was left out.
pub(super) fn settle(
    answer: &PlanAnswer,
    sent: &Sent,
    query: &PlanQuery,
    stats: &mut CallStats,
) -> Vec<Hit> {
    let mut best: Vec<(usize, f64)> = admitted(answer, sent, stats).into_iter().collect();
    best.sort_by(|(a, x), (b, y)| y.total_cmp(x).then(a.cmp(b)));
    let k = query.k as usize;
    stats.over_k += best.len().saturating_sub(k) as u64;
    best.truncate(k);
    let hit = |(at, score): (usize, f64)| Hit {
        row: sent.rows[at].clone(),
        score,
        token_estimate: estimate_tokens(&sent.rows[at].content),
    };
    let mut hits: Vec<Hit> = best.into_iter().map(hit).collect();
    let ranked = hits.len();
    let budget = u64::from(query.token_budget);
    trim_to_budget(&mut hits, budget, |hit| hit.token_estimate);
    stats.over_budget += (ranked - hits.len()) as u64;
    hits
}

/// The best score of each row that was sent, by its position.
fn admitted(answer: &PlanAnswer, sent: &Sent, stats: &mut CallStats) -> HashMap<usize, f64> {
    let refs = sent.refs.iter().enumerate();
    let places: HashMap<&str, usize> = refs.map(|(at, it)| (it.as_str(), at)).collect();
    let mut best = HashMap::new();
    for scored in &answer.refs {
        let Some(&at) = places.get(scored.reference.as_str()) else {
            stats.dropped_unknown += 1;
            continue;
        };
        let Some(score) = scored.score.filter(|score| score.is_finite()) else {
            stats.dropped_nonfinite += 1;
            continue;
        };
        // Adding zero turns -0 into 0, which then ties with it.
        let score = score + 0.0;
        let known = best.entry(at).and_modify(|known: &mut f64| {
            stats.dropped_duplicate += 1;
            *known = known.max(score);
        });
        known.or_insert(score);
    }
    best
}
