//! Problem details (RFC 9457): the one place where a refusal becomes a status, a
//! title and advice. The texts hold nothing of the store's own messages.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use halofy_gate::Refusal;
use serde::{Deserialize, Serialize};

/// `application/problem+json`.
///
/// The same refusal is the same bytes: what is hidden cannot be told from what is
/// missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// `urn:halofy:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// What went wrong, in a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// A stable word.
    pub code: String,
    /// What to do next.
    pub detail: String,
    /// The field at fault, if one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Seconds to wait, where waiting helps. Also in `Retry-After`.
    #[serde(rename = "retryAfter", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

impl Problem {
    /// A problem of the transport itself.
    pub fn new(status: StatusCode, code: &str, title: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:halofy:problem:{code}"),
            title: title.to_owned(),
            status: status.as_u16(),
            code: code.to_owned(),
            detail: detail.into(),
            field: None,
            retry_after: None,
        }
    }
}

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Self {
        let (status, title, detail) = words(refusal);
        let mut problem = Self::new(status, refusal.code(), title, detail);
        match refusal {
            Refusal::Invalid(invalid) => problem.field = Some(invalid.field.clone()),
            Refusal::RateLimited { retry_after } => {
                let rounded_up = retry_after.as_secs_f64().ceil();
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a whole, positive number of seconds"
                )]
                let seconds = rounded_up as u64;
                problem.retry_after = Some(seconds.max(1));
            }
            Refusal::Overloaded
            | Refusal::Unavailable { .. }
            | Refusal::NoVector { .. }
            | Refusal::IdempotencyInProgress => {
                problem.retry_after = Some(1);
            }
            _ => {}
        }
        problem
    }
}

fn words(refusal: &Refusal) -> (StatusCode, &'static str, String) {
    let text = str::to_owned;
    match refusal {
        Refusal::Unauthenticated { .. } => (
            StatusCode::UNAUTHORIZED,
            "The key is not accepted",
            text(
                "send `Authorization: Bearer hm_…` with a key that is neither expired nor revoked",
            ),
        ),
        Refusal::IdentityClaimed { name } => (
            StatusCode::FORBIDDEN,
            "Identity comes from the key",
            format!(
                "remove `{name}`: namespace and actor are the key's, a request cannot set them"
            ),
        ),
        Refusal::RoleForbids { role, op } => (
            StatusCode::FORBIDDEN,
            "The role does not allow this",
            format!("the role {role} may not {op}; use a key with another role"),
        ),
        Refusal::Suspended => (
            StatusCode::FORBIDDEN,
            "The namespace is suspended",
            text("an operator can lift the suspension with `halofy policy set`"),
        ),
        Refusal::RateLimited { .. } => (
            StatusCode::TOO_MANY_REQUESTS,
            "Too many requests",
            text("wait as long as Retry-After says; the limit is this key's alone"),
        ),
        Refusal::Malformed(why) => (
            StatusCode::BAD_REQUEST,
            "The body is not JSON",
            format!("send one JSON object: {why}"),
        ),
        Refusal::TooLarge { limit } => (
            StatusCode::PAYLOAD_TOO_LARGE,
            "The body is too large",
            format!("at most {limit} bytes are taken"),
        ),
        Refusal::Incomplete => (
            StatusCode::REQUEST_TIMEOUT,
            "The body did not arrive whole",
            text("send all of it within 15 seconds"),
        ),
        Refusal::Invalid(invalid) => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "A field is not valid",
            invalid.to_string(),
        ),
        Refusal::NotFound { .. } => (
            StatusCode::NOT_FOUND,
            "Not found",
            text("there is nothing with this name that this key may see"),
        ),
        Refusal::IdempotencyConflict => (
            StatusCode::CONFLICT,
            "The idempotency key stands for another call",
            text("choose a new Idempotency-Key for each new call; this one had another body"),
        ),
        Refusal::IdempotencyInProgress => (
            StatusCode::CONFLICT,
            "The first call is not finished",
            text("send the same call with the same Idempotency-Key after Retry-After"),
        ),
        Refusal::IdempotencyErased => (
            StatusCode::GONE,
            "What was stored is erased",
            text("the call with this Idempotency-Key was made, and what it stored was erased"),
        ),
        Refusal::Erased => (
            StatusCode::GONE,
            "What it tells of is erased",
            text("its source or its namespace was erased while it was written; nothing is stored"),
        ),
        Refusal::JobUnfit { state, erased } => (
            StatusCode::CONFLICT,
            "The job stands where this does not apply",
            match erased {
                true => format!("the job is {state} and what it held is erased"),
                false => format!(
                    "the job is {state}; only a dead or cancelled one is retried, and only a \
                     queued or running one is cancelled"
                ),
            },
        ),
        Refusal::DriverRefused { why, .. } => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "The cartridge is refused",
            why.clone(),
        ),
        Refusal::Overloaded => (
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many searches are running",
            text("try again after Retry-After"),
        ),
        Refusal::Unavailable { what, .. } => (
            StatusCode::SERVICE_UNAVAILABLE,
            "A part of the kernel is not available",
            format!("the {what} does not answer; try again after Retry-After"),
        ),
        Refusal::NoVector { why } => (
            StatusCode::SERVICE_UNAVAILABLE,
            "The embedder gives no vectors of this store",
            format!("nothing was stored: {why}; an operator has to set the embedder right"),
        ),
        Refusal::Internal { .. } => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "The kernel failed",
            text("the kernel's log names the fault under this response's x-request-id"),
        ),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        let json = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, json);
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
