//! The embedder that asks a service over the OpenAI embeddings protocol. No
//! message or log line here may carry the text, the answer's body, or the key.

use std::time::Duration;

use backon::{ExponentialBuilder, Retryable};
use reqwest::header::{HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, StatusCode, Url};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc2822;
use tokio::time::Instant;

use super::http_config::{HttpConfig, check_settings, misconfigured};
use super::{EmbedError, EmbedFuture, Embedder, check_vectors, normalise, refuse_blank};
use crate::outbound::{self, Unread, body_within, key_from, key_header, root_cause};

/// Texts sent in one request; services limit it, most of them far above this.
const MAX_BATCH: usize = 256;
/// Tries after the first one, for an answer of 429 or 5xx.
const MAX_RETRIES: usize = 3;
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// The most bytes one number takes in an answer, pretty-printed, with room to spare.
const BYTES_PER_NUMBER: usize = 48;
/// Room for everything in an answer that is not a number of a vector.
const BYTES_PER_ANSWER: usize = 64 * 1024;

/// Embeds by asking a service. Redirects are not followed and proxy variables are ignored:
/// text goes to the configured host or nowhere.
///
/// Each request of at most 256 texts has one deadline, its retries included. A 429 or 5xx
/// is tried again up to three times, never earlier than `Retry-After` says; if that is
/// beyond the deadline the call fails at once. Vectors are scaled to unit length.
#[derive(Clone)]
pub struct HttpEmbedder {
    client: Client,
    url: Url,
    key: Option<(HeaderName, HeaderValue)>,
    model: String,
    dimension: usize,
    request_dimension: bool,
    timeout: Duration,
    identity: String,
    region: Option<String>,
    local: bool,
}

impl HttpEmbedder {
    /// An embedder for `config` with the key its `api_key_env` names.
    ///
    /// # Errors
    /// [`EmbedError::Misconfigured`], as for [`new`](Self::new) and for a missing variable.
    pub fn from_config(config: &HttpConfig) -> Result<Self, EmbedError> {
        let key = key_from(config.api_key_env.as_deref())?;
        Self::new(config, key.as_deref())
    }

    /// An embedder for `config` with this key, whatever `api_key_env` says. Opens no
    /// connection.
    ///
    /// # Errors
    /// [`EmbedError::Misconfigured`] naming the setting.
    pub fn new(config: &HttpConfig, api_key: Option<&str>) -> Result<Self, EmbedError> {
        check_settings(config, api_key)?;
        let url = config.service().endpoint(&["embeddings"])?;
        if api_key.is_some() && url.scheme() == "http" {
            tracing::warn!("base_url is not https: the embedder's key is sent unencrypted");
        }
        Ok(Self {
            client: outbound::client(&url)
                .map_err(|why| misconfigured(format!("no HTTP client: {why}")))?,
            url,
            key: api_key
                .map(|key| key_header(config.style, key))
                .transpose()?,
            model: config.model.clone(),
            dimension: config.dimension,
            request_dimension: config.request_dimension,
            timeout: Duration::from_millis(config.timeout_ms),
            identity: format!("openai/{}/{}", config.model, config.dimension),
            region: config.region.clone(),
            local: config.local,
        })
    }

    async fn embed_all(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        refuse_blank(texts)?;
        let mut vectors = Vec::with_capacity(texts.len());
        for batch in texts.chunks(MAX_BATCH) {
            vectors.extend(self.embed_batch(batch).await?);
        }
        Ok(vectors)
    }

    async fn embed_batch(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let deadline = Instant::now() + self.timeout;
        let tries = (|| self.request(texts))
            .retry(
                ExponentialBuilder::new()
                    .with_min_delay(FIRST_WAIT)
                    .with_max_delay(LONGEST_WAIT)
                    .with_max_times(MAX_RETRIES)
                    .with_jitter(),
            )
            .sleep(tokio::time::sleep)
            .when(|failure| failure.transient)
            .adjust(|failure, wait| failure.wait(wait?, deadline))
            .notify(|failure, wait| {
                tracing::debug!(error = %failure.error, ?wait, "embedding request is tried again");
            });
        match tokio::time::timeout_at(deadline, tries).await {
            Ok(result) => result.map_err(|failure| failure.error),
            Err(_) => Err(EmbedError::Unavailable(format!(
                "no answer within {} ms",
                self.timeout.as_millis()
            ))),
        }
    }

    async fn request(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, Failure> {
        let mut request = self.client.post(self.url.clone()).json(&Request {
            model: &self.model,
            input: texts,
            dimensions: self.request_dimension.then_some(self.dimension),
        });
        if let Some((name, value)) = &self.key {
            request = request.header(name, value);
        }
        let response = request.send().await.map_err(|e| broken(&e))?;
        if response.status() != StatusCode::OK {
            return Err(Failure::from_status(&response));
        }
        let limit = BYTES_PER_ANSWER + texts.len() * self.dimension * BYTES_PER_NUMBER;
        let body = body_within(response, limit)
            .await
            .map_err(|unread| match unread {
                Unread::Broken(error) => broken(&error),
                Unread::TooLarge => {
                    let reason = format!("the answer is larger than {limit} bytes");
                    EmbedError::Unavailable(reason).into()
                }
            })?;
        Ok(read_vectors(&body, self.dimension, texts.len())?)
    }
}

impl Embedder for HttpEmbedder {
    fn embed<'a>(&'a self, texts: &'a [String]) -> EmbedFuture<'a> {
        Box::pin(self.embed_all(texts))
    }

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn is_local(&self) -> bool {
        self.local
    }

    fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }
}

impl std::fmt::Debug for HttpEmbedder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpEmbedder")
            .field("url", &self.url.as_str())
            .field("key", &self.key.as_ref().map(|_| "redacted"))
            .field("identity", &self.identity)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    input: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    index: usize,
    /// JSON has no NaN; services that meet one write `null`.
    /// Wider than what is kept: a number beyond that becomes infinite, and is refused.
    embedding: Vec<Option<f64>>,
}

/// One try that failed, and what that means for the next.
#[derive(Debug)]
struct Failure {
    error: EmbedError,
    transient: bool,
    retry_after: Option<Duration>,
}

impl From<EmbedError> for Failure {
    fn from(error: EmbedError) -> Self {
        Self {
            error,
            transient: false,
            retry_after: None,
        }
    }
}

impl Failure {
    fn from_status(response: &Response) -> Self {
        let status = response.status();
        let hint = if status.is_redirection() {
            ": redirects are not followed"
        } else {
            ""
        };
        Self {
            error: EmbedError::Unavailable(format!("the service answered {status}{hint}")),
            transient: status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error(),
            retry_after: response
                .headers()
                .get(RETRY_AFTER)
                .and_then(|value| retry_after(value.to_str().ok()?, OffsetDateTime::now_utc())),
        }
    }

    /// How long to wait before the next try; none if that would pass the deadline.
    fn wait(&self, backoff: Duration, deadline: Instant) -> Option<Duration> {
        let wait = backoff.max(self.retry_after.unwrap_or_default());
        (wait < deadline.saturating_duration_since(Instant::now())).then_some(wait)
    }
}

/// Reads `Retry-After`, which is seconds or a date (RFC 9110, section 10.2.3).
pub(super) fn retry_after(value: &str, now: OffsetDateTime) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = OffsetDateTime::parse(value.trim(), &Rfc2822).ok()?;
    Some((date - now).try_into().unwrap_or(Duration::ZERO))
}

fn read_vectors(body: &[u8], dimension: usize, count: usize) -> Result<Vec<Vec<f32>>, EmbedError> {
    let answer: Answer = serde_json::from_slice(body).map_err(|error| {
        // Only the place: serde's message may quote the answer.
        let (line, column) = (error.line(), error.column());
        EmbedError::Unavailable(format!(
            "the answer is no embedding (line {line}, column {column})"
        ))
    })?;
    let mut vectors = in_order(answer.data, count)?;
    check_vectors(dimension, count, &vectors)?;
    vectors.iter_mut().for_each(|vector| normalise(vector));
    Ok(vectors)
}

/// The vectors in the order of the texts, which only `index` tells.
fn in_order(mut items: Vec<Item>, count: usize) -> Result<Vec<Vec<f32>>, EmbedError> {
    items.sort_by_key(|item| item.index);
    if items.len() == count && items.iter().enumerate().any(|(i, item)| i != item.index) {
        return Err(EmbedError::InvalidVector(format!(
            "the indices of {count} vectors are not 0 to {}",
            count.saturating_sub(1)
        )));
    }
    #[allow(
        clippy::cast_possible_truncation,
        reason = "what does not fit is refused as infinite"
    )]
    let number = |number: Option<f64>| number.map_or(f32::NAN, |number| number as f32);
    Ok(items
        .into_iter()
        .map(|item| item.embedding.into_iter().map(number).collect())
        .collect())
}

fn broken(error: &reqwest::Error) -> Failure {
    let what = if error.is_connect() {
        "cannot connect"
    } else {
        "the request failed"
    };
    EmbedError::Unavailable(format!("{what}: {}", root_cause(error))).into()
}
