//! The settings of the HTTP embedder, and whether they can work. Sends nothing.

use serde::Deserialize;

use super::{EmbedError, check_dimension};
use crate::outbound::{HttpStyle, Misconfigured, Service};

/// A service that speaks the OpenAI embeddings protocol.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpConfig {
    /// What comes before `/embeddings`, such as `http://127.0.0.1:11434/v1` for Ollama;
    /// for [`HttpStyle::Azure`] the resource's endpoint, without a path.
    pub base_url: String,
    /// The model's name; for [`HttpStyle::Azure`] the deployment's.
    pub model: String,
    /// Numbers a vector has. An answer of another size is refused.
    pub dimension: usize,
    /// Whether to ask the service for this dimension. Only models that can shorten their
    /// vectors accept it; most refuse the request.
    #[serde(default)]
    pub request_dimension: bool,
    /// The environment variable that holds the key. Without it no key is sent.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// How the address and the key are written.
    #[serde(default)]
    pub style: HttpStyle,
    /// The `api-version` that [`HttpStyle::Azure`] requires, such as `2024-10-21`.
    #[serde(default)]
    pub api_version: Option<String>,
    /// Milliseconds one request may take, its retries included; 10,000 unless given.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// Where the service computes, such as `eu`: content that is bound to a region goes
    /// nowhere else.
    #[serde(default)]
    pub region: Option<String>,
    /// Whether the service is the operator's own, so that a text sent there has not left.
    #[serde(default)]
    pub local: bool,
}

impl HttpConfig {
    /// What it has in common with other services of the protocols.
    pub(super) fn service(&self) -> Service<'_> {
        Service {
            base_url: &self.base_url,
            model: &self.model,
            style: self.style,
            api_version: self.api_version.as_deref(),
            timeout_ms: self.timeout_ms,
        }
    }
}

/// Refuses settings that cannot work together, naming the one at fault.
pub(super) fn check_settings(config: &HttpConfig, api_key: Option<&str>) -> Result<(), EmbedError> {
    check_dimension(config.dimension)?;
    Ok(config.service().check(api_key.is_some())?)
}

impl From<Misconfigured> for EmbedError {
    fn from(Misconfigured(reason): Misconfigured) -> Self {
        Self::Misconfigured(reason)
    }
}

pub(super) fn misconfigured(reason: impl Into<String>) -> EmbedError {
    EmbedError::Misconfigured(reason.into())
}

fn default_timeout_ms() -> u64 {
    10_000
}
