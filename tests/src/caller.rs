//! Somebody with a key.

use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::{Value, json};

use crate::Answer;

/// Longer than any call may take, so that a call that hangs fails a test by itself.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A client of one kernel, with one key.
#[derive(Debug, Clone)]
pub struct Caller {
    client: Client,
    base: String,
    /// The secret, as sent.
    pub key: String,
    /// The key's public name, as the audit log has it.
    pub key_id: String,
}

impl Caller {
    pub(crate) fn new(client: Client, base: String, key: String, key_id: String) -> Self {
        Self {
            client,
            base,
            key,
            key_id,
        }
    }

    /// Writes a fact.
    pub async fn write(&self, content: &str) -> Answer {
        self.call("write", json!({ "content": content })).await
    }

    /// Searches with the defaults.
    pub async fn search(&self, query: &str) -> Answer {
        self.call("search", json!({ "query": query })).await
    }

    /// Fetches a memory.
    pub async fn read(&self, id: &str) -> Answer {
        self.call("read", json!({ "id": id })).await
    }

    /// Counts.
    pub async fn stats(&self) -> Answer {
        self.call("stats", json!({})).await
    }

    /// Makes a syscall.
    pub async fn call(&self, op: &str, body: Value) -> Answer {
        let path = format!("/v1/mem/{op}");
        self.raw(Method::POST, &path, &[], body.to_string()).await
    }

    /// Sends a request with the key and these headers, whatever the body is.
    pub async fn raw(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Answer {
        let sent = self.try_raw(method, path, headers, body).await;
        sent.expect("the kernel answers")
    }

    /// As [`Caller::raw`], for a kernel that may be gone.
    ///
    /// # Errors
    /// When no answer came.
    pub async fn try_raw(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> reqwest::Result<Answer> {
        let url = format!("{}{path}", self.base);
        let request = self.client.request(method, url).bearer_auth(&self.key);
        let request = headers.iter().fold(request, |request, (name, value)| {
            request.header(*name, *value)
        });
        Answer::read(request.body(body.into()).send().await?).await
    }
}

pub(crate) fn client() -> Client {
    let client = Client::builder().no_proxy().timeout(TIMEOUT).build();
    client.expect("a client without a certificate store of its own")
}
