//! The referee lane: vector search and BM25, half and half. Every other engine is measured
//! against it, and it is what is served when one fails, so it stays plain. What must not
//! live here: anything that would make it a better retriever and a worse referee.

use halofy_driver::{
    Candidate, Capabilities, Handle, PlanError, Query, Retriever, ScopedView, ScoredCandidate,
    ScoredRef,
};
use halofy_retrieval::{bm25_scores, estimate_tokens, hybrid_merge, pool_size, trim_to_budget};

/// The baseline engine.
#[derive(Debug)]
pub struct Baseline;

impl Retriever for Baseline {
    const CAPABILITIES: Capabilities = Capabilities {
        graph: false,
        streaming: false,
    };

    fn plan(view: &impl ScopedView, query: &Query) -> Result<Vec<ScoredRef>, PlanError> {
        plan(view, query)
    }
}

// Natively the crate is a library for tests and measurements: there is no host to serve.
#[cfg(target_family = "wasm")]
halofy_driver::export!(Baseline);

/// Ranks what `view` offers: both lanes over-fetched, normalised and merged with equal
/// weights, the answer trimmed to the token budget. Scores lie in [0, 1].
///
/// # Errors
/// [`PlanError::Unavailable`] when an arm of the view fails: the referee does not guess.
pub fn plan(view: &impl ScopedView, query: &Query) -> Result<Vec<ScoredRef>, PlanError> {
    let k = query.k as usize;
    if k == 0 {
        return Ok(Vec::new());
    }
    let limit = as_limit(pool_size(k));
    let near = nearest(view, &query.text, limit)?;
    let pool = view.lexical_candidates(&query.text, limit)?;
    let contents = Contents::of(&near, &pool);
    let vector: Vec<_> = near.iter().map(|hit| (hit.handle, hit.score)).collect();
    let lexical = lexical_lane(&query.text, &contents);
    let mut hits = hybrid_merge(&vector, &lexical, k);
    let tokens = |(handle, _): &(Handle, f64)| contents.get(*handle).map_or(0, estimate_tokens);
    trim_to_budget(&mut hits, u64::from(query.token_budget), tokens);
    let scored = |(handle, score)| ScoredRef { handle, score };
    Ok(hits.into_iter().map(scored).collect())
}

fn nearest(
    view: &impl ScopedView,
    text: &str,
    limit: u32,
) -> Result<Vec<ScoredCandidate>, PlanError> {
    match view.embed(&[text])?.first() {
        Some(vector) => Ok(view.vector_search(vector, limit)?),
        None => Err(PlanError::Unavailable(
            "the embedder gave no vector".to_owned(),
        )),
    }
}

/// BM25 of every row that the view handed out, which together are taken for the corpus.
fn lexical_lane(text: &str, contents: &Contents<'_>) -> Vec<(Handle, f64)> {
    let texts: Vec<&str> = contents.0.iter().map(|(_, content)| *content).collect();
    let scores = bm25_scores(text, &texts);
    let handles = contents.0.iter().map(|(handle, _)| *handle);
    handles.zip(scores).collect()
}

/// What the rows of both arms say, each once, by handle.
struct Contents<'c>(Vec<(Handle, &'c str)>);

impl<'c> Contents<'c> {
    fn of(near: &'c [ScoredCandidate], pool: &'c [Candidate]) -> Self {
        let near = near.iter().map(|hit| (hit.handle, hit.content.as_str()));
        let pool = pool.iter().map(|row| (row.handle, row.content.as_str()));
        let mut rows: Vec<_> = near.chain(pool).collect();
        rows.sort_unstable_by_key(|(handle, _)| *handle);
        rows.dedup_by_key(|(handle, _)| *handle);
        Self(rows)
    }

    fn get(&self, handle: Handle) -> Option<&'c str> {
        let found = self.0.binary_search_by_key(&handle, |(other, _)| *other);
        found.ok().map(|at| self.0[at].1)
    }
}

fn as_limit(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use halofy_driver::ViewError;
    use halofy_driver::fake::{Arm, Call, FakeView};

    use super::*;

    const FACTS: [&str; 4] = [
        "Marisol keeps her accordion in the cedar attic",
        "The zephyr booster burns methalox",
        "Ottoline breeds axolotls beside the greenhouse, and has for many long years",
        "The harbour master repairs brass sextants",
    ];

    fn ask(text: &str, k: u32, token_budget: u32) -> Query {
        Query {
            text: text.to_owned(),
            token_budget,
            k,
        }
    }

    fn answer(view: &FakeView, query: &Query) -> Vec<String> {
        let hits = plan(view, query).expect("the view answers");
        hits.iter()
            .map(|hit| view.content(hit.handle).expect("admitted").to_owned())
            .collect()
    }

    #[test]
    fn what_both_lanes_find_comes_first() {
        let view = FakeView::new("acme").memories(FACTS);
        for (question, fact) in [
            ("where is the accordion of Marisol?", 0),
            ("what does the booster burn?", 1),
            ("who bred axolotls?", 2),
        ] {
            view.next_call();
            assert_eq!(
                answer(&view, &ask(question, 2, 1000))[0],
                FACTS[fact],
                "{question}"
            );
        }
    }

    #[test]
    fn each_lane_is_over_fetched_once() {
        let view = FakeView::new("acme").memories(FACTS);
        answer(&view, &ask("sextants", 9, 1000));
        let query = "sextants".to_owned();
        assert_eq!(
            *view.calls(),
            [
                Call::Embed {
                    texts: vec![query.clone()]
                },
                Call::VectorSearch {
                    dimension: 256,
                    k: 144
                },
                Call::LexicalCandidates { query, limit: 144 },
            ]
        );
    }

    #[test]
    fn the_budget_passes_over_what_is_too_long_and_keeps_the_top_hit() {
        let view = FakeView::new("acme").memories(FACTS);
        let all = answer(&view, &ask("axolotls and booster", 4, 1000));
        assert_eq!(all.len(), 4);
        view.next_call();
        assert_eq!(answer(&view, &ask("axolotls and booster", 4, 1)), all[..1]);
        view.next_call();
        let some = answer(&view, &ask("Marisol", 4, 25));
        let total: u64 = some.iter().map(|text| estimate_tokens(text)).sum();
        assert!(some.len() > 1 && total <= 25, "{some:?}");
    }

    #[test]
    fn scores_descend_and_no_result_repeats() {
        let view = FakeView::new("acme").memories(FACTS);
        let hits =
            plan(&view, &ask("the accordion and the sextants", 4, 1000)).expect("it answers");
        assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score));
        assert!(hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
        let mut handles: Vec<_> = hits.iter().map(|hit| hit.handle).collect();
        handles.sort_unstable();
        handles.dedup();
        assert_eq!(handles.len(), hits.len());
    }

    #[test]
    fn nothing_asked_for_is_nothing_looked_up() {
        let view = FakeView::new("acme").memories(FACTS);
        assert_eq!(plan(&view, &ask("accordion", 0, 1000)), Ok(Vec::new()));
        assert!(view.calls().is_empty());
        let empty = FakeView::new("acme");
        assert_eq!(plan(&empty, &ask("accordion", 5, 1000)), Ok(Vec::new()));
    }

    #[test]
    fn an_arm_that_fails_makes_the_engine_unavailable() {
        for arm in [Arm::Embed, Arm::VectorSearch, Arm::LexicalCandidates] {
            let error = ViewError::LimitExceeded("no more".to_owned());
            let view = FakeView::new("acme").memories(FACTS).failing(arm, error);
            let refused = PlanError::Unavailable("no more".to_owned());
            assert_eq!(
                plan(&view, &ask("accordion", 5, 1000)),
                Err(refused),
                "{arm:?}"
            );
        }
    }
}
