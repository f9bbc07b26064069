//! The arithmetic of retrieval, shared by the kernel and by cartridges: terms, BM25,
//! normalising and merging lanes, token budgets, cosine, and the hash embedder.
//!
//! What must not live here: input or output, clocks, randomness, or floating-point
//! functions whose last bit depends on the platform. The same call gives the same bits on
//! a native target and on `wasm32-unknown-unknown`.

pub mod bm25;
pub mod budget;
pub mod cosine;
pub mod fnv;
pub mod hash_embed;
pub mod hybrid;
pub mod normalize;
mod stop;
pub mod terms;

pub use bm25::bm25_scores;
pub use budget::{estimate_tokens, fit_budget, trim_to_budget};
pub use cosine::{cosine, l2_normalize};
pub use fnv::{fnv1a32, fnv1a64};
pub use hash_embed::hash_embed;
pub use hybrid::{absolute_score, hybrid_merge, lane_k, pool_size, weighted_merge};
pub use normalize::min_max;
pub use terms::{each_term, terms};
