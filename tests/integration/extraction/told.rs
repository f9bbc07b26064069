//! A deferred write tells what it tells when its caller told it: texts are read by that moment,
//! and of equal rank it loses to what was told later, whichever ran first. When it was known
//! is another matter: nobody knew before it ran.

use std::time::Duration;

use halofy_core::{JobId, JobKind, KeyId};
use halofy_store::NewJob;
use halofy_tests::{Caller, Kernel, ModelCall, ModelResponse, Role, ScriptedModel, by_sentences};
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use ulid::Ulid;

use super::{asking, ended, quiet, until};

fn contradict(new: &str, old: &str) -> bool {
    new != old && new.starts_with("Dana is") && old.starts_with("Dana is")
}

/// A model that takes its time to read what is said of Bern.
fn slow_about_bern() -> ScriptedModel {
    ScriptedModel::start(|request| {
        let answer = by_sentences(request, &contradict);
        match request.call == ModelCall::Extract && request.text.contains("Bern") {
            true => ModelResponse::Slowly(Duration::from_secs(2), Box::new(answer)),
            false => answer,
        }
    })
}

async fn contents(caller: &Caller) -> Vec<String> {
    let found = caller.search("Dana").await;
    found.contents().into_iter().map(str::to_owned).collect()
}

#[tokio::test]
async fn of_two_facts_the_one_that_was_told_later_holds_although_it_was_stored_first() {
    let model = slow_about_bern();
    let kernel = asking(&model).await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    for event in [None, Some("2026-03-01T12:00:00Z")] {
        let dana = match event {
            None => kernel.caller(&dana.key, &dana.key_id),
            Some(_) => kernel.key("beta", "user:dana", Role::Agent).await,
        };
        let asked = model.requests().len();
        let mut first = json!({ "content": "Dana is in Bern.", "async": true });
        let mut second = json!({ "content": "Dana is in Basel.", "verbatim": true });
        if let Some(event) = event {
            first["eventTime"] = json!(event);
            second["eventTime"] = json!(event);
        }
        let queued = dana.call("write", first).await.expect_status(200);
        until("the model reads it", async || {
            model.requests().len() > asked
        })
        .await;
        let basel = dana.call("write", second).await.expect_status(200);
        let ticket = queued.body["ticket"].as_str().expect("a ticket");
        let done = ended(&dana, ticket).await;
        let bern = done["result"]["stored"][0]
            .as_str()
            .expect("an id")
            .to_owned();
        quiet(&kernel).await;
        assert_eq!(contents(&dana).await, ["Dana is in Basel."], "{event:?}");
        let (bern, basel) = (
            dana.read(&bern).await.body,
            dana.read(basel.id()).await.body,
        );
        // Whoever asks for what was known in between does not find it.
        assert!(moment(&bern["assertionTime"]) > moment(&basel["assertionTime"]));
        if event.is_none() {
            assert!(moment(&bern["validFrom"]) < moment(&basel["validFrom"]));
        }
    }
    assert!(kernel.verify().await.ok);
}

fn moment(value: &Value) -> OffsetDateTime {
    let text = value.as_str().expect("a moment");
    OffsetDateTime::parse(text, &Rfc3339).expect("a moment")
}

/// Queues a write as if it had been told then.
async fn told(kernel: &Kernel, caller: &Caller, request: Value, told_at: &str) -> String {
    let id = JobId::new(Ulid::generate());
    let payload = json!({ "request": request, "source": null, "toldAt": told_at });
    let key = KeyId(caller.key_id.clone());
    let queue = async move |store: std::sync::Arc<halofy_store::Store>| {
        let namespace = "acme".parse().expect("a namespace");
        let job = NewJob {
            id,
            kind: JobKind::Write,
            namespace: &namespace,
            actor: "user:dana",
            key: Some(&key),
            payload: &payload,
            max_attempts: 5,
        };
        let mut tx = store.begin().await?;
        tx.job_insert(&job).await?;
        tx.commit().await
    };
    kernel.on_store(queue).await.expect("queued");
    id.to_string()
}

#[tokio::test]
async fn a_slot_is_filled_by_what_was_told_last_and_the_text_is_read_by_when_it_was_told() {
    let model = ScriptedModel::by_sentences();
    let kernel = asking(&model).await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let fill = |content: &str| json!({ "content": content, "slot": "home" });
    let now = dana
        .call("write", fill("Dana is in Basel."))
        .await
        .expect_status(200);
    let yesterday = "2026-03-01T12:00:00Z";
    let late = told(&kernel, &dana, fill("Dana is in Bern."), yesterday).await;
    let done = ended(&dana, &late).await;
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(contents(&dana).await, ["Dana is in Basel."]);
    let late = done["result"]["stored"][0].as_str().expect("an id");
    let bern = dana.read(late).await.body;
    assert_eq!(bern["validFrom"], yesterday);
    assert_eq!(bern["validTo"], dana.read(now.id()).await.body["validFrom"]);
    assert!(moment(&bern["closedAt"]) >= moment(&bern["assertionTime"]));

    let text = json!({ "content": "Emil came yesterday." });
    let other = told(&kernel, &dana, text, yesterday).await;
    assert_eq!(ended(&dana, &other).await["state"], "done");
    let read = model
        .asked()
        .into_iter()
        .find(|asked| asked.call == ModelCall::Extract);
    assert_eq!(read.expect("asked").told_at.as_deref(), Some(yesterday));
}
