//! Facts that a language model draws from texts: what is kept of them (`facts`, `entities`),
//! what happens when the model does not help (`brownouts`, `circuit`), where texts may not
//! go (`withheld`), and writes that are not waited for (`deferred`, `killed`, `forgotten`).

mod brownouts;
mod circuit;
mod deferred;
mod entities;
mod facts;
mod forgotten;
mod killed;
mod told;
mod withheld;

use std::time::Duration;

use halofy_gate::Model;
use halofy_tests::{Answer, Caller, Kernel, ModelCall, ModelRequest, ModelResponse, ScriptedModel};
use serde_json::{Value, json};

use crate::audit::rows_of;

/// Nothing of these tests takes that long.
const PATIENCE: Duration = Duration::from_secs(90);

/// A kernel that asks this model.
async fn asking(model: &ScriptedModel) -> Kernel {
    let model = Model::new(&model.config(), None).expect("a model");
    Kernel::with().model(model).start().await
}

/// A model that finds these facts in every text, and all of them supported.
fn finding(facts: Value) -> ScriptedModel {
    ScriptedModel::start(move |request| found(request, &facts))
}

fn found(request: &ModelRequest, facts: &Value) -> ModelResponse {
    match request.call {
        ModelCall::Extract => ModelResponse::Says(json!({ "facts": facts })),
        ModelCall::Verify => ModelResponse::verdicts(request, |_| true),
        ModelCall::Contradicts => ModelResponse::verdicts(request, |_| false),
    }
}

/// A fact as a model writes it.
fn fact(content: &str, entities: &[&str]) -> Value {
    json!({ "content": content, "kind": "fact", "eventTime": null, "entities": entities })
}

/// How often the model was asked this.
fn count(model: &ScriptedModel, call: ModelCall) -> usize {
    let asked = model.asked().into_iter();
    asked.filter(|asked| asked.call == call).count()
}

/// What the audit log says of writes, in order.
async fn details(kernel: &Kernel) -> Vec<String> {
    let rows = rows_of(&kernel.audit().await, "write").into_iter();
    rows.filter_map(|row| row.columns.detail).collect()
}

/// What all memories say, in the order of their texts.
async fn contents(kernel: &Kernel) -> Vec<String> {
    let sql = "select content from memory_objects order by content collate \"C\"";
    kernel.sql_values(sql).await
}

/// How many ids a list of an answer has.
fn len(answer: &Answer, list: &str) -> usize {
    let list = answer.body[list].as_array();
    list.unwrap_or_else(|| panic!("no list in {}", answer.text))
        .len()
}

/// Asks until the answer is as wished.
async fn until<F: Future<Output = bool>>(what: &str, mut wished: impl FnMut() -> F) {
    let asking = async {
        while !wished().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let done = tokio::time::timeout(PATIENCE, asking).await;
    done.unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

/// Waits until no conflict is left to be looked for, and all jobs are done.
async fn quiet(kernel: &Kernel) {
    let busy = "select count(*) from jobs where state in ('queued', 'running')";
    until("all jobs have ended", async || {
        kernel.sql_value(busy).await == "0"
    })
    .await;
}

/// What became of a write that was not waited for.
async fn ended(caller: &Caller, ticket: &str) -> Value {
    let mut body = Value::Null;
    let asking = async {
        loop {
            let answer = caller.call("ticket", json!({ "ticket": ticket })).await;
            body = answer.expect_status(200).body;
            if body["state"] != "queued" && body["state"] != "running" {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let done = tokio::time::timeout(PATIENCE, asking).await;
    done.unwrap_or_else(|_| panic!("the ticket never ended: {body}"));
    body
}
