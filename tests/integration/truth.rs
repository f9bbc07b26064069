//! Memory over time: what held when (W6), moments and vectors that are none (W7, R3, R6),
//! many writers at once (W4), what contradicts and who decides (W5), who may read it, and
//! replays of all that.
//!
//! Here is what the files below share. Not here: how facts come out of a text.

mod ancestors;
mod copies;
mod groups;
mod lattice;
mod moments;
mod pages;
mod readers;
mod replays;
mod resolutions;
mod retold;
mod review;
mod succession;
mod timeline;

use std::time::Duration;

use halofy_gate::Model;
use halofy_tests::{Answer, Caller, Kernel, Role, ScriptedModel};
use serde_json::{Value, json};

/// A model for which two texts contradict each other when they say different things of one
/// subject: the words before "is".
fn by_subject() -> ScriptedModel {
    ScriptedModel::by_sentences_where(contradict)
}

fn contradict(new: &str, old: &str) -> bool {
    let subject = |text: &str| {
        text.split_once(" is ")
            .map(|(subject, _)| subject.to_owned())
    };
    new != old && subject(new) == subject(old)
}

async fn kernel_with(model: &ScriptedModel) -> Kernel {
    let model = Model::new(&model.config(), None).expect("a model");
    Kernel::with().model(model).start().await
}

/// Waits until every job has come to a good end.
async fn settled(kernel: &Kernel) {
    for _ in 0..600 {
        let waiting = "select count(*) from jobs where state in ('queued', 'running')";
        if kernel.sql_value(waiting).await == "0" {
            let failed = "select count(*) from jobs where state <> 'done'";
            assert_eq!(kernel.sql_value(failed).await, "0");
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("jobs still wait after 30 seconds");
}

/// A write of these words that no model draws facts from.
async fn tell(caller: &Caller, content: &str, more: Value) -> Answer {
    let mut body = json!({ "content": content, "verbatim": true });
    let fields = body.as_object_mut().expect("an object");
    fields.extend(more.as_object().expect("an object").clone());
    caller.call("write", body).await.expect_status(200)
}

/// As [`tell`], for the id of what was stored.
async fn told(caller: &Caller, content: &str, more: Value) -> String {
    let answer = tell(caller, content, more).await;
    ids_in(&answer.body["stored"])
        .pop()
        .unwrap_or_else(|| panic!("nothing stored: {}", answer.text))
}

fn from_source(source: &str) -> Value {
    json!({ "provenance": { "source": source } })
}

fn ids_in(list: &Value) -> Vec<String> {
    let ids = list.as_array().into_iter().flatten();
    ids.filter_map(|id| id.as_str().map(str::to_owned))
        .collect()
}

/// What a search finds, sorted.
async fn found(caller: &Caller, query: &str, more: Value) -> Vec<String> {
    let mut body = json!({ "query": query, "k": 100 });
    let fields = body.as_object_mut().expect("an object");
    fields.extend(more.as_object().expect("an object").clone());
    let answer = caller.call("search", body).await.expect_status(200);
    let mut contents: Vec<String> = answer.contents().into_iter().map(str::to_owned).collect();
    contents.sort();
    contents
}

async fn found_now(caller: &Caller, query: &str) -> Vec<String> {
    found(caller, query, json!({})).await
}

async fn found_at(caller: &Caller, query: &str, moment: &str) -> Vec<String> {
    found(caller, query, json!({ "asOf": moment })).await
}

/// The chain of a memory, as its caller sees it.
async fn history(caller: &Caller, id: &str) -> Vec<Value> {
    let answer = caller.call("history", json!({ "id": id })).await;
    let chain = answer.expect_status(200).body["history"].clone();
    chain.as_array().expect("a list").clone()
}

/// One field of each.
fn each<'a>(list: &'a [Value], field: &str) -> Vec<&'a str> {
    list.iter()
        .map(|one| one[field].as_str().unwrap_or("-"))
        .collect()
}

async fn disputes(caller: &Caller, body: Value) -> Vec<Value> {
    let answer = caller.call("disputes", body).await.expect_status(200);
    answer.body["disputes"].as_array().expect("a list").clone()
}

async fn resolve(caller: &Caller, id: &str, verdict: &str) -> Answer {
    let body = json!({ "id": id, "verdict": verdict });
    caller.call("resolve", body).await
}

/// The database's present moment.
async fn moment(kernel: &Kernel) -> String {
    let sql = "select to_char(clock_timestamp() at time zone 'utc',
                              'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";
    kernel.sql_value(sql).await
}

async fn count(kernel: &Kernel, what: &str) -> i64 {
    let count = kernel
        .sql_value(format!("select count(*) from {what}"))
        .await;
    count.parse().expect("a number")
}

async fn member(kernel: &Kernel, namespace: &str) -> Caller {
    kernel.key(namespace, "user:member", Role::Member).await
}

async fn admin(kernel: &Kernel, namespace: &str) -> Caller {
    kernel.key(namespace, "user:admin", Role::Admin).await
}
