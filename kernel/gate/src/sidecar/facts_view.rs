//! A view over a few facts in memory, with the arms that a sidecar's candidates come
//! from. For the tests of this folder.

use std::future::{pending, ready};
use std::sync::Arc;

use halofy_cartridge::{PlanQuery, Row, RowId, View, ViewFailure, ViewFuture};
use halofy_retrieval::{bm25_scores, cosine, hash_embed};

const DIMENSION: usize = 256;
/// The ids of the rows, which no request may show.
pub(super) const FIRST_ID: u128 = 770_077_000;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mood {
    #[default]
    Well,
    /// The embedder does not answer.
    NoEmbedder,
    /// The embedder never comes back.
    HangingEmbedder,
    /// The store does not answer.
    NoStore,
}

pub(super) struct FactsView {
    rows: Vec<Row>,
    mood: Mood,
}

impl FactsView {
    pub(super) fn of<S: AsRef<str>>(facts: &[S]) -> Self {
        Self::in_mood(facts, Mood::Well)
    }

    pub(super) fn in_mood<S: AsRef<str>>(facts: &[S], mood: Mood) -> Self {
        let row = |(at, fact): (usize, &S)| Row {
            id: RowId::Memory(FIRST_ID + at as u128),
            content: Arc::from(fact.as_ref()),
            namespace: Arc::from("acme/eng"),
        };
        let rows = facts.iter().enumerate().map(row).collect();
        Self { rows, mood }
    }

    fn ranked(&self, scores: impl Iterator<Item = f64>, limit: usize) -> Vec<(Row, f64)> {
        let mut scored: Vec<_> = self.rows.iter().cloned().zip(scores).collect();
        scored.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        scored.truncate(limit);
        scored
    }

    fn stored<T: Send + 'static>(&self, answer: T) -> ViewFuture<'_, T> {
        let down = ViewFailure::Unavailable("the store does not answer".to_owned());
        let answer = match self.mood {
            Mood::NoStore => Err(down),
            _ => Ok(answer),
        };
        Box::pin(ready(answer))
    }
}

impl View for FactsView {
    fn namespace(&self) -> &str {
        "acme/eng"
    }
    fn dimensions(&self) -> Option<usize> {
        Some(DIMENSION)
    }
    fn candidates(&self, limit: usize) -> ViewFuture<'_, Vec<Row>> {
        self.stored(self.rows.iter().rev().take(limit).cloned().collect())
    }
    fn lexical_candidates(&self, query: String, limit: usize) -> ViewFuture<'_, Vec<Row>> {
        let texts: Vec<&str> = self.rows.iter().map(|row| &*row.content).collect();
        let ranked = self.ranked(bm25_scores(&query, &texts).into_iter(), limit);
        let sharing = ranked.into_iter().filter(|(_, score)| *score > 0.0);
        self.stored(sharing.map(|(row, _)| row).collect())
    }
    fn vector_search(&self, embedding: Vec<f32>, k: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        let near = |row: &Row| cosine(&embedding, &hash_embed(&row.content, DIMENSION));
        self.stored(self.ranked(self.rows.iter().map(near), k))
    }
    fn embed(&self, texts: Vec<String>) -> ViewFuture<'_, Vec<Vec<f32>>> {
        let vectors = texts.iter().map(|text| hash_embed(text, DIMENSION));
        match self.mood {
            Mood::HangingEmbedder => Box::pin(pending()),
            Mood::NoEmbedder => {
                let why = "the embedder does not answer".to_owned();
                Box::pin(ready(Err(ViewFailure::Unavailable(why))))
            }
            _ => Box::pin(ready(Ok(vectors.collect()))),
        }
    }
    fn concepts(&self, _: String, _: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        self.stored(Vec::new())
    }
    fn entity_facts(&self, _: String, _: u8) -> ViewFuture<'_, Vec<(Row, Arc<str>)>> {
        self.stored(Vec::new())
    }
}

pub(super) fn query(text: &str, k: u32, token_budget: u32) -> PlanQuery {
    PlanQuery {
        text: Arc::from(text),
        token_budget,
        k,
    }
}
