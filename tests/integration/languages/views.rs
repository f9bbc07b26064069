//! Views that answer what a store would not: scores at the edges, and failures.

use std::future::ready;
use std::sync::Arc;

use halofy_cartridge::{Row, RowId, View, ViewFailure, ViewFuture};

/// An arm of the view that does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arm {
    Lexical,
    Embed,
    Vector,
}

/// Rows with the scores that vector search is to give them, each row twice: once with its
/// score, once with that of the row at the other end.
pub(super) struct Scripted {
    rows: Vec<Row>,
    scores: Vec<f64>,
    broken: Option<Arm>,
}

impl Scripted {
    pub(super) fn new(words: &str, scores: &[f64]) -> Self {
        let row = |at: usize| Row {
            id: RowId::Memory(at as u128),
            content: format!("{at} {words}").into(),
            namespace: "acme".into(),
        };
        Self {
            rows: (0..scores.len()).map(row).collect(),
            scores: scores.to_vec(),
            broken: None,
        }
    }

    /// One row, and an arm that fails.
    pub(super) fn broken(arm: Arm) -> Self {
        Self {
            broken: Some(arm),
            ..Self::new("anything", &[0.5])
        }
    }

    fn answer<T: Send + 'static>(&self, arm: Arm, value: T) -> ViewFuture<'_, T> {
        let down = || ViewFailure::Unavailable("down, naïvely".to_owned());
        let broken = self.broken == Some(arm);
        Box::pin(ready(if broken { Err(down()) } else { Ok(value) }))
    }
}

impl View for Scripted {
    fn namespace(&self) -> &str {
        "acme"
    }
    fn dimensions(&self) -> Option<usize> {
        Some(2)
    }
    fn candidates(&self, _: usize) -> ViewFuture<'_, Vec<Row>> {
        Box::pin(ready(Ok(self.rows.clone())))
    }
    /// Every other row, so that vector search admits some on its own.
    fn lexical_candidates(&self, _: String, _: usize) -> ViewFuture<'_, Vec<Row>> {
        let rows = self.rows.iter().step_by(2).cloned().collect();
        self.answer(Arm::Lexical, rows)
    }
    fn vector_search(&self, _: Vec<f32>, _: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        let rows = self.rows.iter().chain(&self.rows).cloned();
        let scores = self.scores.iter().chain(self.scores.iter().rev()).copied();
        self.answer(Arm::Vector, rows.zip(scores).collect())
    }
    fn embed(&self, texts: Vec<String>) -> ViewFuture<'_, Vec<Vec<f32>>> {
        self.answer(Arm::Embed, vec![vec![1.0, 0.0]; texts.len()])
    }
    fn concepts(&self, _: String, _: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        Box::pin(ready(Ok(Vec::new())))
    }
    fn entity_facts(&self, _: String, _: u8) -> ViewFuture<'_, Vec<(Row, Arc<str>)>> {
        Box::pin(ready(Ok(Vec::new())))
    }
}
