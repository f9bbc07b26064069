//! The scoped view as the host sees it: the rows of one caller, for one call.
//! The gate implements it over the store. Handles, quotas and time-outs are not
//! an implementation's business.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use thiserror::Error;

/// Names a row. Never enters the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RowId {
    /// A memory of the warm tier (L2), by the 128 bits of its ULID.
    Memory(u128),
    /// A concept of the cold tier (L3), by its path.
    Concept(Arc<str>),
}

/// One row that the caller may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The same id means the same row.
    pub id: RowId,
    /// The text that the guest reads and that a hit carries.
    pub content: Arc<str>,
    /// Where the row lives: the caller's namespace or an ancestor of it.
    pub namespace: Arc<str>,
}

/// Why a view could not answer. The guest sees it as a `view-error` and may go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ViewFailure {
    /// The store or the embedder is not reachable now.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// An argument is out of range, or has the wrong size.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// A limit is used up.
    #[error("limit exceeded: {0}")]
    Limit(String),
}

/// What an import waits for.
pub type ViewFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ViewFailure>> + Send + 'a>>;

/// What one caller may see, for the length of one call. The order of the rows is
/// part of the answer: the same call over the same corpus gives the same order.
///
/// The host has clamped `limit` and `k` and checked sizes before it asks. It cuts
/// longer answers. Every call has a time-out, after which its future is dropped.
pub trait View: Send + Sync + 'static {
    /// The caller's namespace.
    fn namespace(&self) -> &str;

    /// The length of the stored vectors, where there are any. A vector of
    /// another length is refused before it reaches `vector_search`.
    fn dimensions(&self) -> Option<usize>;

    /// Visible memories, newest first, at most `limit`.
    fn candidates(&self, limit: usize) -> ViewFuture<'_, Vec<Row>>;

    /// Visible memories that share a word stem with `query`, most telling first.
    fn lexical_candidates(&self, query: String, limit: usize) -> ViewFuture<'_, Vec<Row>>;

    /// The `k` nearest visible memories, nearest first, each with its cosine
    /// similarity. The embedding is finite and has [`View::dimensions`] numbers.
    fn vector_search(&self, embedding: Vec<f32>, k: usize) -> ViewFuture<'_, Vec<(Row, f64)>>;

    /// One vector for each text, in order.
    fn embed(&self, texts: Vec<String>) -> ViewFuture<'_, Vec<Vec<f32>>>;

    /// Concepts of the cold tier with their scores. Empty when the request is
    /// scoped to sources.
    fn concepts(&self, query: String, k: usize) -> ViewFuture<'_, Vec<(Row, f64)>>;

    /// Memories that mention an entity, each with the entity's canonical name.
    /// `hops` is 1 or 2.
    fn entity_facts(&self, mention: String, hops: u8) -> ViewFuture<'_, Vec<(Row, Arc<str>)>>;
}

/// A view that shows nothing: `capabilities` runs over it.
pub(crate) struct NothingVisible;

fn nothing<T: Send + 'static>() -> ViewFuture<'static, Vec<T>> {
    Box::pin(std::future::ready(Ok(Vec::new())))
}

impl View for NothingVisible {
    fn namespace(&self) -> &str {
        ""
    }
    fn dimensions(&self) -> Option<usize> {
        None
    }
    fn candidates(&self, _: usize) -> ViewFuture<'_, Vec<Row>> {
        nothing()
    }
    fn lexical_candidates(&self, _: String, _: usize) -> ViewFuture<'_, Vec<Row>> {
        nothing()
    }
    fn vector_search(&self, _: Vec<f32>, _: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        nothing()
    }
    fn embed(&self, _: Vec<String>) -> ViewFuture<'_, Vec<Vec<f32>>> {
        let why = "there is no embedder outside a request".to_owned();
        Box::pin(std::future::ready(Err(ViewFailure::Unavailable(why))))
    }
    fn concepts(&self, _: String, _: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        nothing()
    }
    fn entity_facts(&self, _: String, _: u8) -> ViewFuture<'_, Vec<(Row, Arc<str>)>> {
        nothing()
    }
}
