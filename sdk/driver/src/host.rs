//! The real view: the imports of the component, converted into this crate's types.

use crate::bindings::halofy::driver::{scoped_view, types as wire};
use crate::types::{Candidate, EntityFact, ScoredCandidate, ViewError};
use crate::view::ScopedView;

/// The view that the kernel gives to this call. Only inside a component is there one:
/// natively every function panics, and tests use [`FakeView`](crate::fake::FakeView).
#[derive(Debug, Clone, Copy, Default)]
pub struct HostView;

impl ScopedView for HostView {
    fn namespace(&self) -> String {
        scoped_view::namespace()
    }

    fn candidates(&self, limit: u32) -> Result<Vec<Candidate>, ViewError> {
        converted(scoped_view::candidates(limit))
    }

    fn lexical_candidates(&self, query: &str, limit: u32) -> Result<Vec<Candidate>, ViewError> {
        converted(scoped_view::lexical_candidates(query, limit))
    }

    fn vector_search(&self, embedding: &[f32], k: u32) -> Result<Vec<ScoredCandidate>, ViewError> {
        converted(scoped_view::vector_search(embedding, k))
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ViewError> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        converted(scoped_view::embed(&texts))
    }

    fn concepts(&self, query: &str, k: u32) -> Result<Vec<ScoredCandidate>, ViewError> {
        converted(scoped_view::concepts(query, k))
    }

    fn entity_facts(&self, mention: &str, hops: u8) -> Result<Vec<EntityFact>, ViewError> {
        converted(scoped_view::entity_facts(mention, hops))
    }
}

fn converted<W, T: From<W>>(answer: Result<Vec<W>, wire::ViewError>) -> Result<Vec<T>, ViewError> {
    match answer {
        Ok(rows) => Ok(rows.into_iter().map(T::from).collect()),
        Err(error) => Err(error.into()),
    }
}

impl From<wire::Candidate> for Candidate {
    fn from(row: wire::Candidate) -> Self {
        Self {
            handle: row.ref_,
            content: row.content,
        }
    }
}

impl From<wire::ScoredCandidate> for ScoredCandidate {
    fn from(row: wire::ScoredCandidate) -> Self {
        Self {
            handle: row.ref_,
            content: row.content,
            score: row.score,
        }
    }
}

impl From<wire::EntityFact> for EntityFact {
    fn from(row: wire::EntityFact) -> Self {
        Self {
            handle: row.ref_,
            content: row.content,
            entity: row.entity,
        }
    }
}

impl From<wire::ViewError> for ViewError {
    fn from(error: wire::ViewError) -> Self {
        match error {
            wire::ViewError::Unavailable(why) => Self::Unavailable(why),
            wire::ViewError::InvalidArgument(why) => Self::InvalidArgument(why),
            wire::ViewError::LimitExceeded(why) => Self::LimitExceeded(why),
        }
    }
}
