//! The settings of the HTTP embedder, and what follows from them alone: the address and
//! the header with the key. Sends nothing.

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde::Deserialize;

use super::{EmbedError, check_dimension};

/// Nothing waits ten minutes for a vector; a larger number is a slip in the unit.
const LONGEST_TIMEOUT_MS: u64 = 600_000;

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
}

/// How a service writes its address and expects its key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HttpStyle {
    /// `{base_url}/embeddings`, the key as `Authorization: Bearer`.
    #[default]
    Openai,
    /// `{base_url}/openai/deployments/{model}/embeddings?api-version=…`, the key as `api-key`.
    Azure,
}

/// Refuses settings that cannot work together, naming the one at fault.
pub(super) fn check_settings(config: &HttpConfig, api_key: Option<&str>) -> Result<(), EmbedError> {
    check_dimension(config.dimension)?;
    let azure = config.style == HttpStyle::Azure;
    let wrong = if config.model.trim().is_empty() {
        "model must not be empty"
    } else if !(1..=LONGEST_TIMEOUT_MS).contains(&config.timeout_ms) {
        "timeout_ms must be 1 to 600000"
    } else if azure && config.api_version.is_none() {
        "style azure requires api_version"
    } else if azure && api_key.is_none() {
        "style azure requires api_key_env"
    } else if !azure && config.api_version.is_some() {
        "api_version is only used by style azure"
    } else {
        return Ok(());
    };
    Err(misconfigured(wrong))
}

/// The full address requests go to.
pub(super) fn endpoint(config: &HttpConfig) -> Result<Url, EmbedError> {
    let mut url = Url::parse(&config.base_url)
        .map_err(|error| misconfigured(format!("base_url is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(misconfigured(
            "base_url must start with http:// or https://",
        ));
    }
    if !url.username().is_empty() || url.password().is_some() {
        // The URL is shown in logs.
        return Err(misconfigured(
            "base_url must not hold a user or password: use api_key_env",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(misconfigured("base_url must not have a query or fragment"));
    }
    {
        let mut path = url
            .path_segments_mut()
            .map_err(|()| misconfigured("base_url cannot have a path"))?;
        path.pop_if_empty();
        if config.style == HttpStyle::Azure {
            path.extend(["openai", "deployments", &config.model]);
        }
        path.push("embeddings");
    }
    if let Some(version) = &config.api_version {
        url.query_pairs_mut().append_pair("api-version", version);
    }
    Ok(url)
}

/// The header that carries the key, marked so that no debug output shows it.
pub(super) fn key_header(
    style: HttpStyle,
    key: &str,
) -> Result<(HeaderName, HeaderValue), EmbedError> {
    // Keys read from files tend to end in a newline.
    let key = key.trim();
    if key.is_empty() {
        return Err(misconfigured("the key is empty"));
    }
    let (name, value) = match style {
        HttpStyle::Openai => (AUTHORIZATION, format!("Bearer {key}")),
        HttpStyle::Azure => (HeaderName::from_static("api-key"), key.to_owned()),
    };
    let mut value = HeaderValue::from_str(&value)
        .map_err(|_| misconfigured("the key holds characters that a header cannot"))?;
    value.set_sensitive(true);
    Ok((name, value))
}

pub(super) fn misconfigured(reason: impl Into<String>) -> EmbedError {
    EmbedError::Misconfigured(reason.into())
}

fn default_timeout_ms() -> u64 {
    10_000
}
