//! Checks and writes that a service, a budget or a suspension keeps waiting: they wait, and
//! come to their end when it is over. And decisions of a check that is not the kernel's any
//! more: there are none.

use std::time::Duration;

use halofy_gate::{BreakerConfig, Model};
use halofy_tests::{
    Caller, Kernel, ModelCall, ModelResponse, Role, ScriptedEmbedder, ScriptedModel, by_sentences,
};
use serde_json::{Value, json};

/// Texts contradict each other when they say different things of one subject.
fn contradict(new: &str, old: &str) -> bool {
    let subject = |text: &str| {
        text.split_once(" is ")
            .map(|(subject, _)| subject.to_owned())
    };
    new != old && subject(new) == subject(old)
}

async fn kernel(model: &ScriptedModel, failures: u32) -> Kernel {
    let mut config = model.config();
    config.breaker = BreakerConfig {
        failures,
        cool_down_ms: 60_000,
        ..BreakerConfig::default()
    };
    let model = Model::new(&config, None).expect("a model");
    Kernel::with().model(model).start().await
}

async fn tell(caller: &Caller, content: &str) {
    let body = json!({ "content": content, "verbatim": true });
    caller.call("write", body).await.expect_status(200);
}

async fn until(kernel: &Kernel, sql: &str, value: &str) {
    let asking = async {
        while kernel.sql_value(sql).await != value {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(60), asking).await;
    done.unwrap_or_else(|_| panic!("{sql} never gave {value}"));
}

const UNFINISHED: &str = "select count(*) from jobs where state in ('queued', 'running')";

#[tokio::test]
async fn a_check_outlasts_an_outage_of_the_model_and_then_decides() {
    let model = ScriptedModel::status(503);
    let kernel = kernel(&model, 100).await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    tell(&dana, "Rome is old.").await;
    until(&kernel, UNFINISHED, "0").await;
    tell(&dana, "Rome is new.").await;
    let waits = "select count(*) from jobs where state = 'queued' and waits = 1 and attempts = 0
                    and run_after > now() + interval '10 seconds' and error is not null";
    until(&kernel, waits, "1").await;
    model.becomes(|request| by_sentences(request, &contradict));
    kernel
        .sql("update jobs set run_after = now() where state = 'queued'")
        .await;
    until(&kernel, UNFINISHED, "0").await;
    assert_eq!(dana.search("Rome").await.contents(), ["Rome is new."]);
}

#[tokio::test]
async fn a_check_that_meets_an_open_circuit_has_tried_nothing() {
    let model = ScriptedModel::status(503);
    let kernel = kernel(&model, 1).await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    tell(&dana, "Rome is old.").await;
    until(&kernel, UNFINISHED, "0").await;
    tell(&dana, "Rome is new.").await;
    until(&kernel, "select count(*) from jobs where waits = 1", "1").await;
    tell(&dana, "Rome is eternal.").await;
    // Before the circuit lets the next call through.
    let postponed = "select count(*) from jobs where state = 'queued' and waits = 0
                        and attempts = 0 and error is not null
                        and run_after between now() + interval '20 seconds'
                                          and now() + interval '60 seconds'";
    until(&kernel, postponed, "1").await;
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn a_check_whose_budget_is_spent_waits_for_the_next_day_and_not_for_ever() {
    let model = ScriptedModel::by_sentences_where(contradict);
    let kernel = kernel(&model, 100).await;
    kernel
        .policy("acme", json!({ "modelTokensPerDay": 100 }))
        .await;
    kernel
        .policy("poor", json!({ "modelTokensPerDay": 0 }))
        .await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    for text in ["Rome is old.", "Rome is a city."] {
        tell(&dana, text).await;
        until(&kernel, UNFINISHED, "0").await;
    }
    tell(&dana, "Rome is new.").await;
    let tomorrow = "select count(*) from jobs where state = 'queued' and attempts = 0
                       and waits = 0 and error is not null
                       and (run_after at time zone 'UTC')::date
                           = (now() at time zone 'UTC')::date + 1";
    until(&kernel, tomorrow, "1").await;
    assert_eq!(model.requests().len(), 1);
    // A week later it is given up, and an operator may bring it back.
    kernel
        .sql(
            "update jobs set run_after = now(), created_at = now() - interval '8 days'
              where state = 'queued'",
        )
        .await;
    until(
        &kernel,
        "select count(*) from jobs where state = 'dead'",
        "1",
    )
    .await;
    // Who may spend nothing has no model.
    let pia = kernel.key("poor", "user:pia", Role::Agent).await;
    tell(&pia, "Bern is old.").await;
    tell(&pia, "Bern is new.").await;
    let done = "select count(*) from jobs where namespace = 'poor' and state = 'done'
                   and result = '{\"compared\": 0, \"decided\": 0}'";
    until(&kernel, done, "2").await;
}

#[tokio::test]
async fn a_check_that_was_cancelled_while_the_model_thought_decides_nothing() {
    let model = ScriptedModel::start(|request| match request.call {
        ModelCall::Contradicts => {
            let answer = by_sentences(request, &contradict);
            ModelResponse::Slowly(Duration::from_millis(1_500), Box::new(answer))
        }
        _ => by_sentences(request, &contradict),
    });
    let kernel = kernel(&model, 100).await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    tell(&dana, "Rome is old.").await;
    until(&kernel, UNFINISHED, "0").await;
    tell(&dana, "Rome is new.").await;
    let running = "select count(*) from jobs where state = 'running'";
    until(&kernel, running, "1").await;
    while model.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let id = kernel
        .sql_value("select id from jobs where state = 'running'")
        .await;
    let cancel = async move |gate: std::sync::Arc<halofy_gate::Gate>| gate.job_cancel(&id).await;
    kernel.on_gate(cancel).await.expect("cancelled");
    assert_eq!(model.answered(), 0, "it still thinks");
    while model.answered() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Long enough for a decision, and shorter than a lease is looked after.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let data = kernel.stop().await;
    let kernel = Kernel::with().on(&data).start().await;
    assert_eq!(
        kernel.sql_value("select count(*) from conflicts").await,
        "0"
    );
    let current = "select count(*) from memory_objects where t_valid_to is null";
    assert_eq!(kernel.sql_value(current).await, "2");
}

#[tokio::test]
async fn a_deferred_write_outlasts_an_outage_of_the_embedder() {
    let embedder = ScriptedEmbedder::new(256);
    let kernel = Kernel::with().embedder(embedder.clone()).start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    embedder.becomes(halofy_tests::Mood::Fails);
    let write = json!({ "content": "Rome is old.", "async": true });
    let answer = dana.call("write", write).await.expect_status(200);
    let waits = "select count(*) from jobs where state = 'queued' and waits = 1 and attempts = 0";
    until(&kernel, waits, "1").await;
    embedder.becomes(halofy_tests::Mood::Works);
    kernel
        .sql("update jobs set run_after = now() where state = 'queued'")
        .await;
    until(&kernel, UNFINISHED, "0").await;
    let ticket = dana
        .call("ticket", json!({ "ticket": answer.body["ticket"] }))
        .await;
    assert_eq!(ticket.body["state"], "done", "{}", ticket.text);
    assert_eq!(dana.search("Rome").await.contents(), ["Rome is old."]);
}

#[tokio::test]
async fn what_waits_when_its_namespace_is_suspended_waits_until_that_is_over() {
    let embedder = ScriptedEmbedder::new(256);
    let kernel = Kernel::with().embedder(embedder.clone()).start().await;
    let dana = kernel.key("acme/eng", "user:dana", Role::Agent).await;
    embedder.becomes(halofy_tests::Mood::Fails);
    let write = json!({ "content": "Rome is old.", "async": true });
    dana.call("write", write).await.expect_status(200);
    until(&kernel, "select count(*) from jobs where waits = 1", "1").await;
    // By now it waits, and could run.
    kernel.policy("acme", json!({ "suspended": true })).await;
    embedder.becomes(halofy_tests::Mood::Works);
    kernel.sql("update jobs set run_after = now()").await;
    let held = "select count(*) from jobs where state = 'queued' and attempts = 0
                   and error like '%suspended%' and run_after > now()";
    until(&kernel, held, "1").await;
    assert_eq!(
        kernel
            .sql_value("select count(*) from memory_objects")
            .await,
        "0"
    );
    kernel.policy("acme", json!({ "suspended": false })).await;
    kernel.sql("update jobs set run_after = now()").await;
    until(&kernel, UNFINISHED, "0").await;
    assert_eq!(dana.search("Rome").await.contents(), ["Rome is old."]);
}

#[tokio::test]
async fn one_namespace_spends_no_more_than_its_own_and_opens_no_circuit_for_others() {
    let model = ScriptedModel::start(|request| {
        let prose = || ModelResponse::Writes("Here are the facts:".to_owned());
        match request.text.contains("poison") {
            true => prose(),
            false => by_sentences(request, &|_, _| false),
        }
    });
    model.costs(600);
    let kernel = kernel(&model, 1).await;
    let policy = json!({ "modelTokensPerDay": 1_000, "conflictReview": "off" });
    kernel.policy("evil", policy).await;
    let eve = kernel.key("evil", "user:eve", Role::Agent).await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let mut brownouts: Vec<Value> = Vec::new();
    for at in 0..3 {
        let answer = eve.write(&format!("Poison {at} is poison.")).await;
        brownouts.push(answer.expect_status(200).body["brownout"].clone());
    }
    assert_eq!(brownouts, ["llm_garbage", "llm_garbage", "llm_budget"]);
    let spent = "select tokens from model_usage where namespace = 'evil'";
    assert_eq!(kernel.sql_value(spent).await, "1200");
    let answer = dana.write("Anna lives in Bern. Bea lives in Chur.").await;
    let stored = answer.expect_status(200).body["stored"]
        .as_array()
        .map(Vec::len);
    assert_eq!(stored, Some(2), "the circuit is closed");
}
