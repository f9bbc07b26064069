//! W8: the kernel is killed while the model reads a text that nobody waits for.

use std::sync::Arc;
use std::time::Duration;

use halofy_tests::{
    Data, Kernel, ModelCall, ModelResponse, Program, Role, ScriptedModel, by_sentences,
};
use serde_json::{Value, json};

use super::{contents, details, until};
use crate::audit::{rows_of, settled};
use crate::crash::{Peer, Served};

const TEXT: &str = "Dana Reyes moved to Lisbon. She likes tram 28 best of all.";

/// A model that answers this one only after an hour.
fn stuck_at(call: ModelCall) -> ScriptedModel {
    ScriptedModel::start(move |request| {
        let answer = by_sentences(request, &|_, _| false);
        match request.call == call {
            true => ModelResponse::Slowly(Duration::from_secs(3_600), Box::new(answer)),
            false => answer,
        }
    })
}

#[tokio::test]
async fn w8_a_kill_while_the_facts_are_drawn_stores_them_once() {
    expect_one_set(ModelCall::Extract).await;
}

#[tokio::test]
async fn w8_a_kill_while_the_facts_are_verified_stores_them_once() {
    expect_one_set(ModelCall::Verify).await;
}

async fn expect_one_set(stuck: ModelCall) {
    let model = stuck_at(stuck);
    let data = Data::fresh().await;
    let key = {
        let kernel = Kernel::with().on(&data).start().await;
        let key = kernel.key("acme", "user:dana", Role::Agent).await.key;
        kernel.stop().await;
        key
    };
    let program = program(&data, &model);
    let served = Served::start(&program).await;
    let write = json!({ "content": TEXT, "async": true });
    let answer = post(&served.peer(&key), "write", write).await;
    let ticket = answer["ticket"].as_str().expect("a ticket").to_owned();
    until("the model is asked", async || {
        model
            .asked()
            .last()
            .is_some_and(|asked| asked.call == stuck)
    })
    .await;
    let running = post(&served.peer(&key), "ticket", json!({ "ticket": ticket })).await;
    assert_eq!(running["state"], "running");
    served.kill().await;

    model.becomes(|request| by_sentences(request, &|_, _| false));
    let served = Served::start(&program).await;
    let peer = served.peer(&key);
    let asked = async || post(&peer, "ticket", json!({ "ticket": ticket })).await;
    until("the lease runs out and the job is done", async || {
        let state = asked().await["state"].clone();
        assert!(
            state == "queued" || state == "running" || state == "done",
            "{state}"
        );
        state == "done"
    })
    .await;
    let done = asked().await;
    assert_eq!(done["attempts"], 2, "{done}");
    assert_eq!(
        done["result"]["stored"].as_array().map(Vec::len),
        Some(2),
        "{done}"
    );
    assert_eq!(served.terminate().await, Some(0));
    expect_visible(&data, &ticket).await;
    expect_nothing_twice(&data, &ticket, &done).await;
}

fn program(data: &Data, model: &ScriptedModel) -> Program {
    let config = data.dir().join("halofy.toml");
    let settings = format!(
        "[model]\nbase_url = \"{}\"\nmodel = \"scripted\"\n",
        model.base_url()
    );
    let more = "timeout_ms = 600000\n";
    std::fs::write(&config, settings + more).expect("written");
    crate::halofy().on(data).configured(&config)
}

async fn post(peer: &Peer, op: &str, body: Value) -> Value {
    let answer = peer.post(op, body).await.expect("an answer");
    assert_eq!(answer.status(), 200);
    answer.json().await.expect("JSON")
}

/// The operator sees the job in its one terminal state.
async fn expect_visible(data: &Arc<Data>, ticket: &str) {
    let program = crate::halofy().on(data);
    let listed = program
        .run(&["jobs", "list", "--state", "done", "--json"])
        .await;
    let listed = listed.expect_code(0).json();
    let jobs = listed.as_array().expect("a list");
    assert!(jobs.iter().any(|job| job["id"] == ticket), "{listed}");
}

async fn expect_nothing_twice(data: &Arc<Data>, ticket: &str, done: &Value) {
    let kernel = Kernel::with().on(data).start().await;
    settled(&kernel).await;
    let sentences = [
        "Dana Reyes moved to Lisbon.",
        "She likes tram 28 best of all.",
    ];
    assert_eq!(contents(&kernel).await, sentences);
    let ids = kernel
        .sql_values("select id from memory_objects order by id")
        .await;
    let mut stored: Vec<String> =
        serde_json::from_value(done["result"]["stored"].clone()).expect("ids");
    stored.sort();
    assert_eq!(ids, stored, "what the ticket names is what is there");
    let bumped = "select count(*) from memory_objects where access_count > 0";
    assert_eq!(
        kernel.sql_value(bumped).await,
        "0",
        "nobody wrote it a second time"
    );
    assert_eq!(details(&kernel).await, ["queued=1", "stored=2"]);
    let end = format!("job={ticket} kind=write state=done attempts=2");
    let rows = rows_of(&kernel.audit().await, "job");
    let ends = rows.iter().filter_map(|row| row.columns.detail.as_deref());
    let ends: Vec<&str> = ends.filter(|detail| detail.contains(ticket)).collect();
    assert_eq!(ends, [end]);
}
