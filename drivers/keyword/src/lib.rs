//! Vector search and coverage of the query's words, 0.6 to 0.4, as the README of this folder
//! defines it to the bit. What must not live here: anything that the same engine in C,
//! JavaScript and Python does not do.

use std::collections::{BTreeMap, BTreeSet};

use halofy_driver::{Capabilities, Handle, PlanError, Query, Retriever, ScopedView, ScoredRef};
use halofy_retrieval::{estimate_tokens, trim_to_budget};

const COSINE_WEIGHT: f64 = 0.6;
const COVERAGE_WEIGHT: f64 = 0.4;
const POOL: u32 = 500;
const LEAST_NEIGHBOURS: u32 = 15;

/// The keyword engine.
#[derive(Debug)]
pub struct Keyword;

impl Retriever for Keyword {
    const CAPABILITIES: Capabilities = Capabilities {
        graph: false,
        streaming: false,
    };

    fn plan(view: &impl ScopedView, query: &Query) -> Result<Vec<ScoredRef>, PlanError> {
        plan(view, query)
    }
}

// Natively the crate is a library for tests: there is no host to serve.
#[cfg(target_family = "wasm")]
halofy_driver::export!(Keyword);

/// Ranks what `view` offers. Scores lie in (0, 1].
///
/// # Errors
/// [`PlanError::Unavailable`] when an arm of the view fails.
pub fn plan(view: &impl ScopedView, query: &Query) -> Result<Vec<ScoredRef>, PlanError> {
    if query.k == 0 {
        return Ok(Vec::new());
    }
    let rows = rows(view, query)?;
    let asked = terms(&query.text);
    let scored = rows.iter().map(|(handle, row)| ScoredRef {
        handle: *handle,
        score: COSINE_WEIGHT * row.cosine + COVERAGE_WEIGHT * coverage(&asked, &row.content),
    });
    let mut hits: Vec<ScoredRef> = scored.filter(|hit| hit.score > 0.0).collect();
    hits.sort_by(|a, b| {
        let by_score = b.score.total_cmp(&a.score);
        by_score.then(a.handle.cmp(&b.handle))
    });
    hits.truncate(query.k as usize);
    let tokens = |hit: &ScoredRef| estimate_tokens(&rows[&hit.handle].content);
    trim_to_budget(&mut hits, u64::from(query.token_budget), tokens);
    Ok(hits)
}

struct Row {
    content: String,
    /// The best that vector search gave it, 0 when it gave none.
    cosine: f64,
}

/// Everything that either arm hands out.
fn rows(view: &impl ScopedView, query: &Query) -> Result<BTreeMap<Handle, Row>, PlanError> {
    let pool = view.lexical_candidates(&query.text, POOL)?;
    let vectors = view.embed(&[&query.text])?;
    let Some(vector) = vectors.first() else {
        let why = "the embedder gave no vector".to_owned();
        return Err(PlanError::Unavailable(why));
    };
    let near = view.vector_search(vector, query.k.saturating_mul(3).max(LEAST_NEIGHBOURS))?;
    let row = |content| Row {
        content,
        cosine: 0.0,
    };
    let pool = pool.into_iter().map(|hit| (hit.handle, row(hit.content)));
    let mut rows: BTreeMap<Handle, Row> = pool.collect();
    for hit in near {
        let row = rows.entry(hit.handle).or_insert_with(|| row(hit.content));
        row.cosine = row.cosine.max(hit.score);
    }
    Ok(rows)
}

/// The distinct words: runs of `a` to `z` and `0` to `9` in the lower-cased text.
fn terms(text: &str) -> BTreeSet<String> {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Which part of the words of the query stands in `content`; 0 for a query without words.
fn coverage(asked: &BTreeSet<String>, content: &str) -> f64 {
    if asked.is_empty() {
        return 0.0;
    }
    let found = asked.intersection(&terms(content)).count();
    found as f64 / asked.len() as f64
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

    /// A view in which every text has the same vector, so that every cosine is 1.
    fn alike() -> FakeView {
        FakeView::with_embedder("acme", |_| vec![1.0, 0.0])
    }

    #[test]
    fn a_term_is_a_run_of_ascii_letters_and_digits() {
        let words = |text| terms(text).into_iter().collect::<Vec<_>>();
        assert_eq!(words("Big-Red 42x, big!"), ["42x", "big", "red"]);
        assert_eq!(words("naïve"), ["na", "ve"]);
        // The only two letters beyond ASCII whose lower case holds one of ASCII.
        assert_eq!(words("\u{212a}9 \u{130}x"), ["i", "k9", "x"]);
        assert!(words("東京 🎉 — ÄÖ").is_empty());
    }

    #[test]
    fn a_score_is_three_fifths_cosine_and_two_fifths_coverage() {
        let view = alike().memories(["red big", "red", "blue"]);
        let hits = plan(&view, &ask("big red", 9, 1000)).expect("it answers");
        let scores: Vec<f64> = hits.iter().map(|hit| hit.score).collect();
        assert_eq!(
            scores,
            [0.6 + 0.4, 0.6 + 0.4 * 0.5, 0.6],
            "both words, one, none"
        );
    }

    #[test]
    fn equal_scores_come_in_the_order_of_admission() {
        let view = alike().memories(["blue", "green", "red"]);
        let hits = plan(&view, &ask("unheard", 9, 1000)).expect("it answers");
        let handles: Vec<Handle> = hits.iter().map(|hit| hit.handle).collect();
        assert_eq!(handles, [0, 1, 2]);
    }

    #[test]
    fn what_scores_nothing_is_left_out() {
        let view = FakeView::with_embedder("acme", |text| match text {
            "asked" => vec![1.0, 0.0],
            _ => vec![-1.0, 0.0],
        });
        let view = view.memories(["against it", "asked and against"]);
        let hits = plan(&view, &ask("asked", 9, 1000)).expect("it answers");
        assert_eq!(hits.len(), 1);
        assert_eq!(hits[0].score, 0.4);
    }

    #[test]
    fn each_question_finds_its_fact() {
        let view = FakeView::new("acme").memories(FACTS);
        for (question, fact) in [
            ("where is the accordion of Marisol?", 0),
            ("what does the booster burn?", 1),
            ("who breeds axolotls?", 2),
        ] {
            view.next_call();
            let hits = plan(&view, &ask(question, 2, 1000)).expect("it answers");
            assert_eq!(view.content(hits[0].handle), Some(FACTS[fact]));
        }
    }

    #[test]
    fn the_view_is_asked_for_a_pool_and_three_times_k() {
        let view = FakeView::new("acme").memories(FACTS);
        plan(&view, &ask("sextants", 9, 1000)).expect("it answers");
        let query = "sextants".to_owned();
        let texts = vec![query.clone()];
        let expected = [
            Call::LexicalCandidates { query, limit: 500 },
            Call::Embed { texts },
            Call::VectorSearch {
                dimension: 256,
                k: 27,
            },
        ];
        assert_eq!(*view.calls(), expected);
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
    fn the_budget_keeps_the_top_hit_and_passes_over_what_is_too_long() {
        let view = alike().memories(["red big and a tail that is long", "red and long too", "red"]);
        let hits = plan(&view, &ask("big red", 3, 5)).expect("it answers");
        let handles: Vec<Handle> = hits.iter().map(|hit| hit.handle).collect();
        assert_eq!(handles.len(), 1, "the top hit alone exceeds the budget");
        view.next_call();
        let hits = plan(&view, &ask("big red", 3, 10)).expect("it answers");
        let kept: Vec<_> = hits
            .iter()
            .filter_map(|hit| view.content(hit.handle))
            .collect();
        assert_eq!(kept, ["red big and a tail that is long", "red"]);
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
