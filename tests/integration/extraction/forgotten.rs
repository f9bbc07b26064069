//! W9: what is erased while a write of it is queued or running does not come back.

use std::time::Duration;

use halofy_tests::{
    Answer, Caller, Kernel, ModelCall, ModelResponse, Role, ScriptedModel, by_sentences,
};
use reqwest::Method;
use serde_json::{Value, json};

use super::{asking, contents, count, ended, until};

/// Stands in what is to be erased, and nowhere else.
const CANARY: &str = "canary";
const SOURCE: &str = "notes/dana.md";
/// How long the model thinks about what is to be erased.
const THINKS: Duration = Duration::from_secs(2);

/// A model that takes its time for texts with the canary.
fn thinking() -> ScriptedModel {
    ScriptedModel::start(|request| {
        let answer = by_sentences(request, &|_, _| false);
        match request.text.contains(CANARY) {
            true => ModelResponse::Slowly(THINKS, Box::new(answer)),
            false => answer,
        }
    })
}

fn body(content: &str, source: &str) -> Value {
    let provenance = json!({ "source": "document", "ref": source });
    json!({ "content": content, "async": true, "provenance": provenance })
}

async fn write(caller: &Caller, key: &str, body: &Value) -> Answer {
    let headers = [("Idempotency-Key", key)];
    caller
        .raw(Method::POST, "/v1/mem/write", &headers, body.to_string())
        .await
}

fn ticket(answer: &Answer) -> &str {
    answer.body["ticket"]
        .as_str()
        .unwrap_or_else(|| panic!("no ticket in {}", answer.text))
}

/// The ticket ends erased, and neither its text nor its call comes back.
async fn expect_gone(dana: &Caller, key: &str, body: &Value, ticket: &str) {
    let gone = ended(dana, ticket).await;
    assert_eq!(
        (&gone["state"], &gone["error"]),
        (&json!("cancelled"), &json!("erased")),
        "{gone}"
    );
    assert!(gone.get("result").is_none());
    write(dana, key, body)
        .await
        .expect_problem(410, "idempotency_erased");
}

/// Every place that could still hold the canary.
async fn expect_no_canary(kernel: &Kernel) {
    for (table, text) in [
        ("memory_objects", "content"),
        ("entity_registry", "canonical"),
        (
            "jobs",
            "coalesce(payload::text, '') || coalesce(progress::text, '')",
        ),
        ("jobs", "coalesce(result::text, '') || coalesce(error, '')"),
        ("idempotency_keys", "coalesce(answer, '')"),
    ] {
        let sql = format!("select count(*) from {table} where {text} like '%{CANARY}%'");
        assert_eq!(kernel.sql_value(sql).await, "0", "in {table}");
    }
}

#[tokio::test]
async fn w9_a_write_that_runs_when_its_source_or_everything_is_erased_stores_nothing() {
    for target in [
        json!({ "sourceRef": SOURCE }),
        json!({ "everything": true }),
    ] {
        let model = thinking();
        let kernel = asking(&model).await;
        let dana = kernel.key("acme", "user:dana", Role::Owner).await;
        let doomed = body(
            "The canary moved to Lisbon. The canary likes tram 28.",
            SOURCE,
        );
        let queued = write(&dana, "letter-1", &doomed).await.expect_status(200);
        until("the model thinks about it", async || {
            model.requests().len() == 1
        })
        .await;
        let erased = dana.call("forget", target.clone()).await.expect_status(200);
        assert_eq!(erased.body["jobs"], 1, "{}", erased.text);
        assert_eq!(model.answered(), 0, "the model still thinks");
        expect_gone(&dana, "letter-1", &doomed, ticket(&queued)).await;
        until("the model has thought", async || model.answered() == 1).await;
        // One that is asked for now is done although the other was given up.
        let other = body("Emil lives in Bern.", "notes/emil.md");
        let other = write(&dana, "letter-2", &other).await.expect_status(200);
        assert_eq!(ended(&dana, ticket(&other)).await["state"], "done");
        // Stopping lets what runs come to its end.
        let data = kernel.stop().await;
        assert_eq!(count(&model, ModelCall::Extract), 2);
        let verified = model
            .asked()
            .into_iter()
            .filter(|asked| asked.call == ModelCall::Verify);
        let verified: Vec<String> = verified.map(|asked| asked.text).collect();
        assert_eq!(
            verified,
            ["Emil lives in Bern."],
            "no more of the erased text was sent"
        );
        let kernel = Kernel::with().on(&data).start().await;
        assert_eq!(contents(&kernel).await, ["Emil lives in Bern."], "{target}");
        expect_no_canary(&kernel).await;
        let dana = kernel.caller(&dana.key, &dana.key_id);
        expect_gone(&dana, "letter-1", &doomed, ticket(&queued)).await;
        assert!(kernel.verify().await.ok);
    }
}

#[tokio::test]
async fn w9_a_write_that_waits_when_its_source_or_everything_is_erased_never_runs() {
    for target in [
        json!({ "sourceRef": SOURCE }),
        json!({ "everything": true }),
    ] {
        // All places are taken by writes that the model thinks about.
        let model = ScriptedModel::slow(Duration::from_secs(3));
        let kernel = asking(&model).await;
        let dana = kernel.key("acme", "user:dana", Role::Owner).await;
        let mut others = Vec::new();
        for at in 0..4 {
            let other = body(&format!("Parcel {at} is due."), &format!("parcels/{at}"));
            let key = format!("parcel-{at}");
            others.push(ticket(&write(&dana, &key, &other).await.expect_status(200)).to_owned());
        }
        until("all places are taken", async || model.requests().len() == 4).await;
        let doomed = body("The canary moved to Lisbon. It likes tram 28.", SOURCE);
        let queued = write(&dana, "letter-1", &doomed).await.expect_status(200);
        let state = dana
            .call("ticket", json!({ "ticket": ticket(&queued) }))
            .await;
        assert_eq!(state.body["state"], "queued");
        let everything = target["everything"] == true;
        let erased = dana.call("forget", target).await.expect_status(200);
        assert_eq!(
            erased.body["jobs"],
            if everything { 5 } else { 1 },
            "{}",
            erased.text
        );
        expect_gone(&dana, "letter-1", &doomed, ticket(&queued)).await;
        for other in &others {
            let state = if everything { "cancelled" } else { "done" };
            assert_eq!(ended(&dana, other).await["state"], state);
        }
        let data = kernel.stop().await;
        let sent = model.requests().concat();
        assert!(!sent.contains(CANARY), "nothing of it was ever sent");
        let kernel = Kernel::with().on(&data).start().await;
        let expected = if everything { 0 } else { 4 };
        assert_eq!(contents(&kernel).await.len(), expected);
        expect_no_canary(&kernel).await;
    }
}

#[tokio::test]
async fn w9_what_a_deferred_write_stored_goes_with_its_source_and_so_does_its_call() {
    let kernel = asking(&ScriptedModel::by_sentences()).await;
    let dana = kernel.key("acme", "user:dana", Role::Owner).await;
    let doomed = body(
        "The canary moved to Lisbon. The canary likes tram 28.",
        SOURCE,
    );
    let queued = write(&dana, "letter-1", &doomed).await.expect_status(200);
    assert_eq!(ended(&dana, ticket(&queued)).await["state"], "done");
    let erased = dana
        .call("forget", json!({ "sourceRef": SOURCE }))
        .await
        .expect_status(200);
    assert!(
        erased.body["erased"]
            .as_array()
            .is_some_and(|ids| !ids.is_empty())
    );
    let gone = ended(&dana, ticket(&queued)).await;
    assert!(gone.get("result").is_none(), "{gone}");
    write(&dana, "letter-1", &doomed)
        .await
        .expect_problem(410, "idempotency_erased");
    expect_no_canary(&kernel).await;
}

#[tokio::test]
async fn w9_what_was_rejected_goes_with_its_source_too() {
    let model = ScriptedModel::start(|request| match request.call {
        ModelCall::Verify => ModelResponse::verdicts(request, |_| false),
        _ => by_sentences(request, &|_, _| false),
    });
    let kernel = asking(&model).await;
    let dana = kernel.key("acme", "user:dana", Role::Owner).await;
    for deferred in [true, false] {
        let mut doomed = body(
            "The canary moved to Lisbon. The canary likes tram 28.",
            SOURCE,
        );
        doomed["async"] = json!(deferred);
        let key = format!("letter-{deferred}");
        let answer = write(&dana, &key, &doomed).await.expect_status(200);
        if deferred {
            assert_eq!(ended(&dana, ticket(&answer)).await["state"], "done");
        }
        dana.call("forget", json!({ "sourceRef": SOURCE }))
            .await
            .expect_status(200);
        write(&dana, &key, &doomed)
            .await
            .expect_problem(410, "idempotency_erased");
        expect_no_canary(&kernel).await;
    }
}

#[tokio::test]
async fn w9_a_call_under_way_when_its_source_or_everything_is_erased_stores_nothing() {
    for target in [
        json!({ "sourceRef": SOURCE }),
        json!({ "everything": true }),
    ] {
        let model = thinking();
        let kernel = asking(&model).await;
        let dana = kernel.key("acme/eng", "user:dana", Role::Member).await;
        let owner = kernel.key("acme", "user:owner", Role::Owner).await;
        let mut doomed = body(
            "The canary moved to Lisbon. The canary likes trams.",
            SOURCE,
        );
        doomed["async"] = json!(false);
        let elsewhere = json!({ "sourceRef": "notes/other.md" });
        let (gone, erased) = tokio::join!(write(&dana, "letter-1", &doomed), async {
            until("the model thinks about it", async || {
                model.requests().len() == 1
            })
            .await;
            owner.call("forget", target.clone()).await
        });
        assert_eq!(erased.expect_status(200).body["erased"], json!([]));
        gone.expect_problem(410, "erased");
        expect_no_canary(&kernel).await;
        assert!(kernel.verify().await.ok);
        // Another source's erasure is no matter, and what is told later is told anew.
        let (told, erased) = tokio::join!(write(&dana, "letter-2", &doomed), async {
            until("the model thinks again", async || {
                model.requests().len() == 2
            })
            .await;
            owner.call("forget", elsewhere).await
        });
        erased.expect_status(200);
        assert_eq!(
            told.expect_status(200).body["stored"]
                .as_array()
                .map(Vec::len),
            Some(2)
        );
    }
}
