//! What a sidecar is sent, and what is believed of its answer, against a real server on
//! the loopback interface.

use std::collections::HashSet;

use halofy_cartridge::{Plan, View};
use halofy_core::DriverName;
use serde_json::{Value, json};

use super::candidates::{MAX_BYTES, MAX_CANDIDATES};
use super::facts_view::{FIRST_ID, FactsView, Mood, query};
use super::scripted_sidecar::{ScriptedSidecar, Step, refs, reversed};
use super::{Sidecar, SidecarError, SidecarFailure};

const FACTS: [&str; 3] = [
    "Marisol keeps her accordion in the cedar attic",
    "The zephyr booster burns methalox",
    "Ottoline breeds axolotls beside the greenhouse",
];
const QUESTION: &str = "where is the accordion?";

/// One plan over `FACTS` whose answer is made by `answer`, and what was sent for it.
async fn plan_of(answer: fn(&Value) -> String) -> (Plan, Value) {
    let server = ScriptedSidecar::start(vec![Step::Answer(answer)]).await;
    let view = FactsView::of(&FACTS);
    let plan = server
        .driver()
        .plan(&view, &query(QUESTION, 10, 1000))
        .await;
    (plan.expect("a plan"), server.asked()[0].body.clone())
}

fn contents(plan: &Plan) -> Vec<&str> {
    plan.hits.iter().map(|hit| &*hit.row.content).collect()
}

fn sent_contents(request: &Value) -> Vec<&str> {
    let candidates = request["candidates"].as_array().expect("candidates");
    let texts = candidates.iter().filter_map(|it| it["content"].as_str());
    texts.collect()
}

#[tokio::test]
async fn the_engine_orders_and_the_view_gives_the_content() {
    let (plan, request) = plan_of(|request| {
        let scored = refs(request)
            .into_iter()
            .enumerate()
            .map(|(at, it)| json!({"ref": it, "score": at, "content": "forged", "id": 7}));
        json!({"refs": scored.collect::<Vec<_>>(), "took": 3}).to_string()
    })
    .await;
    let mut expected = sent_contents(&request);
    expected.reverse();
    assert_eq!(contents(&plan), expected);
    let scores: Vec<f64> = plan.hits.iter().map(|hit| hit.score).collect();
    assert_eq!(scores, [2.0, 1.0, 0.0]);
    assert!(
        plan.hits
            .iter()
            .all(|hit| &*hit.row.namespace == "acme/eng")
    );
    assert!(plan.hits.iter().all(|hit| hit.token_estimate > 0));
    let stats = plan.stats;
    assert_eq!((stats.violations(), stats.host_calls), (0, 3));
    assert!(stats.rows >= 3 && stats.bytes > 0 && stats.total >= stats.view);
}

#[tokio::test]
async fn the_request_is_what_the_contract_says_and_names_no_memory() {
    let (_, request) = plan_of(reversed).await;
    let mut keys: Vec<&String> = request.as_object().expect("an object").keys().collect();
    keys.sort_unstable();
    assert_eq!(keys, ["budget", "candidates", "k", "query"]);
    assert_eq!(request["query"], QUESTION);
    assert_eq!(
        (&request["budget"], &request["k"]),
        (&json!(1000), &json!(10))
    );
    assert_eq!(
        sent_contents(&request)[0],
        FACTS[0],
        "best of both arms first"
    );
    let text = request.to_string();
    for (at, _) in FACTS.iter().enumerate() {
        assert!(
            !text.contains(&(FIRST_ID + at as u128).to_string()),
            "{text}"
        );
    }
    assert!(!text.contains("acme"), "{text}");
}

#[tokio::test]
async fn refs_of_another_plan_mean_nothing() {
    let server = ScriptedSidecar::start(vec![Step::Answer(reversed), Step::Answer(reversed)]).await;
    let view = FactsView::of(&FACTS);
    for _ in 0..2 {
        let plan = server
            .driver()
            .plan(&view, &query(QUESTION, 10, 1000))
            .await;
        assert_eq!(plan.expect("a plan").hits.len(), 3);
    }
    let asked = server.asked();
    let [first, second] = [0, 1].map(|at| refs(&asked[at].body));
    assert!(first.iter().all(|it| !second.contains(it)));
}

#[tokio::test]
async fn forged_refs_are_dropped_and_counted() {
    let (plan, request) = plan_of(|request| {
        let sent = refs(request);
        let sent_first = sent[0].as_str().expect("text");
        let other_plan = "01AAAAAAAAAAAAAAAAAAAAAAAA-0";
        let mut forged = vec!["0", "1", "", "c0", other_plan]
            .into_iter()
            .map(String::from);
        let padded = format!("{}0{}", &sent_first[..27], &sent_first[27..]);
        let beyond = format!("{}3", &sent_first[..27]);
        let forged = forged
            .by_ref()
            .chain([padded, beyond, format!("{sent_first} ")]);
        let mut scored: Vec<_> = forged.map(|it| json!({"ref": it, "score": 99})).collect();
        scored.push(json!({"ref": sent[1], "score": 0.5}));
        json!({ "refs": scored }).to_string()
    })
    .await;
    assert_eq!(contents(&plan), [sent_contents(&request)[1]]);
    assert_eq!(plan.stats.dropped_unknown, 8);
}

#[tokio::test]
async fn scores_that_are_no_numbers_are_dropped_and_counted() {
    let (plan, request) = plan_of(|request| {
        let sent = refs(request);
        let scored = [
            json!({"ref": sent[0], "score": null}),
            json!({"ref": sent[1], "score": -1.5}),
            json!({"ref": sent[2]}),
        ];
        json!({ "refs": scored }).to_string()
    })
    .await;
    assert_eq!(contents(&plan), [sent_contents(&request)[1]]);
    assert_eq!(plan.stats.dropped_nonfinite, 2);
}

#[tokio::test]
async fn a_repeated_ref_counts_once_with_its_best_score() {
    let (plan, request) = plan_of(|request| {
        let sent = refs(request);
        let scored = [(1, 0.2), (0, 0.5), (1, 0.9), (1, 0.1)]
            .map(|(at, score): (usize, f64)| json!({"ref": sent[at], "score": score}));
        json!({ "refs": scored }).to_string()
    })
    .await;
    let sent = sent_contents(&request);
    assert_eq!(contents(&plan), [sent[1], sent[0]]);
    assert_eq!(plan.hits[0].score, 0.9);
    assert_eq!(plan.stats.dropped_duplicate, 2);
}

#[tokio::test]
async fn ties_keep_the_order_in_which_the_rows_were_sent() {
    let (plan, request) = plan_of(|request| {
        let mut sent = refs(request);
        sent.reverse();
        let zeros = [-0.0, 0.0, -0.0];
        let scored = sent.iter().zip(zeros);
        let scored = scored.map(|(it, zero)| json!({"ref": it, "score": zero}));
        json!({"refs": scored.collect::<Vec<_>>()}).to_string()
    })
    .await;
    assert_eq!(contents(&plan), sent_contents(&request));
    assert!(plan.hits.iter().all(|hit| hit.score.is_sign_positive()));
}

#[tokio::test]
async fn no_more_than_k_and_the_budget_are_kept() {
    let facts: Vec<String> = (0..20).map(|at| format!("accordion {at:030}")).collect();
    let view = FactsView::of(&facts);
    // (k, budget) and the hits, those beyond k, those beyond the budget; each is 10 tokens.
    for (k, budget, expected) in [
        (5, 1000, (5, 15, 0)),
        (5, 25, (2, 15, 3)),
        (5, 1, (1, 15, 4)),
        (100, 1000, (20, 0, 0)),
    ] {
        let server = ScriptedSidecar::start(vec![Step::Answer(reversed)]).await;
        let plan = server
            .driver()
            .plan(&view, &query(QUESTION, k, budget))
            .await;
        let plan = plan.expect("a plan");
        let stats = plan.stats;
        let found = (plan.hits.len(), stats.over_k, stats.over_budget);
        assert_eq!(found, expected, "k {k}, budget {budget}");
        let sent = server.asked()[0].body.clone();
        assert_eq!(
            contents(&plan)[0],
            *sent_contents(&sent).last().expect("sent")
        );
    }
}

#[tokio::test]
async fn nothing_is_sent_when_there_is_nothing_to_rank() {
    let server = ScriptedSidecar::start(vec![]).await;
    let empty = FactsView::of::<&str>(&[]);
    let plan = server
        .driver()
        .plan(&empty, &query(QUESTION, 5, 1000))
        .await;
    assert!(plan.expect("a plan").hits.is_empty());
    let full = FactsView::of(&FACTS);
    let plan = server.driver().plan(&full, &query(QUESTION, 0, 1000)).await;
    assert!(plan.expect("a plan").hits.is_empty());
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn at_most_two_hundred_rows_are_sent_each_once_and_each_arm_has_its_best_hundred() {
    let longer = |at: usize| "by the harbour ".repeat(at % 7);
    let facts = (0..300).map(|at| format!("accordion {at} {}", longer(at)));
    let view = FactsView::of(&facts.collect::<Vec<_>>());
    let server = ScriptedSidecar::start(vec![Step::Answer(reversed)]).await;
    let question = "accordions by the lake";
    let plan = server
        .driver()
        .plan(&view, &query(question, 10, 1000))
        .await;
    assert_eq!(plan.expect("a plan").hits.len(), 10);

    let request = server.asked()[0].body.clone();
    let sent = sent_contents(&request);
    assert_eq!(sent.len(), MAX_CANDIDATES);
    assert_eq!(sent.iter().collect::<HashSet<_>>().len(), MAX_CANDIDATES);

    let lexical = view.lexical_candidates(question.to_owned(), 100).await;
    let vectors = view
        .embed(vec![question.to_owned()])
        .await
        .expect("a vector");
    let near = view.vector_search(vectors[0].clone(), 100).await;
    let near = near.expect("rows").into_iter().map(|(row, _)| row);
    let best = lexical.expect("rows").into_iter().chain(near);
    let best: HashSet<_> = best.map(|row| row.content).collect();
    assert!(best.len() > 100, "the arms differ");
    assert!(best.iter().all(|content| sent.contains(&&**content)));
}

#[tokio::test]
async fn the_bytes_of_one_request_are_bounded_and_what_still_fits_is_sent() {
    let long = "accordion ".repeat(MAX_BYTES / 25);
    let mut facts: Vec<String> = (0..4).map(|at| format!("{at} {long}")).collect();
    facts.extend(FACTS.map(str::to_owned));
    let server = ScriptedSidecar::start(vec![Step::Answer(reversed)]).await;
    let plan = server
        .driver()
        .plan(&FactsView::of(&facts), &query(QUESTION, 10, 1000))
        .await;
    plan.expect("a plan");
    let request = server.asked()[0].body.clone();
    let sent = sent_contents(&request);
    let bytes: usize = sent.iter().map(|text| text.len()).sum();
    assert!(bytes <= MAX_BYTES, "{bytes}");
    assert_eq!(sent.iter().filter(|text| text.len() > 1000).count(), 2);
    assert!(FACTS.iter().all(|fact| sent.contains(fact)));
}

#[tokio::test]
async fn without_an_embedder_the_newest_rows_join_those_that_share_words() {
    for mood in [Mood::NoEmbedder, Mood::HangingEmbedder] {
        let server = ScriptedSidecar::start(vec![Step::Answer(reversed)]).await;
        let view = FactsView::in_mood(&FACTS, mood);
        let plan = server
            .driver()
            .plan(&view, &query(QUESTION, 10, 1000))
            .await;
        assert_eq!(plan.expect("a plan").hits.len(), 3);
        let request = server.asked()[0].body.clone();
        assert_eq!(sent_contents(&request), [FACTS[0], FACTS[2], FACTS[1]]);
    }
}

#[tokio::test]
async fn a_view_without_its_store_fails_and_nothing_is_sent() {
    let server = ScriptedSidecar::start(vec![]).await;
    let view = FactsView::in_mood(&FACTS, Mood::NoStore);
    let failed = server
        .driver()
        .plan(&view, &query(QUESTION, 10, 1000))
        .await;
    let failed = failed.expect_err("no store");
    assert!(matches!(failed, SidecarFailure::View(_)), "{failed}");
    assert_eq!(
        (failed.reason(), failed.is_sidecar_fault()),
        ("view", false)
    );
    assert!(server.asked().is_empty());
}

#[test]
fn a_sidecar_without_a_usable_url_is_never_made() {
    let made = |url| Sidecar::new(DriverName::parse("mem0").expect("a name"), url);
    for none in [None, Some(""), Some("  ")] {
        assert_eq!(made(none).err(), Some(SidecarError::NoUrl));
    }
    for bad in [
        "mem0:8377",
        "localhost",
        "ftp://host/",
        "file:///etc/passwd",
        "unix:/run/mem0.sock",
        "http://",
        "https://host/?key=s3cret",
        "https://host/#s3cret",
        "https://user:s3cret@host:port/",
    ] {
        let refused = made(Some(bad)).expect_err(bad);
        assert!(
            matches!(refused, SidecarError::Url(_)),
            "{bad}: {refused:?}"
        );
        assert!(
            !format!("{refused} {refused:?}").contains("s3cret"),
            "{refused:?}"
        );
    }
    assert!(made(Some("https://mem0.example:8377/engine/")).is_ok());
    let baseline = Sidecar::new(DriverName::default(), Some("http://localhost:1"));
    assert_eq!(baseline.err(), Some(SidecarError::ReservedName));
}
