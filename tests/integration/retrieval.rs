//! What a search finds, and what it says when it cannot: the cases R3 to R7. R1, which
//! needs a crowd, is below. Not here: ranking quality, which `halofy eval` measures.

mod crowd;

use halofy_store::StoreError;
use halofy_tests::{Caller, Data, Kernel, Mood, Role, ScriptedEmbedder, ranking_cartridge};
use reqwest::Method;
use serde_json::json;

const VERBS: [(&str, &str); 4] = [
    ("write", r#"{"content":"The ferry leaves at noon."}"#),
    ("search", r#"{"query":"when does the ferry leave"}"#),
    ("read", r#"{"id":"01ARZ3NDEKTSV4RRFFQ69G5FAV"}"#),
    ("stats", "{}"),
];

async fn post(caller: &Caller, op: &str, body: &str) -> halofy_tests::Answer {
    caller
        .raw(Method::POST, &format!("/v1/mem/{op}"), &[], body)
        .await
}

#[tokio::test]
async fn r3_an_embedder_of_another_size_is_refused_at_boot_naming_both() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    caller
        .write("The ferry leaves at noon.")
        .await
        .expect_status(200);
    let data = kernel.stop().await;
    for dimension in [768, 255, 1] {
        let other = ScriptedEmbedder::new(dimension);
        let refused = Kernel::with()
            .on(&data)
            .embedder(other)
            .try_start()
            .await
            .err();
        let Some(StoreError::OtherEmbedder { stored, configured }) = refused else {
            panic!("booted, or another error: {refused:?}");
        };
        assert_eq!(stored, "hash/256 (256 dimensions)");
        assert_eq!(
            configured,
            format!("hash/{dimension} ({dimension} dimensions)")
        );
    }
    let program = crate::halofy().on(&data);
    let run = program
        .run(&["stats", "--key", &caller.key, "--embedder", "hash:768"])
        .await;
    let run = run.expect_code(1);
    for size in ["256 dimensions", "768 dimensions"] {
        assert!(run.stderr.contains(size), "{}", run.stderr);
    }
    let kernel = Kernel::with().on(&data).start().await;
    let again = kernel.caller(&caller.key, &caller.key_id);
    assert_eq!(
        again.search("ferry").await.contents(),
        ["The ferry leaves at noon."]
    );
}

#[tokio::test]
async fn r3_a_vector_that_is_none_is_refused_and_never_stored() {
    let embedder = ScriptedEmbedder::new(256);
    let kernel = Kernel::with().embedder(embedder.clone()).start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    let with = |number: f32| {
        let mut vector = vec![0.5; 256];
        vector[7] = number;
        vector
    };
    for vector in [
        vec![0.5; 768],
        vec![0.5; 255],
        vec![],
        with(f32::NAN),
        with(f32::INFINITY),
        with(f32::NEG_INFINITY),
        vec![0.0; 256],
    ] {
        embedder.becomes(Mood::Says(vector));
        let answer = caller.write("The ferry leaves at noon.").await;
        answer.expect_problem(503, "unavailable");
        let row = kernel.last_audit().await.columns;
        assert_eq!(row.result, "error");
        assert_eq!(
            row.detail.as_deref(),
            Some("reason=unavailable what=embedder")
        );
        // A question can do without its vector.
        let found = caller.search("ferry").await.expect_status(200);
        assert_eq!(found.body["degraded"], "embedding_unavailable");
    }
    assert_eq!(
        kernel
            .sql_value("select count(*) from memory_objects")
            .await,
        "0"
    );
    embedder.becomes(Mood::Works);
    caller
        .write("The ferry leaves at noon.")
        .await
        .expect_status(200);
}

#[tokio::test]
async fn r4_an_empty_body_is_a_422_that_names_what_is_missing() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    for (op, field) in [("search", "query"), ("write", "content"), ("read", "id")] {
        post(&caller, op, "{}").await.expect_invalid(field);
        let null = format!("{{\"{field}\":null}}");
        post(&caller, op, &null).await.expect_invalid(field);
        for body in ["[]", "null", "7", "\"text\""] {
            post(&caller, op, body).await.expect_invalid("body");
        }
    }
    post(&caller, "stats", "{}").await.expect_status(200);
}

async fn expect_outage(kernel: &Kernel, caller: &Caller) {
    for (op, body) in VERBS {
        let answer = post(caller, op, body)
            .await
            .expect_problem(503, "unavailable");
        assert_eq!(answer.headers["retry-after"], "1", "{op}");
        assert!(
            answer.body.get("results").is_none(),
            "{op}: {}",
            answer.text
        );
    }
    let ready = caller.raw(Method::GET, "/health/ready", &[], "").await;
    ready.expect_problem(503, "unavailable");
    caller
        .raw(Method::GET, "/health/live", &[], "")
        .await
        .expect_status(200);
    // Even who cannot be told apart from a stranger is not told "no such key".
    let stranger = kernel.caller("hm_00", "none");
    stranger.stats().await.expect_problem(503, "unavailable");
}

#[tokio::test]
async fn r4_without_a_connection_every_verb_says_503() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    caller
        .write("The ferry leaves at noon.")
        .await
        .expect_status(200);
    kernel.cut_off().await;
    expect_outage(&kernel, &caller).await;
}

#[tokio::test]
async fn r4_a_server_that_lets_nobody_in_is_an_outage_that_ends_by_itself() {
    let data = Data::fresh().await;
    if !data.is_on_server() {
        return; // The embedded database is down only with its kernel.
    }
    let kernel = Kernel::with().on(&data).start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    caller
        .write("The ferry leaves at noon.")
        .await
        .expect_status(200);
    data.let_in(false).await;
    expect_outage(&kernel, &caller).await;
    data.let_in(true).await;
    let found = caller
        .search("when does the ferry leave")
        .await
        .expect_status(200);
    assert_eq!(found.contents(), ["The ferry leaves at noon."]);
    assert!(kernel.verify().await.ok);
}

/// A fact of exactly 150 tokens, told apart from others by its name.
fn long_fact(name: &str) -> String {
    let start = format!("The {name} barometer reads ");
    let rest = 600 - start.chars().count();
    start
        + &"low "
            .repeat(rest)
            .chars()
            .take(rest - 1)
            .collect::<String>()
        + "."
}

#[tokio::test]
async fn r5_the_top_hit_survives_a_budget_that_it_exceeds_alone() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    for name in ["eastern", "western", "northern"] {
        caller.write(&long_fact(name)).await.expect_status(200);
    }
    for (budget, hits) in [
        (80, 1),
        (1, 1),
        (150, 1),
        (299, 1),
        (300, 2),
        (449, 2),
        (450, 3),
    ] {
        for valid_only in [true, false] {
            let body = json!({
                "query": "what does the western barometer read",
                "tokenBudget": budget,
                "validOnly": valid_only,
            });
            let found = caller.call("search", body).await.expect_status(200);
            assert_eq!(
                found.contents().len(),
                hits,
                "budget {budget}, validOnly {valid_only}"
            );
            assert_eq!(found.body["tokens"], 150 * hits);
            assert_eq!(found.contents()[0], long_fact("western"));
        }
    }
}

#[tokio::test]
async fn r5_what_does_not_fit_is_passed_over_for_what_does() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    let top = "Western barometer reading.";
    caller.write(top).await.expect_status(200);
    caller.write(&long_fact("western")).await.expect_status(200);
    caller
        .write("Barometers need care.")
        .await
        .expect_status(200);
    let body = json!({ "query": "western barometer reading", "tokenBudget": 80 });
    let found = caller.call("search", body).await.expect_status(200);
    assert_eq!(found.contents(), [top, "Barometers need care."]);
}

#[tokio::test]
async fn r6_dates_beyond_the_calendar_are_only_text() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    caller
        .write("The treaty of the year 100,000 is a joke.")
        .await
        .expect_status(200);
    for query in [
        "the year 100,000",
        "十万年前",
        "1 BC",
        "-4713-11-24",
        "infinity",
        "99999999-99-99",
    ] {
        for valid_only in [true, false] {
            let body = json!({ "query": query, "validOnly": valid_only });
            caller.call("search", body).await.expect_status(200);
        }
    }
}

/// Facts that differ in nothing that a score sees.
const EQUALS: [&str; 5] = [
    "The bicycle is blue.",
    "The bicycle is blue!",
    "The bicycle is blue?",
    "The bicycle is blue;",
    "The bicycle is, blue",
];

#[tokio::test]
async fn r7_equal_scores_keep_one_order_by_ref_whoever_answers() {
    let kernel = Kernel::start().await;
    super::namespaces::unlimited(&kernel, "acme").await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    let mut ids = Vec::new();
    for fact in EQUALS {
        ids.push(caller.write(fact).await.expect_status(200).id().to_owned());
    }
    ids.sort();
    for at in 0..100 {
        let body = json!({ "query": "blue bicycle", "validOnly": at % 2 == 0 });
        let found = caller.call("search", body).await.expect_status(200);
        assert_eq!(found.ids(), ids, "time {at}: {}", found.text);
        let scores = found.body["results"].as_array().expect("results");
        assert!(
            scores.iter().all(|hit| hit["score"] == scores[0]["score"]),
            "{}",
            found.text
        );
    }
    // A second kernel: beside the first on a server, after it on embedded data.
    let data = kernel.data().clone();
    let first = if data.is_on_server() {
        Some(kernel)
    } else {
        kernel.stop().await;
        None
    };
    let second = Kernel::with().on(&data).start().await;
    let there = second.caller(&caller.key, &caller.key_id);
    for _ in 0..100 {
        assert_eq!(there.search("blue bicycle").await.ids(), ids);
        if first.is_some() {
            assert_eq!(caller.search("blue bicycle").await.ids(), ids);
        }
    }
}

#[tokio::test]
async fn an_evaluation_measures_every_driver() {
    let folder = tempfile::tempdir().expect("a folder");
    let turns = ["the ferry sails at noon", "the kiln is in the east wing"];
    let turn = |(at, text): (usize, &&str)| {
        let id = format!("D1:{}", at + 1);
        json!({ "speaker": "Ann", "dia_id": id, "text": text })
    };
    let turns: Vec<_> = turns.iter().enumerate().map(turn).collect();
    let sample = json!([{
        "sample_id": "conv-1",
        "conversation": { "session_1_date_time": "noon", "session_1": turns },
        "qa": [{ "question": "where is the kiln?", "evidence": ["D1:2"], "category": 1 }],
    }]);
    let (file, wasm) = (
        folder.path().join("a.json"),
        folder.path().join("steady.wasm"),
    );
    std::fs::write(&file, sample.to_string()).expect("a file");
    std::fs::write(&wasm, ranking_cartridge("steady", "1.0.0")).expect("a file");
    let (file, wasm) = (file.to_string_lossy(), wasm.to_string_lossy());
    let arguments = ["eval", "locomo", &file, "--cartridge", &wasm, "--json"];
    let report = crate::halofy().run(&arguments).await.expect_code(0).json();
    let drivers = report["drivers"].as_array().expect("drivers");
    let names: Vec<_> = drivers
        .iter()
        .map(|driver| driver["driver"].clone())
        .collect();
    assert_eq!(names, ["baseline", "steady"], "{report}");
    assert!(
        drivers.iter().all(|driver| driver["recallAt"]["5"] == 1.0),
        "{report}"
    );
}
