//! The embedder that needs nothing: feature hashing. The hash itself lives in
//! `halofy_retrieval`, so that drivers and the gate share one space.

use halofy_retrieval::hash_embed;

use super::{
    EmbedError, EmbedFuture, Embedder, check_dimension, check_vectors, on_cpu, refuse_blank,
};

/// Feature hashing of words into a fixed number of buckets. Deterministic and local.
#[derive(Debug, Clone)]
pub struct HashEmbedder {
    dimension: usize,
    identity: String,
}

impl HashEmbedder {
    /// An embedder of `dimension` numbers a vector.
    ///
    /// # Errors
    /// [`EmbedError::Misconfigured`] if `dimension` is 0 or above 16,000.
    pub fn new(dimension: usize) -> Result<Self, EmbedError> {
        check_dimension(dimension)?;
        Ok(Self {
            dimension,
            identity: format!("hash/{dimension}"),
        })
    }
}

impl Embedder for HashEmbedder {
    fn embed<'a>(&'a self, texts: &'a [String]) -> EmbedFuture<'a> {
        let dimension = self.dimension;
        Box::pin(on_cpu(texts, move |texts| hash_all(texts, dimension)))
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn is_local(&self) -> bool {
        true
    }
}

fn hash_all(texts: &[String], dimension: usize) -> Result<Vec<Vec<f32>>, EmbedError> {
    refuse_blank(texts)?;
    let vectors: Vec<_> = texts
        .iter()
        .map(|text| hash_embed(text, dimension))
        .collect();
    // A text of punctuation alone has no words, and so no direction.
    let wordless = |vector: &Vec<f32>| vector.iter().all(|number| *number == 0.0);
    if let Some(index) = vectors.iter().position(wordless) {
        return Err(EmbedError::EmptyText { index });
    }
    check_vectors(dimension, texts.len(), &vectors)?;
    Ok(vectors)
}
