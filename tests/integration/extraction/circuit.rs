//! The circuit breaker around the model: open after failures in a row, then one probe, then
//! closed again, as the metrics show it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use halofy_tests::{Data, Kernel, ModelResponse, Role, ScriptedModel, by_sentences};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{details, until};
use crate::crash::{Peer, Served};

const FAILURES: usize = 3;
/// The first rest is half of it at least: time for the writes that must not go through.
const COOL_DOWN_MS: u64 = 6_000;
/// How long the probe is on its way: time for the writes beside it.
const PROBE: Duration = Duration::from_secs(4);

#[tokio::test]
async fn after_failures_in_a_row_nothing_is_sent_then_one_probe_then_all_again() {
    let model = ScriptedModel::status(500);
    let (data, served, peer) = serving(&model).await;
    for at in 0..FAILURES {
        assert_eq!(circuit(&peer).await, "0");
        assert_eq!(write(&peer, at).await, "llm_unavailable");
    }
    assert_eq!(
        (model.requests().len(), circuit(&peer).await.as_str()),
        (FAILURES, "2")
    );
    let refused = join_all((10..15).map(|at| write(&peer, at))).await;
    assert_eq!(refused, ["llm_circuit_open"; 5]);
    assert_eq!(model.requests().len(), FAILURES, "no request arrives");

    model.becomes(|request| {
        let answer = by_sentences(request, &|_, _| false);
        ModelResponse::Slowly(PROBE, Box::new(answer))
    });
    let mut early = JoinSet::new();
    let mut at = 100;
    until("the probe is on its way", || {
        let (peer, seen) = (peer.clone(), model.requests().len());
        if seen == FAILURES {
            early.spawn(async move { write(&peer, at).await });
            at += 1;
        }
        async move { seen > FAILURES }
    })
    .await;
    assert_eq!(circuit(&peer).await, "1");
    let beside = join_all((20..25).map(|at| write(&peer, at))).await;
    assert_eq!(beside, ["llm_circuit_open"; 5]);
    assert_eq!(
        model.requests().len(),
        FAILURES + 1,
        "exactly one goes through"
    );
    model.becomes(|request| by_sentences(request, &|_, _| false));
    let mut outcomes = BTreeMap::new();
    for outcome in early.join_all().await {
        *outcomes.entry(outcome).or_insert(0) += 1;
    }
    assert_eq!(
        outcomes.remove("none"),
        Some(1),
        "the probe itself is a good write"
    );
    assert_eq!(outcomes.keys().collect::<Vec<_>>(), ["llm_circuit_open"]);

    assert_eq!(circuit(&peer).await, "0");
    assert_eq!(
        join_all((30..33).map(|at| write(&peer, at))).await,
        ["none"; 3]
    );
    let page = page(&peer).await;
    let refused = 10 + outcomes["llm_circuit_open"];
    let refused = format!(
        "halofy_model_requests_total{{call=\"extract\",result=\"circuit_open\"}} {refused}"
    );
    assert!(
        page.lines().any(|line| line == refused),
        "{refused} is not in {page}"
    );
    assert_eq!(served.terminate().await, Some(0));
    let kernel = Kernel::with().on(&data).start().await;
    let details = details(&kernel).await;
    let open = details
        .iter()
        .filter(|detail| *detail == "stored=1 brownout=llm_circuit_open");
    assert_eq!(open.count(), 10 + outcomes["llm_circuit_open"]);
    let helped = details.iter().filter(|detail| *detail == "stored=2");
    assert_eq!(helped.count(), 4);
}

/// A kernel as a process of its own that leaves this model alone soon.
async fn serving(model: &ScriptedModel) -> (Arc<Data>, Served, Arc<Peer>) {
    let data = Data::fresh().await;
    let kernel = Kernel::with().on(&data).start().await;
    let key = kernel.key("acme", "user:dana", Role::Agent).await.key;
    kernel
        .policy("acme", json!({ "conflictReview": "off" }))
        .await;
    kernel.stop().await;
    let config = data.dir().join("halofy.toml");
    let settings = format!(
        "[model]\nbase_url = \"{}\"\nmodel = \"scripted\"\n\
         [model.breaker]\nfailures = {FAILURES}\ncool_down_ms = {COOL_DOWN_MS}\n",
        model.base_url()
    );
    std::fs::write(&config, settings).expect("written");
    let served = Served::start(&crate::halofy().on(&data).configured(&config)).await;
    let peer = Arc::new(served.peer(&key));
    (data, served, peer)
}

/// Writes two sentences; gives the brownout.
async fn write(peer: &Peer, at: usize) -> String {
    let body = json!({ "content": format!("Parcel {at} is due. Parcel {at} is green.") });
    let answer = peer.post("write", body).await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let answer: Value = answer.json().await.expect("JSON");
    answer["brownout"].as_str().unwrap_or("none").to_owned()
}

async fn page(peer: &Peer) -> String {
    let page = peer.get("/metrics").await.expect("an answer");
    page.text().await.expect("text")
}

/// 0 while calls go through, 1 while one finds out, 2 while none goes.
async fn circuit(peer: &Peer) -> String {
    let page = page(peer).await;
    let value = page
        .lines()
        .find_map(|line| line.strip_prefix("halofy_model_circuit_state "));
    value
        .unwrap_or_else(|| panic!("no circuit in {page}"))
        .to_owned()
}
