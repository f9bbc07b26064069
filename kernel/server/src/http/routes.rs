//! Routes and what they take from a request. Everything under `/v1/mem/` becomes
//! one [`Call`]; the gate does the rest.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body as HttpBody;
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use halofy_core::{AgentKind, Invalid, Op};
use halofy_gate::{
    Body, Call, CallId, Claim, Gate, IdempotencyKey, MissingDriver, claim_in_header,
};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::json;
use tower_http::catch_panic::CatchPanicLayer;

use super::control;
use super::problem::Problem;

/// The largest body of a call.
pub const MAX_BODY_BYTES: usize = 2 * 1024 * 1024;
/// The largest command of an operator: a cartridge, in base64.
const MAX_COMMAND_BYTES: usize = 128 * 1024 * 1024;
/// A body that arrives more slowly than this is given up.
const BODY_TIMEOUT: Duration = Duration::from_secs(15);
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// What the handlers share.
#[derive(Clone)]
pub(super) struct Shared {
    pub(super) gate: Arc<Gate>,
    agent: AgentKind,
    metrics: Option<PrometheusHandle>,
}

/// The routes for agents: syscalls, health, metrics.
pub fn public_router(gate: Arc<Gate>, metrics: Option<PrometheusHandle>) -> Router {
    let shared = Shared {
        gate,
        agent: AgentKind::Http,
        metrics,
    };
    finish(routes(), shared)
}

/// The routes for the operator's command line: the public ones, and `/control`.
/// Only for a door that the operator alone can open.
pub fn control_router(gate: Arc<Gate>) -> Router {
    let shared = Shared {
        gate,
        agent: AgentKind::Cli,
        metrics: None,
    };
    let limit = DefaultBodyLimit::max(MAX_COMMAND_BYTES);
    let control = post(control::control).layer(limit);
    finish(routes().route("/control", control), shared)
}

fn routes() -> Router<Shared> {
    Router::new()
        .route("/v1/mem/{op}", post(syscall))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/metrics", get(metrics))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
}

fn finish(routes: Router<Shared>, shared: Shared) -> Router {
    routes
        .with_state(shared)
        .layer(CatchPanicLayer::new())
        .layer(middleware::from_fn(name_request))
}

/// Names the request. A name that the client sends is not taken over: it goes
/// into the audit log.
async fn name_request(mut request: Request, next: Next) -> Response {
    let id = CallId::new();
    request.extensions_mut().insert(id);
    let mut response = next.run(request).await;
    if let Ok(value) = HeaderValue::try_from(id.to_string()) {
        response.headers_mut().insert("x-request-id", value);
    }
    response
}

async fn syscall(
    State(shared): State<Shared>,
    Path(name): Path<String>,
    axum::Extension(id): axum::Extension<CallId>,
    request: Request,
) -> Response {
    let Some(op) = Op::ALL.into_iter().find(|op| op.as_str() == name) else {
        return unknown_route().await;
    };
    let (parts, body) = request.into_parts();
    let body = read_body(body).await;
    let call = Call {
        id,
        op,
        agent: shared.agent,
        key: bearer(&parts.headers),
        idempotency: idempotency_key(&parts.headers),
        claim: claim_outside_body(&parts.headers, &parts.uri),
        body,
    };
    match shared.gate.call(call).await {
        Ok(answer) => Json(answer.0).into_response(),
        Err(refusal) => Problem::from(&refusal).into_response(),
    }
}

async fn read_body(body: HttpBody) -> Body {
    let limited = Limited::new(body, MAX_BODY_BYTES);
    match tokio::time::timeout(BODY_TIMEOUT, limited.collect()).await {
        Ok(Ok(collected)) => Body::Bytes(collected.to_bytes().into()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Body::TooLarge {
            limit: MAX_BODY_BYTES,
        },
        Ok(Err(_)) | Err(_) => Body::Incomplete,
    }
}

/// Two of them are none: whoever stands in between may have looked at the other.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let value = value.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty()).then(|| key.to_owned())
}

/// Two of them are none of the two, and no call that may be made twice either.
fn idempotency_key(headers: &HeaderMap) -> Option<Result<IdempotencyKey, Invalid>> {
    let mut values = headers.get_all(IdempotencyKey::HEADER).iter();
    let first = values.next()?;
    Some(match values.next() {
        None => IdempotencyKey::parse(first.as_bytes()),
        Some(_) => Err(Invalid::new(
            IdempotencyKey::HEADER,
            "is given more than once",
        )),
    })
}

fn claim_outside_body(headers: &HeaderMap, uri: &Uri) -> Option<Claim> {
    let in_headers = headers
        .keys()
        .find_map(|name| claim_in_header(name.as_str()));
    let query = uri.query().unwrap_or_default();
    let mut names = form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name);
    in_headers.or_else(|| {
        let name = names.find(|name| claim_in_header(name).is_some())?;
        Some(Claim(format!("query parameter {name}")))
    })
}

async fn live() -> Response {
    Json(json!({ "status": "live" })).into_response()
}

async fn ready(State(shared): State<Shared>) -> Response {
    let ready = tokio::time::timeout(READY_TIMEOUT, shared.gate.ready()).await;
    match ready {
        Ok(Ok(())) => ready_answer(&shared.gate.drivers_missing()),
        Ok(Err(refusal)) => Problem::from(&refusal).into_response(),
        Err(_) => Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "unavailable",
            "A part of the kernel is not available",
            "the store does not answer",
        )
        .into_response(),
    }
}

/// Whoever may ask this learns which drivers are missing, and not whose policy names them.
fn ready_answer(missing: &[MissingDriver]) -> Response {
    let mut drivers: Vec<&str> = missing.iter().map(|one| one.driver.as_str()).collect();
    drivers.sort_unstable();
    drivers.dedup();
    match drivers.is_empty() {
        true => Json(json!({ "status": "ready" })).into_response(),
        false => Json(json!({ "status": "ready", "driversMissing": drivers })).into_response(),
    }
}

async fn metrics(State(shared): State<Shared>) -> Response {
    match shared.metrics {
        Some(handle) => {
            let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
            ([(header::CONTENT_TYPE, text)], handle.render()).into_response()
        }
        None => unknown_route().await,
    }
}

async fn unknown_route() -> Response {
    Problem::new(
        StatusCode::NOT_FOUND,
        "unknown_route",
        "There is no such route",
        format!(
            "the syscalls are POST /v1/mem/{{{}}}",
            Op::ALL.map(Op::as_str).join(", ")
        ),
    )
    .into_response()
}

async fn wrong_method() -> Response {
    Problem::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "wrong_method",
        "This route takes another method",
        "syscalls are POST; health and metrics are GET",
    )
    .into_response()
}
