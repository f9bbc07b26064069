//! The scoped view over the store: the whole world of a cartridge during one call.
//!
//! Invariant: every arm reads through one [`Scope`], made from the caller's
//! identity when the view is made, and through the store's one predicate.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use halofy_cartridge::{Row, RowId, View, ViewFailure, ViewFuture};
use halofy_core::{Classification, Destination, MemoryId, Provider};
use halofy_store::{Candidate, Scope, Store, StoreError, Validness};
use unicode_segmentation::UnicodeSegmentation;

use crate::embed::{EmbedError, Embedder, check_vectors};

const MAX_ENTITY_FACTS: usize = 500;

/// What one call looks at: which rows, of when, and what of it may leave.
#[derive(Debug, Clone)]
pub(crate) struct Sight {
    pub(crate) scope: Scope,
    pub(crate) validness: Validness,
    pub(crate) embeddable: Embeddable,
}

/// Which texts may go to the embedder. A cartridge has stored texts before it, and an
/// embedder outside would keep no promise that their labels make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Embeddable {
    /// The embedder is the operator's own: nothing leaves.
    Anything,
    /// Nothing but words of the query.
    WordsOf(Arc<str>),
    /// The query itself may not leave.
    Nothing,
}

impl Embeddable {
    /// What a query's label and the provider allow.
    pub(crate) fn of(query: &Arc<str>, label: &Classification, provider: &Provider<'_>) -> Self {
        if provider.local {
            return Self::Anything;
        }
        match label.allows(Destination::EmbeddingProvider, provider) {
            Ok(()) => Self::WordsOf(query.clone()),
            Err(_) => Self::Nothing,
        }
    }

    fn admits(&self, texts: &[String]) -> bool {
        match self {
            Self::Anything => true,
            Self::Nothing => false,
            Self::WordsOf(query) => {
                let known: HashSet<String> = query.unicode_words().map(str::to_lowercase).collect();
                let of_query = |word: &str| known.contains(&word.to_lowercase());
                texts.iter().all(|text| text.unicode_words().all(of_query))
            }
        }
    }
}

/// One caller's view, for one call.
pub(crate) struct StoreView {
    store: Arc<Store>,
    embedder: Arc<dyn Embedder>,
    sight: Sight,
    store_failed: AtomicBool,
    embedder_failed: AtomicBool,
}

impl StoreView {
    pub(crate) fn new(store: Arc<Store>, embedder: Arc<dyn Embedder>, sight: Sight) -> Arc<Self> {
        Arc::new(Self {
            store,
            embedder,
            sight,
            store_failed: AtomicBool::new(false),
            embedder_failed: AtomicBool::new(false),
        })
    }

    /// Whether the store failed an arm: what was ranked may lack rows, and must
    /// not be served as if it were all.
    pub(crate) fn store_failed(&self) -> bool {
        self.store_failed.load(Ordering::Relaxed)
    }

    /// Whether the embedder failed: the vector arm was missing.
    pub(crate) fn embedder_failed(&self) -> bool {
        self.embedder_failed.load(Ordering::Relaxed)
    }

    fn looks_at(&self) -> (Arc<Store>, Scope, Validness) {
        (
            self.store.clone(),
            self.sight.scope.clone(),
            self.sight.validness,
        )
    }

    /// Runs a query in a task of its own: the host drops an import that takes too
    /// long, and a query dropped half-way costs the connection.
    async fn query<T, F>(&self, query: F) -> Result<T, ViewFailure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        match tokio::spawn(query).await {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => Err(self.store_failure(&error)),
            Err(error) => Err(self.store_failure(&error)),
        }
    }

    /// Told to the kernel's log; a cartridge learns only that it failed.
    fn store_failure(&self, error: &dyn std::error::Error) -> ViewFailure {
        tracing::error!(%error, "an arm of the view failed");
        self.store_failed.store(true, Ordering::Relaxed);
        ViewFailure::Unavailable("the store does not answer".to_owned())
    }

    fn embedder_failure(&self, error: &EmbedError) -> ViewFailure {
        if let EmbedError::EmptyText { .. } = error {
            return ViewFailure::InvalidArgument("a text holds nothing to embed".to_owned());
        }
        tracing::warn!(%error, "the embedder failed");
        self.embedder_failed.store(true, Ordering::Relaxed);
        ViewFailure::Unavailable("the embedder does not answer".to_owned())
    }

    fn rows(&self, candidates: Vec<Candidate>) -> Result<Vec<Row>, ViewFailure> {
        let row = |candidate| Ok(self.scored(candidate)?.0);
        candidates.into_iter().map(row).collect()
    }

    fn scored(&self, candidate: Candidate) -> Result<(Row, f64), ViewFailure> {
        let id = MemoryId::parse(&candidate.id).map_err(|error| self.store_failure(&error))?;
        let row = Row {
            id: RowId::Memory(id.bits()),
            content: candidate.content,
            namespace: candidate.namespace,
        };
        Ok((row, candidate.score))
    }
}

impl View for StoreView {
    fn namespace(&self) -> &str {
        self.sight.scope.own().as_str()
    }

    fn dimensions(&self) -> Option<usize> {
        Some(self.store.space().dimension)
    }

    fn candidates(&self, limit: usize) -> ViewFuture<'_, Vec<Row>> {
        let (store, scope, validness) = self.looks_at();
        Box::pin(async move {
            let found =
                self.query(async move { store.candidates_newest(&scope, limit, validness).await });
            self.rows(found.await?)
        })
    }

    fn lexical_candidates(&self, query: String, limit: usize) -> ViewFuture<'_, Vec<Row>> {
        let (store, scope, validness) = self.looks_at();
        Box::pin(async move {
            let found = self.query(async move {
                store
                    .candidates_lexical(&scope, &query, limit, validness)
                    .await
            });
            self.rows(found.await?)
        })
    }

    fn vector_search(&self, embedding: Vec<f32>, k: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        let (store, scope, validness) = self.looks_at();
        Box::pin(async move {
            let found = self.query(async move {
                store
                    .candidates_nearest(&scope, &embedding, k, validness)
                    .await
            });
            let scored = found.await?.into_iter().map(|found| self.scored(found));
            scored.collect()
        })
    }

    fn embed(&self, texts: Vec<String>) -> ViewFuture<'_, Vec<Vec<f32>>> {
        Box::pin(async move {
            if !self.sight.embeddable.admits(&texts) {
                self.embedder_failed.store(true, Ordering::Relaxed);
                let why = "the text may not leave for the embedder".to_owned();
                return Err(ViewFailure::Unavailable(why));
            }
            // Counts as failed until it answers: the host drops an import that
            // takes too long.
            let failed_before = self.embedder_failed.swap(true, Ordering::Relaxed);
            let vectors = self.embedder.embed(&texts).await.and_then(|vectors| {
                check_vectors(self.store.space().dimension, texts.len(), &vectors)?;
                Ok(vectors)
            });
            self.embedder_failed.store(failed_before, Ordering::Relaxed);
            vectors.map_err(|error| self.embedder_failure(&error))
        })
    }

    fn concepts(&self, query: String, k: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        let (store, scope) = (self.store.clone(), self.sight.scope.clone());
        Box::pin(async move {
            let vectors = self.embed(vec![query]).await?;
            let Some(vector) = vectors.into_iter().next() else {
                return Ok(Vec::new());
            };
            let found = self.query(async move { store.concepts_nearest(&scope, &vector, k).await });
            let concept = |found: Candidate| {
                let row = Row {
                    id: RowId::Concept(found.id),
                    content: found.content,
                    namespace: found.namespace,
                };
                (row, found.score)
            };
            Ok(found.await?.into_iter().map(concept).collect())
        })
    }

    fn entity_facts(&self, mention: String, hops: u8) -> ViewFuture<'_, Vec<(Row, Arc<str>)>> {
        let (store, scope, validness) = self.looks_at();
        Box::pin(async move {
            let found = self.query(async move {
                store
                    .entity_facts(&scope, &mention, hops == 2, MAX_ENTITY_FACTS, validness)
                    .await
            });
            let mentions = found.await?.into_iter();
            let row = |mention: halofy_store::Mention| {
                Ok((self.scored(mention.candidate)?.0, mention.entity))
            };
            mentions.map(row).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_of_the_query_leave() {
        let query = Embeddable::WordsOf("Where does Dana live?".into());
        let texts = |texts: &[&str]| {
            texts
                .iter()
                .map(|&text| text.to_owned())
                .collect::<Vec<_>>()
        };
        assert!(query.admits(&texts(&["where does dana live", "Dana"])));
        assert!(!query.admits(&texts(&["Dana", "Dana lives at 4 Elm Street"])));
        assert!(!Embeddable::Nothing.admits(&texts(&["Dana"])));
        assert!(Embeddable::Anything.admits(&texts(&["anything at all"])));
    }
}
