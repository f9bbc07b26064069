//! Which driver serves, and what the answer and the audit log say when it is not the
//! one that policy selected. Not here: what a hostile cartridge may try.

use halofy_retrieval::fnv1a32;
use halofy_tests::{
    Answer, Caller, Kernel, Mood, Role, ScriptedEmbedder, forging_cartridge, trapping_cartridge,
};
use serde_json::{Value, json};

const FACT: &str = "The observatory opens on Tuesdays.";
const QUESTION: &str = "when does the observatory open";

async fn with_fact(kernel: &Kernel) -> Caller {
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    caller.write(FACT).await.expect_status(200);
    caller
}

/// Asserts what the last search's audit row says of drivers.
async fn expect_detail(kernel: &Kernel, expected: &str) {
    let row = kernel.last_audit().await.columns;
    assert_eq!((row.op.as_str(), row.result.as_str()), ("search", "ok"));
    assert_eq!(row.purpose.as_deref(), Some(QUESTION));
    // What follows is for replays, and different in every row.
    let detail = row.detail.unwrap_or_default();
    let rest = detail.strip_prefix(expected);
    let rest = rest.unwrap_or_else(|| panic!("{detail:?} does not begin with {expected:?}"));
    assert!(
        rest.starts_with(" version=") || rest.starts_with(" k="),
        "{detail}"
    );
}

#[tokio::test]
async fn the_baseline_serves_where_no_policy_says_otherwise() {
    let kernel = Kernel::start().await;
    let caller = with_fact(&kernel).await;
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(found.contents(), [FACT]);
    assert_eq!(found.body["driver"], "baseline");
    assert_eq!(found.body.get("driverFallback"), None);
    assert_eq!(found.body.get("degraded"), None);
    expect_detail(&kernel, "returned=1 tokens=9 driver=baseline").await;
}

#[tokio::test]
async fn a_driver_that_is_not_mounted_is_named_and_the_baseline_serves() {
    let kernel = Kernel::start().await;
    let caller = with_fact(&kernel).await;
    kernel.policy("acme", json!({ "retriever": "ghost" })).await;
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(found.contents(), [FACT]);
    assert_eq!(found.body["driver"], "baseline");
    let fallback = json!({ "from": "ghost", "to": "baseline", "reason": "unmounted" });
    assert_eq!(found.body["driverFallback"], fallback);
    let detail =
        "returned=1 tokens=9 driver=baseline driver_fallback=ghost->baseline reason=unmounted";
    expect_detail(&kernel, detail).await;
    let policy = kernel.policy_of("acme").await.expect("a policy");
    assert_eq!(policy.unmounted, ["ghost"]);
}

#[tokio::test]
async fn a_cartridge_that_traps_costs_the_caller_nothing_but_its_ranking() {
    let kernel = Kernel::with()
        .cartridge("brittle", trapping_cartridge())
        .start()
        .await;
    let caller = with_fact(&kernel).await;
    kernel
        .policy("acme", json!({ "retriever": "brittle" }))
        .await;
    // After ten faults nobody waits for it any more.
    for at in 0..20 {
        let reason = if at < 10 { "trap" } else { "quarantined" };
        let found = caller.search(QUESTION).await.expect_status(200);
        assert_eq!(found.contents(), [FACT]);
        let fallback = json!({ "from": "brittle", "to": "baseline", "reason": reason });
        assert_eq!(found.body["driverFallback"], fallback);
        let detail = format!(
            "returned=1 tokens=9 driver=baseline driver_fallback=brittle->baseline reason={reason}"
        );
        expect_detail(&kernel, &detail).await;
    }
    kernel
        .policy("acme", json!({ "retriever": "baseline" }))
        .await;
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(found.body.get("driverFallback"), None);
    assert!(kernel.verify().await.ok);
}

#[tokio::test]
async fn an_answer_of_which_nothing_keeps_the_contract_is_the_baselines() {
    let kernel = Kernel::with()
        .cartridge("forger", forging_cartridge())
        .start()
        .await;
    let caller = with_fact(&kernel).await;
    kernel
        .policy("acme", json!({ "retriever": "forger" }))
        .await;
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(found.contents(), [FACT]);
    let fallback = json!({ "from": "forger", "to": "baseline", "reason": "invalid_result" });
    assert_eq!(found.body["driverFallback"], fallback);
}

/// Asserts an answer by words alone, and that it admits it.
fn expect_degraded(found: Answer) -> Answer {
    assert_eq!(found.contents(), [FACT]);
    assert_eq!(found.body["driver"], "bm25-degraded");
    assert_eq!(found.body["degraded"], "embedding_unavailable");
    found.expect_status(200)
}

#[tokio::test]
async fn without_an_embedder_words_alone_are_ranked_and_the_answer_says_so() {
    let embedder = ScriptedEmbedder::new(256);
    let kernel = Kernel::with().embedder(embedder.clone()).start().await;
    let caller = with_fact(&kernel).await;
    caller.write("Lunch is at one.").await.expect_status(200);
    for mood in [Mood::Fails, Mood::Hangs] {
        embedder.becomes(mood);
        let found = expect_degraded(caller.search(QUESTION).await);
        assert_eq!(found.body.get("driverFallback"), None);
        let detail = "returned=1 tokens=9 driver=bm25-degraded brownout=embedding_unavailable";
        expect_detail(&kernel, detail).await;
    }
    embedder.becomes(Mood::Fails);
    let history = json!({ "query": QUESTION, "validOnly": false });
    let found = caller.call("search", history).await.expect_status(200);
    assert_eq!(found.contents(), [FACT]);
    assert_eq!(found.body["driver"], "history");
    assert_eq!(found.body["degraded"], "embedding_unavailable");
    caller
        .write("It rains.")
        .await
        .expect_problem(503, "unavailable");
    embedder.becomes(Mood::Works);
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(
        (&found.body["driver"], found.body.get("degraded")),
        (&json!("baseline"), None)
    );
}

#[tokio::test]
async fn a_missing_driver_and_a_missing_embedder_are_both_told() {
    let embedder = ScriptedEmbedder::new(256);
    let kernel = Kernel::with().embedder(embedder.clone()).start().await;
    let caller = with_fact(&kernel).await;
    kernel.policy("acme", json!({ "retriever": "ghost" })).await;
    embedder.becomes(Mood::Fails);
    let found = expect_degraded(caller.search(QUESTION).await);
    assert_eq!(found.body["driverFallback"]["from"], "ghost");
    assert_eq!(found.body["driverFallback"]["to"], "bm25-degraded");
}

/// The arm that served: `b` is not mounted, and so shows.
fn arm(answer: &Value) -> &'static str {
    match answer["driverFallback"]["from"].as_str() {
        Some("arm-b") => "b",
        None => "a",
        other => panic!("{other:?} served"),
    }
}

#[tokio::test]
async fn a_split_sends_a_text_always_to_the_same_arm() {
    let kernel = Kernel::start().await;
    let caller = with_fact(&kernel).await;
    let split = json!({ "abTest": { "a": "baseline", "b": "arm-b", "pctB": 30 } });
    kernel.policy("acme", split).await;
    let queries: Vec<String> = (0..40)
        .map(|at| format!("observatory question {at}"))
        .collect();
    let mut arms = Vec::new();
    for query in &queries {
        let found = caller.search(query).await.expect_status(200);
        let expected = if fnv1a32(query.as_bytes()) % 100 < 30 {
            "b"
        } else {
            "a"
        };
        assert_eq!(arm(&found.body), expected, "{query}");
        arms.push(expected);
    }
    assert!(arms.contains(&"a") && arms.contains(&"b"), "{arms:?}");
    let data = kernel.stop().await;
    let kernel = Kernel::with().on(&data).start().await;
    let caller = kernel.caller(&caller.key, &caller.key_id);
    for (query, expected) in queries.iter().zip(arms) {
        assert_eq!(arm(&caller.search(query).await.body), expected, "{query}");
    }
}

#[tokio::test]
async fn the_ends_of_a_split_send_everything_one_way() {
    let kernel = Kernel::start().await;
    let caller = with_fact(&kernel).await;
    for (percent, expected) in [(0, "a"), (100, "b")] {
        let split = json!({ "abTest": { "a": "baseline", "b": "arm-b", "pctB": percent } });
        kernel.policy("acme", split).await;
        for at in 0..10 {
            let found = caller
                .search(&format!("question {at}"))
                .await
                .expect_status(200);
            assert_eq!(arm(&found.body), expected);
        }
    }
}
