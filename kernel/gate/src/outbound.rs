//! How text leaves the process for a service that the operator configured: the one HTTP
//! client, answers of bounded size, and the address and key of the OpenAI protocols.
//!
//! Not here: what is sent, what an answer means, when a request is tried again. No error
//! of this file carries a URL, a key, or anything of a request or an answer.

use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use reqwest::{Client, Response, Url, redirect};
use serde::Deserialize;
use thiserror::Error;

/// Nothing waits ten minutes for an answer; a larger number is a slip in the unit.
const LONGEST_TIMEOUT_MS: u64 = 600_000;

/// A setting of an outside service that cannot work, and what would. Never quotes a key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Misconfigured(pub String);

impl Misconfigured {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// How a service writes its address and expects its key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HttpStyle {
    /// `{base_url}/{operation}`, the key as `Authorization: Bearer`.
    #[default]
    Openai,
    /// `{base_url}/openai/deployments/{model}/{operation}?api-version=…`, the key as `api-key`.
    Azure,
}

/// The client for `url`, which opens no connection yet. Redirects are not followed and
/// proxy variables are ignored: text goes to the configured host or nowhere.
///
/// # Errors
/// Why there is none, as the platform puts it.
pub(crate) fn client(url: &Url) -> Result<Client, String> {
    let mut builder = Client::builder()
        .redirect(redirect::Policy::none())
        .no_proxy()
        .referer(false);
    if url.scheme() == "http" {
        // Without TLS the host's root certificates are not needed, nor need they exist.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|error| root_cause(&error))
}

/// Why an answer was not read to its end.
#[derive(Debug)]
pub(crate) enum Unread {
    /// More bytes than the limit.
    TooLarge,
    /// The connection broke.
    Broken(reqwest::Error),
}

/// The whole body, if it has at most `limit` bytes. Never holds more than that and a chunk.
pub(crate) async fn body_within(mut response: Response, limit: usize) -> Result<Vec<u8>, Unread> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Unread::Broken)? {
        if body.len() + chunk.len() > limit {
            return Err(Unread::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The innermost error's message: reqwest's own names the URL.
pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// The settings that every service of the OpenAI protocols has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Service<'a> {
    pub(crate) base_url: &'a str,
    pub(crate) model: &'a str,
    pub(crate) style: HttpStyle,
    pub(crate) api_version: Option<&'a str>,
    pub(crate) timeout_ms: u64,
}

impl Service<'_> {
    /// Refuses settings that cannot work together, naming the one at fault.
    pub(crate) fn check(&self, has_key: bool) -> Result<(), Misconfigured> {
        let azure = self.style == HttpStyle::Azure;
        let wrong = if self.model.trim().is_empty() {
            "model must not be empty"
        } else if !(1..=LONGEST_TIMEOUT_MS).contains(&self.timeout_ms) {
            "timeout_ms must be 1 to 600000"
        } else if azure && self.api_version.is_none() {
            "style azure requires api_version"
        } else if azure && !has_key {
            "style azure requires api_key_env"
        } else if !azure && self.api_version.is_some() {
            "api_version is only used by style azure"
        } else {
            return Ok(());
        };
        Err(Misconfigured::new(wrong))
    }

    /// The full address of an operation, such as `["embeddings"]`.
    pub(crate) fn endpoint(&self, operation: &[&str]) -> Result<Url, Misconfigured> {
        let mut url = self.base()?;
        {
            let mut path = url
                .path_segments_mut()
                .map_err(|()| Misconfigured::new("base_url cannot have a path"))?;
            path.pop_if_empty();
            if self.style == HttpStyle::Azure {
                path.extend(["openai", "deployments", self.model]);
            }
            path.extend(operation);
        }
        if let Some(version) = self.api_version {
            url.query_pairs_mut().append_pair("api-version", version);
        }
        Ok(url)
    }

    fn base(&self) -> Result<Url, Misconfigured> {
        let url = Url::parse(self.base_url)
            .map_err(|error| Misconfigured(format!("base_url is not a URL: {error}")))?;
        let wrong = if !matches!(url.scheme(), "http" | "https") {
            "base_url must start with http:// or https://"
        } else if !url.username().is_empty() || url.password().is_some() {
            // The URL is shown in logs.
            "base_url must not hold a user or password: use api_key_env"
        } else if url.query().is_some() || url.fragment().is_some() {
            "base_url must not have a query or fragment"
        } else {
            return Ok(url);
        };
        Err(Misconfigured::new(wrong))
    }
}

/// The key in the environment variable that `api_key_env` names, if it names one.
pub(crate) fn key_from(api_key_env: Option<&str>) -> Result<Option<String>, Misconfigured> {
    let Some(name) = api_key_env else {
        return Ok(None);
    };
    let missing = |_| {
        Misconfigured(format!(
            "api_key_env: the environment variable {name} is not set"
        ))
    };
    std::env::var(name).map(Some).map_err(missing)
}

/// The header that carries the key, marked so that no debug output shows it.
pub(crate) fn key_header(
    style: HttpStyle,
    key: &str,
) -> Result<(HeaderName, HeaderValue), Misconfigured> {
    // Keys read from files tend to end in a newline.
    let key = key.trim();
    if key.is_empty() {
        return Err(Misconfigured::new("the key is empty"));
    }
    let (name, value) = match style {
        HttpStyle::Openai => (AUTHORIZATION, format!("Bearer {key}")),
        HttpStyle::Azure => (HeaderName::from_static("api-key"), key.to_owned()),
    };
    let mut value = HeaderValue::from_str(&value)
        .map_err(|_| Misconfigured::new("the key holds characters that a header cannot"))?;
    value.set_sensitive(true);
    Ok((name, value))
}
