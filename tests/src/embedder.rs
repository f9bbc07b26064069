//! An embedder that a test plays: it works, fails, hangs, or answers nonsense, and
//! can be told to change while the kernel runs.

use std::sync::{Arc, Mutex, PoisonError};

use halofy_gate::embed::{EmbedError, EmbedFuture, Embedder, HashEmbedder};

/// How an embedder behaves from now on.
#[derive(Debug, Clone)]
pub enum Mood {
    /// As the hash embedder of its dimension.
    Works,
    /// Says that it is unavailable.
    Fails,
    /// Never answers.
    Hangs,
    /// Gives this vector for every text, unchecked.
    Says(Vec<f32>),
}

/// Hash embedding, until told otherwise. Clones share mood and memory.
#[derive(Debug, Clone)]
pub struct ScriptedEmbedder {
    inner: HashEmbedder,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    mood: Mood,
    seen: Vec<String>,
}

impl ScriptedEmbedder {
    /// One that works, and gives `dimension` numbers a vector.
    pub fn new(dimension: usize) -> Self {
        let state = State {
            mood: Mood::Works,
            seen: Vec::new(),
        };
        Self {
            inner: HashEmbedder::new(dimension).expect("a dimension from 1 to 16,000"),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Behaves otherwise from the next call on.
    pub fn becomes(&self, mood: Mood) {
        self.lock().mood = mood;
    }

    /// Every text that it was ever shown.
    pub fn seen(&self) -> Vec<String> {
        self.lock().seen.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Embedder for ScriptedEmbedder {
    fn embed<'a>(&'a self, texts: &'a [String]) -> EmbedFuture<'a> {
        let mut state = self.lock();
        state.seen.extend_from_slice(texts);
        match state.mood.clone() {
            Mood::Works => self.inner.embed(texts),
            Mood::Fails => {
                let error = EmbedError::Unavailable("the test says so".to_owned());
                Box::pin(std::future::ready(Err(error)))
            }
            Mood::Hangs => Box::pin(std::future::pending()),
            Mood::Says(vector) => {
                let vectors = vec![vector; texts.len()];
                Box::pin(std::future::ready(Ok(vectors)))
            }
        }
    }

    fn dimension(&self) -> usize {
        self.inner.dimension()
    }

    fn identity(&self) -> &str {
        self.inner.identity()
    }

    fn is_local(&self) -> bool {
        true
    }
}
