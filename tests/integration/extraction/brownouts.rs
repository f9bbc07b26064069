//! A model that does not help: the write is answered all the same, its text is kept whole,
//! and both answer and audit log say why.

use std::time::Duration;

use halofy_gate::{Model, ModelConfig};
use halofy_tests::{Data, Kernel, ModelCall, ModelResponse, Role, ScriptedModel, by_sentences};
use serde_json::json;

use super::{contents, count, details, len, quiet};
use crate::crash::Served;

/// With a date of birth and an address, so that the label shows whether it was read.
const TEXT: &str = "Dana Reyes moved to Lisbon. Write to dana@example.org from now on.";

/// Writes a text, and asserts that it is kept whole for this reason.
async fn expect_brownout(config: &ModelConfig, policy: serde_json::Value, reason: &str) {
    expect_unverified(config, policy, reason, 0).await;
}

/// The same, where so many facts were drawn and none was checked.
async fn expect_unverified(
    config: &ModelConfig,
    policy: serde_json::Value,
    reason: &str,
    drawn: usize,
) {
    let model = Model::new(config, None).expect("a model");
    let kernel = Kernel::with().model(model).start().await;
    kernel.policy("acme", policy).await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let write = json!({ "content": TEXT, "kind": "episode", "eventTime": "2026-03-01T12:00:00Z" });
    let answer = dana.call("write", write).await.expect_status(200);
    assert_eq!(answer.body["brownout"], reason, "{}", answer.text);
    assert_eq!(len(&answer, "stored"), 1);
    let rejected = answer.body["rejected"].as_array().expect("a list");
    assert_eq!(rejected.len(), drawn, "{}", answer.text);
    for one in rejected {
        assert_eq!(one["reason"], "llm-unavailable");
        let candidate = one["candidate"].as_str().expect("a text");
        assert!(TEXT.contains(candidate), "{candidate}");
    }
    let memory = dana.read(answer.id()).await.expect_status(200).body;
    assert_eq!(memory["content"], TEXT, "every letter of it");
    assert_eq!(
        (&memory["kind"], &memory["eventTime"]),
        (&json!("episode"), &json!("2026-03-01T12:00:00Z"))
    );
    assert_eq!(memory["provenance"]["model"], json!(null));
    assert_eq!(
        memory["classification"]["pii"],
        json!(["email"]),
        "classified all the same"
    );
    assert_eq!(memory["classification"]["sensitivity"], "confidential");
    assert_eq!(dana.search("Lisbon").await.ids(), [answer.id()]);
    let unverified = match drawn {
        0 => String::new(),
        drawn => format!(" rejected={drawn} reasons=llm-unavailable"),
    };
    assert_eq!(
        details(&kernel).await,
        [format!("stored=1{unverified} brownout={reason}")]
    );
    let again = dana.write(TEXT).await.expect_status(200);
    assert_eq!(
        again.body["deduplicated"],
        json!([answer.id()]),
        "whole, and the same whole"
    );
    assert!(kernel.verify().await.ok);
}

#[tokio::test]
async fn a_slow_model_is_not_waited_for_beyond_its_time() {
    let model = ScriptedModel::slow(Duration::from_secs(120));
    let config = ModelConfig {
        timeout_ms: 200,
        ..model.config()
    };
    expect_brownout(&config, json!({}), "llm_timeout").await;
}

#[tokio::test]
async fn a_model_that_writes_prose_is_no_help() {
    let model = ScriptedModel::garbage();
    expect_brownout(&model.config(), json!({}), "llm_garbage").await;
}

#[tokio::test]
async fn a_model_that_is_not_there_is_no_help() {
    let config = {
        let model = ScriptedModel::by_sentences();
        model.config()
    };
    expect_brownout(&config, json!({}), "llm_unavailable").await;
}

#[tokio::test]
async fn a_model_that_answers_500_is_no_help() {
    let model = ScriptedModel::status(500);
    expect_brownout(&model.config(), json!({}), "llm_unavailable").await;
}

#[tokio::test]
async fn a_model_that_dies_between_the_facts_and_their_verdicts_leaves_nothing_half_done() {
    // Its one answer is the extraction; the verdicts are asked for twice.
    let model = ScriptedModel::dies_after(1);
    expect_unverified(&model.config(), json!({}), "llm_unavailable", 2).await;
    assert_eq!(model.asked()[0].call, ModelCall::Extract);
    assert_eq!(count(&model, ModelCall::Verify), 2);
}

#[tokio::test]
async fn verdicts_that_leave_a_fact_out_are_no_verdicts() {
    let model = ScriptedModel::start(|request| match request.call {
        ModelCall::Verify => {
            ModelResponse::Says(json!({ "verdicts": [{ "id": 0, "supported": true }] }))
        }
        _ => by_sentences(request, &|_, _| false),
    });
    expect_unverified(&model.config(), json!({}), "llm_garbage", 2).await;
}

#[tokio::test]
async fn a_spent_budget_asks_nothing_more_that_day() {
    let model = ScriptedModel::by_sentences();
    model.costs(600);
    let asked = Model::new(&model.config(), None).expect("a model");
    let kernel = Kernel::with().model(asked).start().await;
    kernel
        .policy(
            "acme",
            json!({ "modelTokensPerDay": 1_000, "conflictReview": "off" }),
        )
        .await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let other = kernel.key("other", "user:o", Role::Agent).await;
    let first = dana
        .write("Anna lives in Bern. Bea lives in Chur.")
        .await
        .expect_status(200);
    assert_eq!(len(&first, "stored"), 2);
    assert!(first.body.get("brownout").is_none());
    let whole = "Carl lives in Davos. Dora lives in Elm.";
    let second = dana.write(whole).await.expect_status(200);
    assert_eq!(second.body["brownout"], "llm_budget");
    assert_eq!(dana.read(second.id()).await.body["content"], whole);
    assert_eq!(model.requests().len(), 2, "nothing more was asked");
    let theirs = other.write(whole).await.expect_status(200);
    assert_eq!(len(&theirs, "stored"), 2, "a budget is a namespace's own");
    assert_eq!(
        details(&kernel).await,
        ["stored=2", "stored=1 brownout=llm_budget", "stored=2"]
    );
    // Yesterday's tokens are yesterday's.
    kernel.sql("update model_usage set day = day - 1").await;
    let third = dana
        .write("Emil lives in Fluelen. Fritz lives in Gais.")
        .await
        .expect_status(200);
    assert_eq!(len(&third, "stored"), 2);
}

#[tokio::test]
async fn a_budget_that_is_spent_by_the_extraction_stores_the_text_whole() {
    let model = ScriptedModel::by_sentences();
    model.costs(5_000);
    let budget = json!({ "modelTokensPerDay": 1_000 });
    expect_unverified(&model.config(), budget, "llm_budget", 2).await;
    assert_eq!(count(&model, ModelCall::Verify), 0);
}

#[tokio::test]
async fn every_brownout_is_counted_in_the_metrics() {
    let model = ScriptedModel::garbage();
    let data = Data::fresh().await;
    let key = {
        let kernel = Kernel::with().on(&data).start().await;
        let key = kernel.key("acme", "user:dana", Role::Agent).await.key;
        let poor = kernel.key("poor", "user:pia", Role::Agent).await.key;
        kernel
            .policy("acme", json!({ "conflictReview": "off" }))
            .await;
        kernel
            .policy("poor", json!({ "modelTokensPerDay": 0 }))
            .await;
        kernel.stop().await;
        (key, poor)
    };
    let config = data.dir().join("halofy.toml");
    let settings = format!(
        "[model]\nbase_url = \"{}\"\nmodel = \"scripted\"\ntimeout_ms = 1500\n\
         [model.breaker]\nfailures = 100\n",
        model.base_url()
    );
    std::fs::write(&config, settings).expect("written");
    let served = Served::start(&crate::halofy().on(&data).configured(&config)).await;
    let (dana, pia) = (served.peer(&key.0), served.peer(&key.1));
    let mut seen = Vec::new();
    for (at, peer) in [&dana, &dana, &dana, &dana, &pia].into_iter().enumerate() {
        match at {
            1 => model.becomes(|_| ModelResponse::Status(500)),
            2 => model.becomes(|_| {
                let late = ModelResponse::Status(500);
                ModelResponse::Slowly(Duration::from_secs(60), Box::new(late))
            }),
            3 => model.becomes(|request| by_sentences(request, &|_, _| false)),
            _ => {}
        }
        let write = json!({ "content": format!("Parcel {at} is due. Parcel {at} is green.") });
        let answer = peer.post("write", write).await.expect("an answer");
        assert_eq!(answer.status(), 200);
        let answer: serde_json::Value = answer.json().await.expect("JSON");
        seen.push(answer["brownout"].as_str().unwrap_or("none").to_owned());
    }
    assert_eq!(
        seen,
        [
            "llm_garbage",
            "llm_unavailable",
            "llm_timeout",
            "none",
            "llm_budget"
        ]
    );
    let page = dana.get("/metrics").await.expect("an answer");
    let page = page.text().await.expect("text");
    for line in [
        "halofy_model_requests_total{call=\"extract\",result=\"garbage\"} 1",
        "halofy_model_requests_total{call=\"extract\",result=\"unavailable\"} 1",
        "halofy_model_requests_total{call=\"extract\",result=\"timeout\"} 1",
        "halofy_model_requests_total{call=\"extract\",result=\"ok\"} 1",
        "halofy_model_requests_total{call=\"verify\",result=\"ok\"} 1",
        "halofy_model_tokens_total 300",
        "halofy_model_circuit_state 0",
        "halofy_write_brownouts_total{reason=\"llm_garbage\"} 1",
        "halofy_write_brownouts_total{reason=\"llm_unavailable\"} 1",
        "halofy_write_brownouts_total{reason=\"llm_timeout\"} 1",
        "halofy_write_brownouts_total{reason=\"llm_budget\"} 1",
    ] {
        assert!(
            page.lines().any(|seen| seen == line),
            "{line} is not in {page}"
        );
    }
    assert_eq!(served.terminate().await, Some(0));
    let kernel = Kernel::with().on(&data).start().await;
    quiet(&kernel).await;
    assert_eq!(contents(&kernel).await.len(), 6);
    assert_eq!(details(&kernel).await[4], "stored=1 brownout=llm_budget");
}
