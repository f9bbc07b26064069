//! my-engine: ranks what the view offers by nearness, and lifts what shares words with the
//! query. Replace `plan` with your own ranking.

use std::collections::{BTreeMap, BTreeSet};

use halofy_driver::{Capabilities, Handle, PlanError, Query, Retriever, ScopedView, ScoredRef};
use halofy_retrieval::{estimate_tokens, terms, trim_to_budget};

/// The engine.
pub struct MyEngine;

impl Retriever for MyEngine {
    // Set `graph` only if you call `entity_facts`: conformance checks that it is honest.
    const CAPABILITIES: Capabilities = Capabilities {
        graph: false,
        streaming: false,
    };

    fn plan(view: &impl ScopedView, query: &Query) -> Result<Vec<ScoredRef>, PlanError> {
        plan(view, query)
    }
}

// In tests the crate is a library: there is no kernel to serve.
#[cfg(target_family = "wasm")]
halofy_driver::export!(MyEngine);

/// Ranks, best first. Refs come from the view, the order is total, the budget is kept.
pub fn plan(view: &impl ScopedView, query: &Query) -> Result<Vec<ScoredRef>, PlanError> {
    let vectors = view.embed(&[&query.text])?;
    let Some(vector) = vectors.first() else {
        return Err(PlanError::Unavailable("the embedder gave no vector".into()));
    };
    let near = view.vector_search(vector, query.k.saturating_mul(4).max(20))?;
    let pool = view.lexical_candidates(&query.text, 200)?;

    let mut contents: BTreeMap<Handle, String> = BTreeMap::new();
    let mut scores: BTreeMap<Handle, f64> = BTreeMap::new();
    for hit in near {
        scores.insert(hit.handle, 0.5 * hit.score.max(0.0));
        contents.insert(hit.handle, hit.content);
    }
    let asked: BTreeSet<String> = terms(&query.text).into_iter().collect();
    for row in pool {
        let held: BTreeSet<String> = terms(&row.content).into_iter().collect();
        let shared = asked.intersection(&held).count() as f64 / asked.len().max(1) as f64;
        *scores.entry(row.handle).or_insert(0.0) += 0.5 * shared;
        contents.insert(row.handle, row.content);
    }

    let hit = |(handle, score): (&Handle, &f64)| ScoredRef {
        handle: *handle,
        score: *score,
    };
    let mut hits: Vec<ScoredRef> = scores.iter().map(hit).collect();
    hits.sort_by(|a, b| {
        let by_score = b.score.total_cmp(&a.score);
        by_score.then(a.handle.cmp(&b.handle))
    });
    hits.truncate(query.k as usize);
    let tokens = |hit: &ScoredRef| estimate_tokens(&contents[&hit.handle]);
    trim_to_budget(&mut hits, u64::from(query.token_budget), tokens);
    Ok(hits)
}

#[cfg(test)]
mod tests {
    use halofy_driver::fake::FakeView;

    use super::*;

    #[test]
    fn the_right_memory_comes_first() {
        let view = FakeView::new("acme/eng").memories([
            "The office is in Bern.",
            "Dana leads the platform team.",
            "Releases go out on Tuesdays.",
        ]);
        let query = Query {
            text: "who leads the platform team?".into(),
            token_budget: 1000,
            k: 2,
        };
        let hits = plan(&view, &query).expect("the fake view answers");
        assert_eq!(
            view.content(hits[0].handle),
            Some("Dana leads the platform team.")
        );
        assert!(hits.len() <= 2);
    }
}
