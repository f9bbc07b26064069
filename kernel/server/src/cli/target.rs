//! Where a command goes: to a kernel at a URL, to the one that runs on this
//! machine's data directory, or to one opened for this command alone. All three
//! speak the same HTTP.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use axum::Router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use halofy_gate::Gate;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use super::output;
use super::settings::Settings;
use crate::boot::boot;
use crate::http::{Command, Problem, control_router};

/// An answer: the status, and the body as JSON.
pub struct Response {
    /// 2xx, or the status of a [`Problem`].
    pub status: StatusCode,
    /// The body.
    pub body: Value,
}

/// Where calls go.
pub enum Target {
    /// To a kernel that runs.
    Remote {
        /// The connection.
        client: reqwest::Client,
        /// Scheme and authority.
        base: String,
    },
    /// To a kernel in this process.
    Local {
        /// Its door.
        router: Router,
        /// The kernel, to be closed at the end.
        gate: Arc<Gate>,
    },
}

/// The control socket of the kernel that holds a data directory.
pub(crate) fn control_socket(data: &Path) -> PathBuf {
    data.join("control.sock")
}

impl Target {
    /// Gives one operator's command and ends.
    ///
    /// # Errors
    /// As [`Target::for_operator`] and [`Target::command`].
    pub async fn once(settings: &Settings, command: &Command) -> Result<Value> {
        let target = Self::for_operator(settings).await?;
        let reply = target.command(command).await;
        target.close().await;
        reply
    }

    /// For calls with a key: `url` if given, else as for an operator.
    ///
    /// # Errors
    /// When no kernel is to be had.
    pub async fn for_calls(settings: &Settings, url: Option<&str>) -> Result<Self> {
        match url {
            Some(url) => Self::remote(url),
            None => Self::for_operator(settings).await,
        }
    }

    /// For an operator's commands: the running kernel, or one in this process.
    ///
    /// # Errors
    /// When the database cannot be opened.
    pub async fn for_operator(settings: &Settings) -> Result<Self> {
        if settings.database_url.is_none()
            && let Some(running) = Self::running(&settings.data).await?
        {
            return Ok(running);
        }
        if settings.database_url.is_none() && !settings.data.exists() {
            output::note(format_args!(
                "no kernel runs on {}, and nothing is there yet: a new database is made; \
                 --data or HALOFY_DATA names another",
                settings.data.display()
            ));
        }
        let gate = boot(&settings.kernel()?).await?;
        gate.warm().await?;
        Ok(Self::local(gate))
    }

    /// A kernel at a URL.
    ///
    /// # Errors
    /// When the client cannot be made.
    pub fn remote(url: &str) -> Result<Self> {
        Ok(Self::Remote {
            client: client_builder().build()?,
            base: url.trim_end_matches('/').to_owned(),
        })
    }

    /// A kernel in this process.
    pub fn local(gate: Arc<Gate>) -> Self {
        let router = control_router(gate.clone());
        Self::Local { router, gate }
    }

    async fn running(data: &Path) -> Result<Option<Self>> {
        let socket = control_socket(data);
        if tokio::net::UnixStream::connect(&socket).await.is_err() {
            return Ok(None);
        }
        let client = client_builder().unix_socket(socket).build()?;
        // The name is never looked up: every connection goes to the socket.
        let base = "http://halofy.localhost".to_owned();
        Ok(Some(Self::Remote { client, base }))
    }

    /// Makes a syscall.
    ///
    /// # Errors
    /// When the kernel cannot be reached; a refusal is a [`Response`].
    pub async fn call(&self, op: &str, key: &str, body: &Value) -> Result<Response> {
        self.post(&format!("/v1/mem/{op}"), Some(key), body).await
    }

    /// Gives an operator's command and returns its reply.
    ///
    /// # Errors
    /// When the kernel cannot be reached or refuses, with the problem's own words.
    pub async fn command(&self, command: &Command) -> Result<Value> {
        let body = serde_json::to_value(command)?;
        self.post("/control", None, &body).await?.into_result()
    }

    async fn post(&self, path: &str, key: Option<&str>, body: &Value) -> Result<Response> {
        match self {
            Self::Remote { client, base } => {
                let request = client.post(format!("{base}{path}")).json(body);
                let request = match key {
                    Some(key) => request.bearer_auth(key),
                    None => request,
                };
                let response = request
                    .send()
                    .await
                    .with_context(|| format!("no kernel answers at {base}"))?;
                let status = response.status();
                let bytes = response.bytes().await?;
                Response::read(status, &bytes)
            }
            Self::Local { router, .. } => {
                let request = Request::builder()
                    .method(Method::POST)
                    .uri(path)
                    .header(header::CONTENT_TYPE, "application/json");
                let request = match key {
                    Some(key) => request.header(header::AUTHORIZATION, format!("Bearer {key}")),
                    None => request,
                };
                let request = request.body(Body::from(serde_json::to_vec(body)?))?;
                let response = router.clone().oneshot(request).await?;
                let status = response.status();
                let bytes = response.into_body().collect().await?.to_bytes();
                Response::read(status, &bytes)
            }
        }
    }

    /// Ends it; a kernel in this process is closed.
    pub async fn close(self) {
        if let Self::Local { router, gate } = self {
            drop(router);
            gate.close().await;
        }
    }
}

impl Response {
    fn read(status: StatusCode, bytes: &[u8]) -> Result<Self> {
        let body = serde_json::from_slice(bytes).with_context(|| {
            format!("the kernel answered {status} with something else than JSON")
        })?;
        Ok(Self { status, body })
    }

    /// The body, or the problem as an error.
    ///
    /// # Errors
    /// When the kernel refused.
    pub fn into_result(self) -> Result<Value> {
        if self.status.is_success() {
            return Ok(self.body);
        }
        match serde_json::from_value::<Problem>(self.body) {
            Ok(problem) => Err(anyhow!("{}: {}", problem.title, problem.detail)),
            Err(_) => Err(anyhow!("the kernel answered {}", self.status)),
        }
    }

    /// How long a 429 or 503 asks to wait.
    pub fn retry_after(&self) -> Option<std::time::Duration> {
        let seconds = self.body.get("retryAfter")?.as_u64()?;
        Some(std::time::Duration::from_secs(seconds))
    }
}

fn client_builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder().no_proxy()
}
