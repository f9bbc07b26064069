//! Writes that are not waited for: a ticket at once, and later the same result.

use halofy_tests::{ModelResponse, Role, ScriptedModel};
use reqwest::Method;
use serde_json::{Value, json};

use super::{asking, contents, count, details, ended, len, quiet};
use crate::audit::rows_of;

const TEXT: &str = "Dana Reyes moved to Lisbon. She likes tram 28 best of all.";

/// The fields of an object, in order.
fn fields(object: &Value) -> Vec<&String> {
    object
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.keys())
        .collect()
}

#[tokio::test]
async fn a_ticket_ends_in_the_result_that_the_call_would_have_had() {
    let model = ScriptedModel::by_sentences();
    let kernel = asking(&model).await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let waited = dana
        .write("Anna lives in Bern. Bea lives in Chur.")
        .await
        .expect_status(200);
    let write = json!({
        "content": TEXT, "async": true, "eventTime": "2026-03-01T12:00:00Z", "metadata": { "page": 7 },
    });
    let answer = dana.call("write", write.clone()).await.expect_status(200);
    let ticket = answer.body["ticket"].as_str().expect("a ticket").to_owned();
    assert_eq!(answer.body, json!({ "ticket": ticket, "state": "queued" }));
    let done = ended(&dana, &ticket).await;
    assert_eq!(
        (&done["state"], &done["attempts"]),
        (&json!("done"), &json!(1))
    );
    assert_eq!(fields(&done["result"]), fields(&waited.body), "{done}");
    let stored = done["result"]["stored"].as_array().expect("ids");
    assert_eq!(stored.len(), 2);
    for id in stored {
        let memory = dana
            .read(id.as_str().expect("an id"))
            .await
            .expect_status(200)
            .body;
        assert_eq!(memory["eventTime"], "2026-03-01T12:00:00Z");
        assert_eq!(memory["metadata"], json!({ "page": 7 }));
        assert_eq!(memory["actor"], "user:dana");
        assert_eq!(memory["provenance"]["key"], dana.key_id);
        assert_eq!(memory["provenance"]["model"], "scripted-1");
    }
    quiet(&kernel).await;
    assert_eq!(details(&kernel).await, ["stored=2", "queued=1", "stored=2"]);
    let rows = kernel.audit().await;
    let write = &rows_of(&rows, "write")[2].columns;
    assert_eq!(
        (write.actor.as_str(), write.key_id.as_deref()),
        ("user:dana", Some(&*dana.key_id))
    );
    let end = format!("job={ticket} kind=write state=done attempts=1");
    let ends = rows_of(&rows, "job");
    let ends = ends
        .iter()
        .filter(|row| row.columns.detail.as_deref() == Some(&end));
    assert_eq!(ends.count(), 1, "its end is audited once");
    assert!(kernel.verify().await.ok);
}

#[tokio::test]
async fn a_deferred_write_browns_out_as_any_other() {
    let model = ScriptedModel::start(|_| ModelResponse::Status(500));
    let kernel = asking(&model).await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let write = json!({ "content": TEXT, "async": true });
    let answer = dana.call("write", write).await.expect_status(200);
    let done = ended(&dana, answer.body["ticket"].as_str().expect("a ticket")).await;
    assert_eq!(done["result"]["brownout"], "llm_unavailable", "{done}");
    assert_eq!(contents(&kernel).await, [TEXT]);
    assert_eq!(
        details(&kernel).await,
        ["queued=1", "stored=1 brownout=llm_unavailable"]
    );
}

#[tokio::test]
async fn what_is_wrong_with_a_deferred_write_is_said_at_once() {
    let model = ScriptedModel::by_sentences();
    let kernel = asking(&model).await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    for (field, mut write) in [
        ("content", json!({ "content": " " })),
        // What is stripped from a text would be stored with the job.
        (
            "content",
            json!({ "content": "Dana moved [entities: a\0]" }),
        ),
        ("content", json!({ "content": "Dana\0 moved" })),
        (
            "content",
            json!({ "content": "Dana moved [entities: a]\0" }),
        ),
        (
            "eventTime",
            json!({ "content": TEXT, "eventTime": "2025-08-01" }),
        ),
        ("maxFacts", json!({ "content": TEXT, "maxFacts": 0 })),
        (
            "provenance.source",
            json!({ "content": TEXT, "provenance": { "source": "manual" } }),
        ),
    ] {
        dana.call("write", write.clone())
            .await
            .expect_invalid(field);
        write["async"] = json!(true);
        dana.call("write", write).await.expect_invalid(field);
    }
    assert_eq!(kernel.sql_value("select count(*) from jobs").await, "0");
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn w2_a_deferred_write_under_a_key_is_queued_once() {
    let model = ScriptedModel::by_sentences();
    let kernel = asking(&model).await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let body = json!({ "content": TEXT, "async": true }).to_string();
    let key = [("Idempotency-Key", "letter-1")];
    let calls = (0..10).map(|_| dana.raw(Method::POST, "/v1/mem/write", &key, body.clone()));
    let answers = futures_util::future::join_all(calls).await;
    let first = answers[0].clone().expect_status(200);
    for answer in answers {
        assert_eq!(answer.expect_status(200).text, first.text);
    }
    let done = ended(&dana, first.body["ticket"].as_str().expect("a ticket")).await;
    assert_eq!(done["result"]["stored"].as_array().map(Vec::len), Some(2));
    let late = dana.raw(Method::POST, "/v1/mem/write", &key, body).await;
    assert_eq!(
        late.expect_status(200).text,
        first.text,
        "the ticket is the answer"
    );
    quiet(&kernel).await;
    let writes = "select count(*) from jobs where kind = 'write'";
    assert_eq!(kernel.sql_value(writes).await, "1");
    assert_eq!(count(&model, halofy_tests::ModelCall::Extract), 1);
    let again = dana.write(TEXT).await.expect_status(200);
    assert_eq!(len(&again, "deduplicated"), 2);
}

#[tokio::test]
async fn a_kernel_that_stops_does_not_wait_for_the_model_and_the_next_one_goes_on() {
    let model = ScriptedModel::slow(std::time::Duration::from_secs(600));
    let mut config = model.config();
    config.timeout_ms = 600_000;
    let asked = || halofy_gate::Model::new(&config, None).expect("a model");
    let kernel = halofy_tests::Kernel::with().model(asked()).start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let write = json!({ "content": TEXT, "async": true });
    let answer = dana.call("write", write).await.expect_status(200);
    let ticket = answer.body["ticket"].as_str().expect("a ticket").to_owned();
    super::until("the model is asked", async || model.requests().len() == 1).await;
    let stopped = tokio::time::timeout(std::time::Duration::from_secs(60), kernel.stop()).await;
    let data = stopped.expect("it stops long before the model answers");
    model.becomes(|request| halofy_tests::by_sentences(request, &|_, _| false));
    let kernel = halofy_tests::Kernel::with()
        .on(&data)
        .model(asked())
        .start()
        .await;
    let dana = kernel.caller(&dana.key, &dana.key_id);
    let done = ended(&dana, &ticket).await;
    assert_eq!(
        (&done["state"], &done["attempts"]),
        (&json!("done"), &json!(1)),
        "{done}"
    );
    assert_eq!(contents(&kernel).await.len(), 2);
}
