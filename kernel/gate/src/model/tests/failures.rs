//! A model that is down, slow or dead, and the circuit breaker around it.

use std::time::{Duration, Instant};

use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::json;
use tokio::net::TcpListener;

use super::{OK, TEXT, TOLD, candidates, config, model, no_facts, wrote};
use crate::breaker::BreakerConfig;
use crate::model::{Model, ModelConfig, ModelError};
use crate::scripted_server::{Reply, Server, reply};

#[tokio::test]
async fn a_status_that_is_no_success_is_not_tried_again() {
    for status in [
        "307 Temporary Redirect",
        "404 Not Found",
        "429 Too Many Requests",
        "500 Internal Server Error",
    ] {
        let server = Server::start(vec![reply(status, "vault"), no_facts()]).await;
        let error = model(&server).extract(TEXT, TOLD).await.expect_err(status);
        assert_eq!(error.reason(), "llm_unavailable");
        assert!(error.to_string().contains(status), "{error}");
        assert!(!error.to_string().contains("vault"), "{error}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_answer_is_tried_once_more() {
    let server = Server::start(vec![Reply::Close, no_facts()]).await;
    model(&server)
        .extract(TEXT, TOLD)
        .await
        .expect("the second try");
    let server = Server::start(vec![Reply::Close, Reply::Close, no_facts()]).await;
    let error = model(&server).extract(TEXT, TOLD).await.expect_err("two");
    assert_eq!(error.reason(), "llm_unavailable");
    assert_eq!(server.requests().len(), 2);
    let server = Server::start(vec![Reply::Half, no_facts()]).await;
    let error = model(&server).extract(TEXT, TOLD).await.expect_err("half");
    assert_eq!(error.reason(), "llm_unavailable");
    assert_eq!(server.requests().len(), 1, "some of the answer had come");
}

#[tokio::test]
async fn a_host_without_a_service_is_unavailable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("http://{}/v1", listener.local_addr().expect("bound"));
    drop(listener);
    let model = Model::new(&ModelConfig::new(url, "m"), None).expect("opens no connection");
    let error = model.extract(TEXT, TOLD).await.expect_err("nobody there");
    assert_eq!(error.reason(), "llm_unavailable");
}

#[tokio::test]
async fn a_slow_model_is_given_up_in_time() {
    let server = Server::start(vec![Reply::Hang]).await;
    let config = ModelConfig {
        timeout_ms: 200,
        ..config(&server)
    };
    let model = Model::new(&config, None).expect("valid");
    let started = Instant::now();
    let error = model.extract(TEXT, TOLD).await.expect_err("too slow");
    assert_eq!(error, ModelError::Timeout(Duration::from_millis(200)));
    assert_eq!(error.reason(), "llm_timeout");
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn a_call_without_a_place_ends_in_time_and_does_not_count_against_the_model() {
    // One more than is asked for: the second call may get as far as connecting.
    let server = Server::start(vec![Reply::Hang, no_facts(), no_facts()]).await;
    let config = ModelConfig {
        timeout_ms: 2_000,
        max_concurrent: 1,
        breaker: BreakerConfig {
            failures: 2,
            ..BreakerConfig::default()
        },
        ..config(&server)
    };
    let model = Model::new(&config, None).expect("valid");
    // The first takes the only place and hangs; the second gets it when its own time is up.
    let calls = tokio::join!(model.extract(TEXT, TOLD), model.extract(TEXT, TOLD));
    for ended in [calls.0, calls.1] {
        assert_eq!(
            ended.map(drop).map_err(|error| error.reason()),
            Err("llm_timeout")
        );
    }
    model.extract(TEXT, TOLD).await.expect("one failure of two");
}

fn breaker(failures: u32, cool_down_ms: u64) -> BreakerConfig {
    BreakerConfig {
        failures,
        cool_down_ms,
        longest_cool_down_ms: cool_down_ms.max(60_000),
    }
}

#[tokio::test]
async fn what_a_text_made_the_model_do_is_no_failure_of_the_service() {
    let refused = json!([{"message": {"content": null, "refusal": "no"}}]);
    let script = vec![
        wrote("no JSON"),
        wrote(json!({ "facts": [{ "content": "a\0b" }] })),
        reply(OK, json!({ "choices": refused })),
        reply("400 Bad Request", "the text is too long"),
        reply("413 Payload Too Large", ""),
        reply("422 Unprocessable Entity", ""),
        no_facts(),
    ];
    let server = Server::start(script).await;
    let config = ModelConfig {
        breaker: breaker(1, 60_000),
        ..config(&server)
    };
    let model = Model::new(&config, None).expect("valid");
    let mut reasons = Vec::new();
    for _ in 0..7 {
        let answered = model.extract(TEXT, TOLD).await;
        reasons.push(answered.map_or_else(|error| error.reason(), |_| "ok"));
    }
    let (garbage, refused) = ("llm_garbage", "llm_refused");
    let expected = [garbage, garbage, garbage, refused, refused, refused, "ok"];
    assert_eq!(reasons, expected);
}

#[tokio::test]
async fn after_failures_in_a_row_nothing_more_is_sent() {
    let misshapen = || reply(OK, "<html>");
    let down = || reply("503 Service Unavailable", "");
    let script = vec![
        misshapen(),
        down(),
        no_facts(),
        misshapen(),
        down(),
        misshapen(),
        no_facts(),
    ];
    let server = Server::start(script).await;
    let config = ModelConfig {
        breaker: breaker(3, 60_000),
        ..config(&server)
    };
    let model = Model::new(&config, None).expect("valid");
    let mut reasons = Vec::new();
    for _ in 0..8 {
        let answered = model.extract(TEXT, TOLD).await;
        reasons.push(answered.map_or_else(|error| error.reason(), |_| "ok"));
    }
    let (garbage, down) = ("llm_garbage", "llm_unavailable");
    let open = "llm_circuit_open";
    assert_eq!(
        reasons,
        [garbage, down, "ok", garbage, down, garbage, open, open]
    );
    assert_eq!(server.requests().len(), 6);
    let error = model.verify(TEXT, &candidates(1)).await.expect_err("open");
    let ModelError::CircuitOpen { retry_after } = error else {
        panic!("{error}");
    };
    let (least, most) = (Duration::from_secs(29), Duration::from_secs(60));
    assert!((least..=most).contains(&retry_after), "{retry_after:?}");
}

#[tokio::test]
async fn after_a_rest_one_call_finds_out_whether_the_model_is_back() {
    let down = || reply("503 Service Unavailable", "");
    let server = Server::start(vec![down(), Reply::Hang, no_facts(), no_facts()]).await;
    let config = ModelConfig {
        timeout_ms: 400,
        breaker: breaker(1, 50),
        ..config(&server)
    };
    let model = Model::new(&config, None).expect("valid");
    model.extract(TEXT, TOLD).await.expect_err("down");
    rested(&model).await;
    // The probe hangs. Another call meanwhile is refused at once.
    let meanwhile = async {
        while server.requests().len() < 2 {
            tokio::task::yield_now().await;
        }
        model.extract(TEXT, TOLD).await
    };
    let (probe, other) = tokio::join!(model.extract(TEXT, TOLD), meanwhile);
    assert_eq!(probe.expect_err("hangs").reason(), "llm_timeout");
    assert_eq!(other.expect_err("one probe").reason(), "llm_circuit_open");
    assert_eq!(server.requests().len(), 2);
    rested(&model).await;
    model
        .extract(TEXT, TOLD)
        .await
        .expect("the probe is answered");
    model
        .extract(TEXT, TOLD)
        .await
        .expect("and it is closed again");
}

#[tokio::test]
async fn a_probe_whose_caller_hung_up_makes_room_for_the_next() {
    let down = reply("503 Service Unavailable", "");
    let server = Server::start(vec![down, Reply::Hang, no_facts()]).await;
    let config = ModelConfig {
        breaker: breaker(1, 50),
        ..config(&server)
    };
    let model = Model::new(&config, None).expect("valid");
    model.extract(TEXT, TOLD).await.expect_err("down");
    rested(&model).await;
    let asked = async {
        while server.requests().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = model.extract(TEXT, TOLD) => panic!("it hangs"),
        () = asked => {}
    }
    model.extract(TEXT, TOLD).await.expect("the next probe");
}

/// Until the breaker would let a call through.
async fn rested(model: &Model) {
    while let Some(wait) = model.breaker.refuses() {
        tokio::time::sleep(wait).await;
    }
}

#[tokio::test]
async fn what_the_model_did_is_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let verdict = json!({"verdicts": [{"id": 0, "supported": true}]});
    let script = vec![
        no_facts(),
        wrote(verdict),
        wrote("no JSON"),
        reply(OK, "<html>"),
    ];
    let server = Server::start(script).await;
    let config = ModelConfig {
        breaker: breaker(1, 60_000),
        ..config(&server)
    };
    let model = Model::new(&config, None).expect("valid");
    model.extract(TEXT, TOLD).await.expect("facts");
    model.verify(TEXT, &candidates(1)).await.expect("a verdict");
    let incumbent = ["x".to_owned()];
    model
        .contradicts(TEXT, &incumbent)
        .await
        .expect_err("garbage");
    model
        .contradicts(TEXT, &incumbent)
        .await
        .expect_err("misshapen");
    model.contradicts(TEXT, &incumbent).await.expect_err("open");
    let page = recorder.handle().render();
    for line in [
        "halofy_model_requests_total{call=\"extract\",result=\"ok\"} 1",
        "halofy_model_requests_total{call=\"verify\",result=\"ok\"} 1",
        "halofy_model_requests_total{call=\"contradicts\",result=\"garbage\"} 2",
        "halofy_model_requests_total{call=\"contradicts\",result=\"circuit_open\"} 1",
        "halofy_model_seconds_count{call=\"contradicts\"} 2",
        "halofy_model_tokens_total 126",
        "halofy_model_circuit_state 2",
    ] {
        assert!(page.lines().any(|found| found == line), "{line}\n{page}");
    }
}
