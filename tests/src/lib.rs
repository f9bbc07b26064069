//! The harness of the integration tests: a real kernel in this process, on a fresh
//! store, behind real HTTP.
//!
//! ```no_run
//! # async fn example() {
//! use halofy_tests::{Kernel, Role};
//! let kernel = Kernel::start().await;
//! let dana = kernel.key("acme/eng", "user:dana", Role::Agent).await;
//! dana.write("The office is in Bern.").await.expect_status(200);
//! assert_eq!(dana.search("where is the office?").await.contents(), ["The office is in Bern."]);
//! # }
//! ```
//!
//! Each kernel has a database of its own: embedded in a temporary directory, or,
//! with [`DATABASE_URL`] set, on that server. It is stopped, and its data removed,
//! when it is dropped.
//!
//! Not here: assertions about what the kernel should do. They are the tests'.

mod answer;
mod caller;
mod data;
mod embedder;
mod embeddings;
mod guest;
mod kernel;
mod loopback;
mod model;
mod operator;
mod program;

pub use answer::Answer;
pub use caller::Caller;
pub use data::{DATABASE_URL, Data};
pub use embedder::{Mood, ScriptedEmbedder};
pub use embeddings::RecordingEmbeddings;
pub use guest::{forging_cartridge, ranking_cartridge, trapping_cartridge, trapping_driver};
pub use halofy_core::Role;
pub use kernel::{Kernel, Setup, compiler};
pub use model::{ModelCall, ModelRequest, ModelResponse, ScriptedModel, by_sentences};
pub use program::{Finished, Program};
