//! One exchange with a sidecar over HTTP: where text leaves the process, with its time,
//! size and number of attempts bounded. No message or log line here may carry the URL,
//! the text or the answer.

use std::future::Future;
use std::net::IpAddr;
use std::time::Duration;

use backon::{ConstantBuilder, Retryable};
use reqwest::{Client, RequestBuilder, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{SidecarError, SidecarFailure};
use crate::outbound::{self, Unread, body_within, root_cause};

/// One attempt, from connecting to the last byte of the answer.
const ATTEMPT: Duration = Duration::from_millis(1500);
/// After the first attempt.
const RETRIES: usize = 1;
/// Long enough for a worker that is being replaced to be there again.
const PAUSE: Duration = Duration::from_millis(20);
/// Bytes of an answer: 1 MiB.
pub(super) const MAX_ANSWER: usize = 1 << 20;
const REQUEST_ID: &str = "x-halomem-request-id";

/// What a sidecar is asked.
#[derive(Debug, Serialize)]
pub(super) struct PlanRequest<'a> {
    /// Names the plan: the same in both attempts, new in every plan. Sent as a header.
    #[serde(skip)]
    pub(super) id: &'a str,
    pub(super) query: &'a str,
    pub(super) candidates: Vec<Candidate<'a>>,
    pub(super) budget: u32,
    pub(super) k: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct Candidate<'a> {
    #[serde(rename = "ref")]
    pub(super) reference: &'a str,
    pub(super) content: &'a str,
}

/// What it answers. More fields than these do no harm.
#[derive(Debug, Deserialize)]
pub(super) struct PlanAnswer {
    pub(super) refs: Vec<ScoredRef>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ScoredRef {
    #[serde(rename = "ref")]
    pub(super) reference: String,
    /// JSON has no NaN; where one is met, `null` is written.
    pub(super) score: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Health {
    pub(super) ok: bool,
    #[serde(default)]
    pub(super) mode: String,
}

/// Where a sidecar is. Redirects are not followed and proxy variables are ignored: text
/// goes to the configured host or nowhere.
pub(super) struct Endpoint {
    client: Client,
    plan: Url,
    health: Url,
}

impl Endpoint {
    pub(super) fn new(url: &str) -> Result<Self, SidecarError> {
        let base = checked(url)?;
        Ok(Self {
            client: outbound::client(&base).map_err(SidecarError::Client)?,
            plan: below(&base, "plan")?,
            health: below(&base, "healthz")?,
        })
    }

    /// Two attempts, whatever the first one failed of.
    pub(super) async fn plan(
        &self,
        request: &PlanRequest<'_>,
    ) -> Result<PlanAnswer, SidecarFailure> {
        let attempt = || {
            let post = self.client.post(self.plan.clone());
            in_time(answer_of(post.header(REQUEST_ID, request.id).json(request)))
        };
        let twice = ConstantBuilder::new()
            .with_delay(PAUSE)
            .with_max_times(RETRIES);
        attempt
            .retry(twice)
            .sleep(tokio::time::sleep)
            .notify(|failure, _| tracing::debug!(%failure, "a sidecar is asked again"))
            .await
    }

    /// One attempt.
    pub(super) async fn health(&self) -> Result<Health, SidecarFailure> {
        in_time(answer_of(self.client.get(self.health.clone()))).await
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let origin = self.plan.origin().ascii_serialization();
        f.debug_tuple("Endpoint").field(&origin).finish()
    }
}

async fn in_time<T>(
    attempt: impl Future<Output = Result<T, SidecarFailure>>,
) -> Result<T, SidecarFailure> {
    let answer = tokio::time::timeout(ATTEMPT, attempt).await;
    answer.unwrap_or(Err(SidecarFailure::Timeout))
}

async fn answer_of<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, SidecarFailure> {
    let response = request.send().await.map_err(|error| broken(&error))?;
    if !response.status().is_success() {
        return Err(SidecarFailure::Status(response.status().as_u16()));
    }
    let body = body_within(response, MAX_ANSWER).await;
    let body = body.map_err(|unread| match unread {
        Unread::Broken(error) => broken(&error),
        Unread::TooLarge => SidecarFailure::TooLarge { limit: MAX_ANSWER },
    })?;
    // Only the place: serde's message may quote the answer.
    serde_json::from_slice(&body).map_err(|error| SidecarFailure::Malformed {
        line: error.line(),
        column: error.column(),
    })
}

fn checked(url: &str) -> Result<Url, SidecarError> {
    let refused = |problem: &str| SidecarError::Url(problem.to_owned());
    // The error of the parser does not quote what it was given.
    let url = Url::parse(url).map_err(|error| refused(&format!("is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(refused("must start with http:// or https://"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(refused("must not have a query or a fragment"));
    }
    if url.scheme() == "http" && !is_loopback(&url) {
        tracing::warn!("the sidecar's URL is not https: memories are sent to it unencrypted");
    }
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn below(base: &Url, name: &str) -> Result<Url, SidecarError> {
    let mut url = base.clone();
    url.path_segments_mut()
        .map_err(|()| SidecarError::Url("cannot have a path".to_owned()))?
        .pop_if_empty()
        .push(name);
    Ok(url)
}

fn broken(error: &reqwest::Error) -> SidecarFailure {
    SidecarFailure::Transport(root_cause(error))
}
