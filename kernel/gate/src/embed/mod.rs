//! Embedders: texts in, vectors of one fixed space out. Here live the trait, the
//! configuration that picks an embedder, and the checks every vector passes. Nothing here
//! stores a vector, writes an audit row or decides whether a namespace may send its text
//! to a service: callers ask [`Embedder::is_local`] for that.

mod hash;
mod http;
mod http_config;
#[cfg(test)]
mod http_tests;
mod table;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use serde::Deserialize;

pub use hash::HashEmbedder;
pub use http::HttpEmbedder;
pub use http_config::HttpConfig;
pub use table::TableEmbedder;

pub use crate::outbound::HttpStyle;

/// What [`Embedder::embed`] returns: one vector a text, in the order of the texts.
pub type EmbedFuture<'a> =
    Pin<Box<dyn Future<Output = Result<Vec<Vec<f32>>, EmbedError>> + Send + 'a>>;

/// Turns texts into vectors of one space.
pub trait Embedder: Send + Sync {
    /// Embeds a batch: one vector a text, in order, each of [`dimension`](Self::dimension)
    /// finite numbers and of unit length. The batch succeeds or fails as a whole, and an
    /// empty batch gives no vectors.
    ///
    /// # Errors
    /// [`EmbedError::EmptyText`] for a text that holds nothing to embed,
    /// [`EmbedError::Unavailable`] when a service does not answer as it should, and
    /// [`EmbedError::WrongDimension`] or [`EmbedError::InvalidVector`] for vectors that
    /// [`check_vectors`] refuses.
    fn embed<'a>(&'a self, texts: &'a [String]) -> EmbedFuture<'a>;

    /// How many numbers a vector has.
    fn dimension(&self) -> usize;

    /// Names the vector space, such as `hash/256` or `openai/<model>/<dimension>`.
    /// Vectors of two embedders are comparable only if their identities are equal.
    fn identity(&self) -> &str;

    /// Whether the text stays with the operator.
    fn is_local(&self) -> bool;

    /// Where a service computes, if the operator says so.
    fn region(&self) -> Option<&str> {
        None
    }
}

/// Why texts were not embedded. No message carries the text or a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// The service is down, too slow, refuses, or answers something that is no embedding.
    #[error("the embedder is unavailable: {0}")]
    Unavailable(String),
    /// A vector of another size than the configured one.
    #[error("wrong vector size: expected {expected} numbers, got {got}")]
    WrongDimension {
        /// Numbers a vector must have.
        expected: usize,
        /// Numbers the vector has.
        got: usize,
    },
    /// A vector holding NaN, infinity or only zeros, or another count of vectors than of texts.
    #[error("invalid vector: {0}")]
    InvalidVector(String),
    /// A text without anything that could be embedded (blank, or no known token).
    #[error("text {index} of the batch holds nothing to embed")]
    EmptyText {
        /// Position in the batch, from 0.
        index: usize,
    },
    /// The configuration, or a file it names, cannot work.
    #[error("the embedder is misconfigured: {0}")]
    Misconfigured(String),
}

/// Which embedder to use, picked by `kind`. An unknown key is an error.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum EmbedderConfig {
    /// Feature hashing: needs no files and no network, and knows words but not meaning.
    Hash {
        /// Numbers a vector has; 256 unless given.
        #[serde(default = "default_hash_dimension")]
        dimension: usize,
    },
    /// A static embedding table read from a directory.
    Static {
        /// Holds one `*.safetensors` and `tokenizer.json`.
        dir: PathBuf,
    },
    /// A service that speaks the OpenAI embeddings protocol: OpenAI, Azure, Ollama and others.
    Openai(HttpConfig),
}

impl EmbedderConfig {
    /// Builds the embedder: reads its files and its key, and opens no connection.
    ///
    /// # Errors
    /// [`EmbedError::Misconfigured`], saying what is wrong and what is expected.
    pub fn build(&self) -> Result<Arc<dyn Embedder>, EmbedError> {
        Ok(match self {
            Self::Hash { dimension } => Arc::new(HashEmbedder::new(*dimension)?),
            Self::Static { dir } => Arc::new(TableEmbedder::open(dir)?),
            Self::Openai(config) => Arc::new(HttpEmbedder::from_config(config)?),
        })
    }
}

impl Default for EmbedderConfig {
    fn default() -> Self {
        Self::Hash {
            dimension: default_hash_dimension(),
        }
    }
}

/// Checks vectors before anything uses them: `count` of them, each of `expected_dim`
/// finite numbers that are not all zero. Every embedder's output passes here.
///
/// # Errors
/// [`EmbedError::WrongDimension`] with both sizes; [`EmbedError::InvalidVector`] otherwise.
pub fn check_vectors(
    expected_dim: usize,
    count: usize,
    vectors: &[Vec<f32>],
) -> Result<(), EmbedError> {
    if vectors.len() != count {
        return Err(EmbedError::InvalidVector(format!(
            "expected {count} vectors, got {}",
            vectors.len()
        )));
    }
    vectors
        .iter()
        .enumerate()
        .try_for_each(|(index, vector)| check_vector(expected_dim, index, vector))
}

fn check_vector(expected: usize, index: usize, vector: &[f32]) -> Result<(), EmbedError> {
    if vector.len() != expected {
        return Err(EmbedError::WrongDimension {
            expected,
            got: vector.len(),
        });
    }
    if let Some(place) = vector.iter().position(|number| !number.is_finite()) {
        return Err(EmbedError::InvalidVector(format!(
            "number {place} of vector {index} is {}",
            vector[place]
        )));
    }
    if vector.iter().all(|number| *number == 0.0) {
        return Err(EmbedError::InvalidVector(format!(
            "all {expected} numbers of vector {index} are zero"
        )));
    }
    Ok(())
}

/// The most numbers pgvector's `vector` type can hold.
const MAX_DIMENSION: usize = 16_000;

/// Refuses at boot a dimension whose vectors could not be stored.
fn check_dimension(dimension: usize) -> Result<(), EmbedError> {
    if (1..=MAX_DIMENSION).contains(&dimension) {
        return Ok(());
    }
    Err(EmbedError::Misconfigured(format!(
        "dimension must be 1 to {MAX_DIMENSION}, got {dimension}"
    )))
}

/// Refuses a batch with a blank text, so that every embedder agrees on what is empty.
fn refuse_blank(texts: &[String]) -> Result<(), EmbedError> {
    match texts.iter().position(|text| text.trim().is_empty()) {
        Some(index) => Err(EmbedError::EmptyText { index }),
        None => Ok(()),
    }
}

/// Scales a vector to unit length, and leaves one without direction as it is. The norm is
/// taken in f64, where squares of large or tiny f32 neither overflow nor vanish.
fn normalise(vector: &mut [f32]) {
    let norm = vector
        .iter()
        .map(|number| f64::from(*number).powi(2))
        .sum::<f64>()
        .sqrt();
    if norm.is_finite() && norm > 0.0 {
        for number in vector {
            *number = (f64::from(*number) / norm) as f32;
        }
    }
}

/// Bytes of text embedded on the calling task, where a question or a few facts cost less
/// than handing them over would; a larger batch goes to the blocking pool.
const INLINE_BYTES: usize = 4096;

/// Runs an embedding that only computes, without holding up the async runtime.
async fn on_cpu<F>(texts: &[String], work: F) -> Result<Vec<Vec<f32>>, EmbedError>
where
    F: FnOnce(&[String]) -> Result<Vec<Vec<f32>>, EmbedError> + Send + 'static,
{
    if texts.iter().map(String::len).sum::<usize>() <= INLINE_BYTES {
        return work(texts);
    }
    let texts = texts.to_vec();
    tokio::task::spawn_blocking(move || work(&texts))
        .await
        .map_err(|_| EmbedError::Unavailable("the embedding task did not finish".into()))?
}

fn default_hash_dimension() -> usize {
    256
}
