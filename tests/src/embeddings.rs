//! An embeddings service that a test plays: a real HTTP server on the loopback interface
//! that speaks the OpenAI protocol, hashes words into vectors, and keeps all that it was
//! sent.

use std::sync::{Arc, Mutex};

use halofy_gate::embed::{Embedder, HashEmbedder, HttpConfig, HttpStyle};
use serde_json::{Value, json};

use crate::loopback::{Loopback, lock};

const DIMENSION: usize = 64;

/// The server.
pub struct RecordingEmbeddings {
    server: Loopback,
    bodies: Arc<Mutex<Vec<String>>>,
}

impl RecordingEmbeddings {
    /// One on a free port.
    ///
    /// # Panics
    /// When it cannot listen.
    pub fn start() -> Self {
        let bodies: Arc<Mutex<Vec<String>>> = Arc::default();
        let (log, hash) = (bodies.clone(), HashEmbedder::new(DIMENSION));
        let hash = Arc::new(hash.expect("a dimension from 1 to 16,000"));
        let server = Loopback::start(move |body| {
            lock(&log).push(body.clone());
            let hash = hash.clone();
            async move { Some(answer(&body, &hash).await) }
        });
        Self { server, bodies }
    }

    /// What to configure the kernel with: a service that says nothing about where it is.
    pub fn config(&self) -> HttpConfig {
        HttpConfig {
            base_url: format!("http://{}/v1", self.server.address),
            model: "recording".to_owned(),
            dimension: DIMENSION,
            request_dimension: false,
            api_key_env: None,
            style: HttpStyle::default(),
            api_version: None,
            timeout_ms: 10_000,
            region: None,
            local: false,
        }
    }

    /// The body of every request that ever came, as it came.
    pub fn requests(&self) -> Vec<String> {
        lock(&self.bodies).clone()
    }
}

async fn answer(body: &str, hash: &HashEmbedder) -> (u16, String) {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let texts: Option<Vec<String>> = serde_json::from_value(body["input"].clone()).ok();
    let Some(texts) = texts else {
        return (400, String::new());
    };
    let vectors = hash.embed(&texts).await.unwrap_or_default();
    let data = vectors.iter().enumerate();
    let data = data.map(|(index, vector)| json!({ "index": index, "embedding": vector }));
    let data: Vec<Value> = data.collect();
    (200, json!({ "object": "list", "data": data }).to_string())
}

#[cfg(test)]
mod tests {
    use halofy_gate::embed::HttpEmbedder;

    use super::*;

    #[tokio::test]
    async fn each_text_gets_the_vector_of_its_words_and_is_kept() {
        let service = RecordingEmbeddings::start();
        let embedder = HttpEmbedder::new(&service.config(), None).expect("an embedder");
        let texts = ["Bea walks.".to_owned(), "Bea sings.".to_owned()];
        let vectors = embedder.embed(&texts).await.expect("vectors");
        let hash = HashEmbedder::new(DIMENSION).expect("a dimension");
        assert_eq!(vectors, hash.embed(&texts).await.expect("vectors"));
        assert_eq!(service.requests().len(), 1);
        assert!(service.requests()[0].contains("Bea sings."));
    }
}
