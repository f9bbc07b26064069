//! The scoped view as a trait: implemented by the host's imports and by the fake.

use crate::types::{Candidate, EntityFact, ScoredCandidate, ViewError};

/// The whole world of a cartridge: what one caller may see, for one call. Every function
/// answers only memories of the caller's namespace and its ancestors that are currently
/// valid. The same memory has the same handle, whichever function it is met through.
///
/// Each fallible function fails with a [`ViewError`] that says why.
pub trait ScopedView {
    /// The caller's namespace, such as `acme/eng/platform`.
    fn namespace(&self) -> String;

    /// A bounded window over the visible memories, newest first. The usual limit is 500.
    fn candidates(&self, limit: u32) -> Result<Vec<Candidate>, ViewError>;

    /// The memories that share a word stem with `query`, chosen from the whole visible
    /// corpus, most telling first.
    fn lexical_candidates(&self, query: &str, limit: u32) -> Result<Vec<Candidate>, ViewError>;

    /// The `k` nearest visible memories by cosine similarity, nearest first.
    fn vector_search(&self, embedding: &[f32], k: u32) -> Result<Vec<ScoredCandidate>, ViewError>;

    /// Embeds with the kernel's own embedder: one vector a text, in the space of the
    /// stored ones.
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ViewError>;

    /// Concepts of the cold tier, nearest first. Empty when the request is scoped to
    /// sources.
    fn concepts(&self, query: &str, k: u32) -> Result<Vec<ScoredCandidate>, ViewError>;

    /// Memories that mention, at word boundaries and without regard to case, the entity
    /// whose name or alias is `mention`. `hops` is 1 or 2; the second hop adds memories of
    /// entities mentioned together with the first.
    fn entity_facts(&self, mention: &str, hops: u8) -> Result<Vec<EntityFact>, ViewError>;
}
