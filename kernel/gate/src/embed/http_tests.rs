//! The HTTP embedder against a real server on the loopback interface.

use std::time::{Duration, Instant};

use serde_json::json;
use time::macros::datetime;
use tokio::net::TcpListener;

use super::http::retry_after;
use super::{EmbedError, Embedder, HttpConfig, HttpEmbedder, HttpStyle};
use crate::scripted_server::{Reply, Server, reply};

const OK: &str = "200 OK";
const KEY: &str = "sk-very-secret";

fn vectors(vectors: &[&[f64]]) -> String {
    let data: Vec<_> = vectors
        .iter()
        .enumerate()
        .map(|(index, vector)| json!({"object": "embedding", "index": index, "embedding": vector}))
        .collect();
    json!({"object": "list", "data": data, "model": "m"}).to_string()
}

fn config(server: &Server) -> HttpConfig {
    HttpConfig {
        base_url: server.base_url.clone(),
        model: "m".into(),
        dimension: 2,
        request_dimension: false,
        api_key_env: None,
        style: HttpStyle::Openai,
        api_version: None,
        timeout_ms: 5_000,
        region: None,
        local: false,
    }
}

fn embedder(server: &Server) -> HttpEmbedder {
    HttpEmbedder::new(&config(server), None).expect("valid")
}

fn texts(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("text {i}")).collect()
}

/// What one answer of status 200 with this body becomes, for two texts of two numbers.
async fn embed_two(body: impl ToString) -> Result<Vec<Vec<f32>>, EmbedError> {
    let server = Server::start(vec![reply(OK, body)]).await;
    embedder(&server).embed(&texts(2)).await
}

#[track_caller]
fn assert_unavailable(result: Result<Vec<Vec<f32>>, EmbedError>, part: &str) {
    match result {
        Err(EmbedError::Unavailable(reason)) if reason.contains(part) => {}
        other => panic!("expected to be unavailable ({part}), got {other:?}"),
    }
}

#[tokio::test]
async fn asks_for_the_model_and_returns_unit_vectors() {
    let server = Server::start(vec![reply(OK, vectors(&[&[3.0, 4.0], &[0.0, -2.0]]))]).await;
    let embedder = embedder(&server);
    let got = embedder.embed(&texts(2)).await.expect("embeds");
    assert_eq!(got, [[0.6, 0.8], [0.0, -1.0]]);
    assert_eq!(embedder.identity(), "openai/m/2");
    assert!(!embedder.is_local());

    let (head, body) = &server.requests()[0];
    assert!(head.starts_with("POST /v1/embeddings HTTP/1.1"), "{head}");
    assert!(!head.contains("authorization"), "no key, no header");
    assert_eq!(*body, json!({"model": "m", "input": ["text 0", "text 1"]}));
}

#[tokio::test]
async fn sends_the_key_and_asks_for_a_dimension_when_told_to() {
    let server = Server::start(vec![reply(OK, vectors(&[&[1.0, 0.0]]))]).await;
    let config = HttpConfig {
        request_dimension: true,
        base_url: format!("{}/", server.base_url),
        ..config(&server)
    };
    let embedder = HttpEmbedder::new(&config, Some("sk-very-secret\n")).expect("valid");
    embedder.embed(&texts(1)).await.expect("embeds");
    let (head, body) = &server.requests()[0];
    assert!(head.starts_with("POST /v1/embeddings "), "{head}");
    assert!(head.contains("authorization: Bearer sk-very-secret\r\n"));
    assert_eq!(body["dimensions"], 2);
}

#[tokio::test]
async fn azure_names_the_deployment_in_the_path_and_the_key_in_its_own_header() {
    let server = Server::start(vec![reply(OK, vectors(&[&[1.0, 0.0]]))]).await;
    let config = HttpConfig {
        base_url: server.base_url.replace("/v1", ""),
        model: "my embeddings".into(),
        style: HttpStyle::Azure,
        api_version: Some("2024-10-21".into()),
        ..config(&server)
    };
    assert!(HttpEmbedder::new(&config, None).is_err(), "needs a key");
    let embedder = HttpEmbedder::new(&config, Some(KEY)).expect("valid");
    embedder.embed(&texts(1)).await.expect("embeds");
    let (head, _) = &server.requests()[0];
    let path = "/openai/deployments/my%20embeddings/embeddings?api-version=2024-10-21";
    assert!(head.starts_with(&format!("POST {path} ")), "{head}");
    assert!(head.contains(&format!("api-key: {KEY}\r\n")) && !head.contains("authorization"));
}

#[test]
fn the_key_shows_in_no_debug_output_and_no_error() {
    let config = HttpConfig {
        base_url: "http://127.0.0.1:9/v1".into(),
        model: "m".into(),
        dimension: 2,
        request_dimension: false,
        api_key_env: None,
        style: HttpStyle::Openai,
        api_version: None,
        timeout_ms: 1_000,
        region: None,
        local: false,
    };
    let embedder = HttpEmbedder::new(&config, Some(KEY)).expect("valid");
    let shown = format!("{embedder:?} {embedder:#?}");
    assert!(shown.contains("redacted") && !shown.contains("very-secret"));
    let bad_key = HttpEmbedder::new(&config, Some("very-secret\u{7f}")).expect_err("no header");
    assert!(!format!("{bad_key} {bad_key:?}").contains("very-secret"));
}

#[tokio::test]
async fn puts_vectors_in_the_order_of_their_indices() {
    let body = json!({"data": [
        {"index": 1, "embedding": [0.0, 1.0]},
        {"index": 0, "embedding": [1.0, 0.0]},
    ]});
    assert_eq!(
        embed_two(body).await,
        Ok(vec![vec![1.0, 0.0], vec![0.0, 1.0]])
    );
}

#[tokio::test]
async fn refuses_indices_that_are_not_those_of_the_texts() {
    for second in [0, 2] {
        let body = json!({"data": [
            {"index": 0, "embedding": [1.0, 0.0]},
            {"index": second, "embedding": [0.0, 1.0]},
        ]});
        let error = embed_two(body).await.expect_err("wrong indices");
        assert!(matches!(error, EmbedError::InvalidVector(_)), "{error}");
    }
}

#[tokio::test]
async fn refuses_another_size_and_another_count_naming_both() {
    let wrong_size = embed_two(vectors(&[&[1.0, 0.0], &[1.0, 0.0, 0.0]])).await;
    assert_eq!(
        wrong_size,
        Err(EmbedError::WrongDimension {
            expected: 2,
            got: 3
        })
    );
    let wrong_count = embed_two(vectors(&[&[1.0, 0.0]])).await;
    assert_eq!(
        wrong_count,
        Err(EmbedError::InvalidVector(
            "expected 2 vectors, got 1".into()
        ))
    );
}

#[tokio::test]
async fn refuses_vectors_that_are_not_finite_or_all_zero() {
    for number in ["null", "1e39", "-1e39"] {
        let body = vectors(&[&[1.0, 0.0], &[1.0, 0.5]]).replace("0.5", number);
        let error = embed_two(body).await.expect_err("not finite");
        assert!(
            matches!(error, EmbedError::InvalidVector(_)),
            "{number}: {error}"
        );
    }
    let zero = embed_two(vectors(&[&[1.0, 0.0], &[0.0, 0.0]])).await;
    assert!(
        matches!(zero, Err(EmbedError::InvalidVector(_))),
        "{zero:?}"
    );
    // Not JSON at all, though some servers write it.
    let bare = vectors(&[&[1.0, 0.0], &[1.0, 0.5]]).replace("0.5", "NaN");
    assert_unavailable(embed_two(bare).await, "no embedding");
}

#[tokio::test]
async fn an_answer_that_is_no_embedding_is_unavailable_and_not_quoted() {
    for body in [
        "",
        "<html>secret</html>",
        "{}",
        r#"{"data": "secret"}"#,
        "[]",
    ] {
        let result = embed_two(body).await;
        assert!(!format!("{result:?}").contains("secret"), "{result:?}");
        assert_unavailable(result, "no embedding");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let target = Server::start(vec![reply(OK, vectors(&[&[1.0, 0.0]]))]).await;
    for status in [
        "302 Found",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let location = vec![("location", format!("{}/embeddings", target.base_url))];
        let server = Server::start(vec![Reply::Send(status, location, String::new())]).await;
        let result = embedder(&server).embed(&texts(1)).await;
        assert_unavailable(result, "redirects are not followed");
    }
    assert_eq!(target.requests().len(), 0);
}

#[tokio::test]
async fn tries_again_after_429_and_5xx_but_not_before_retry_after() {
    let busy = vec![("retry-after", "1".to_owned())];
    let server = Server::start(vec![
        Reply::Send("429 Too Many Requests", busy, String::new()),
        reply("503 Service Unavailable", ""),
        reply(OK, vectors(&[&[1.0, 0.0]])),
    ])
    .await;
    let start = Instant::now();
    let got = embedder(&server).embed(&texts(1)).await;
    assert_eq!(got, Ok(vec![vec![1.0, 0.0]]));
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn gives_up_at_once_when_retry_after_passes_the_deadline() {
    let busy = vec![("retry-after", "3600".to_owned())];
    let server = Server::start(vec![Reply::Send(
        "429 Too Many Requests",
        busy,
        String::new(),
    )])
    .await;
    let start = Instant::now();
    let result = embedder(&server).embed(&texts(1)).await;
    assert_unavailable(result, "429");
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn gives_up_after_four_tries() {
    let script = (0..9)
        .map(|_| reply("500 Internal Server Error", ""))
        .collect();
    let server = Server::start(script).await;
    assert_unavailable(embedder(&server).embed(&texts(1)).await, "500");
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn does_not_repeat_a_request_the_service_refuses() {
    for status in ["400 Bad Request", "401 Unauthorized", "404 Not Found"] {
        let server = Server::start(vec![reply(status, "text 0"), reply(status, "")]).await;
        assert_unavailable(embedder(&server).embed(&texts(1)).await, &status[..3]);
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_service_that_hangs_is_unavailable_when_the_time_is_up() {
    let server = Server::start(vec![Reply::Hang]).await;
    let config = HttpConfig {
        timeout_ms: 200,
        ..config(&server)
    };
    let embedder = HttpEmbedder::new(&config, None).expect("valid");
    let start = Instant::now();
    assert_unavailable(embedder.embed(&texts(1)).await, "within 200 ms");
    assert!(start.elapsed() >= Duration::from_millis(200));
    assert!(start.elapsed() < Duration::from_secs(4));
}

#[tokio::test]
async fn an_answer_without_an_end_is_cut_off() {
    let server = Server::start(vec![Reply::Flood]).await;
    assert_unavailable(embedder(&server).embed(&texts(1)).await, "larger than");
}

#[tokio::test]
async fn a_service_that_is_down_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let server = Server::start(vec![]).await;
    let config = HttpConfig {
        base_url: format!("http://{address}"),
        ..config(&server)
    };
    let embedder = HttpEmbedder::new(&config, None).expect("valid");
    assert_unavailable(embedder.embed(&texts(1)).await, "cannot connect");
}

#[tokio::test]
async fn a_large_batch_is_sent_in_parts_and_a_blank_text_not_at_all() {
    let part = |count: usize| reply(OK, vectors(&vec![&[1.0, 0.0][..]; count]));
    let server = Server::start(vec![part(256), part(44)]).await;
    let got = embedder(&server).embed(&texts(300)).await.expect("embeds");
    assert_eq!(got.len(), 300);
    let sizes: Vec<_> = server
        .requests()
        .iter()
        .map(|(_, body)| body["input"].as_array().map_or(0, Vec::len))
        .collect();
    assert_eq!(sizes, [256, 44]);

    let blank = embedder(&server).embed(&["a".into(), " ".into()]).await;
    assert_eq!(blank, Err(EmbedError::EmptyText { index: 1 }));
    assert_eq!(embedder(&server).embed(&[]).await, Ok(vec![]));
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn retry_after_is_read_as_seconds_or_a_date() {
    let now = datetime!(2026-03-01 12:00:00 UTC);
    assert_eq!(retry_after(" 7 ", now), Some(Duration::from_secs(7)));
    let soon = retry_after("Sun, 01 Mar 2026 12:00:30 GMT", now);
    assert_eq!(soon, Some(Duration::from_secs(30)));
    let past = retry_after("Sun, 01 Mar 2026 11:00:00 GMT", now);
    assert_eq!(past, Some(Duration::ZERO));
    assert_eq!(retry_after("soon", now), None);
}
