//! A view that counts what a cartridge does with it, whatever it is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halofy_cartridge::{Row, View, ViewFuture};

/// Passes everything on and counts the use of the entity graph.
pub(super) struct Watched {
    inner: Arc<dyn View>,
    graph_calls: Arc<AtomicU64>,
}

impl Watched {
    pub(super) fn over(inner: Arc<dyn View>, graph_calls: &Arc<AtomicU64>) -> Arc<dyn View> {
        Arc::new(Self {
            inner,
            graph_calls: Arc::clone(graph_calls),
        })
    }
}

impl View for Watched {
    fn namespace(&self) -> &str {
        self.inner.namespace()
    }
    fn dimensions(&self) -> Option<usize> {
        self.inner.dimensions()
    }
    fn candidates(&self, limit: usize) -> ViewFuture<'_, Vec<Row>> {
        self.inner.candidates(limit)
    }
    fn lexical_candidates(&self, query: String, limit: usize) -> ViewFuture<'_, Vec<Row>> {
        self.inner.lexical_candidates(query, limit)
    }
    fn vector_search(&self, embedding: Vec<f32>, k: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        self.inner.vector_search(embedding, k)
    }
    fn embed(&self, texts: Vec<String>) -> ViewFuture<'_, Vec<Vec<f32>>> {
        self.inner.embed(texts)
    }
    fn concepts(&self, query: String, k: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        self.inner.concepts(query, k)
    }
    fn entity_facts(&self, mention: String, hops: u8) -> ViewFuture<'_, Vec<(Row, Arc<str>)>> {
        self.graph_calls.fetch_add(1, Ordering::Relaxed);
        self.inner.entity_facts(mention, hops)
    }
}
