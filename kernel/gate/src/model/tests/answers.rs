//! Which answers of the model are used, and which are garbage.

use halofy_core::{Kind, MAX_CONTENT_BYTES};
use serde_json::{Value, json};

use super::{OK, TEXT, candidates, data, extract, model, wrote};
use crate::model::{Extracted, Extraction, MAX_ENTITIES, MAX_FACTS, ModelError};
use crate::scripted_server::{Reply, Server, reply};

async fn facts(facts: Value) -> Result<Vec<Extracted>, ModelError> {
    let answered = extract(wrote(json!({ "facts": facts }))).await;
    answered.map(|answer| answer.value.facts)
}

#[track_caller]
fn assert_garbage<T: std::fmt::Debug>(result: Result<T, ModelError>) {
    let garbage = matches!(result, Err(ModelError::Garbage { .. }));
    assert!(garbage, "{result:?}");
}

#[tokio::test]
async fn a_fence_of_markdown_around_the_answer_does_no_harm() {
    for fenced in [
        "```json\n{\"facts\": []}\n```",
        "```\n{\"facts\": []}```\n",
        "\n {\"facts\": [], \"note\": \"none\"} ",
    ] {
        let answer = extract(wrote(fenced)).await.expect(fenced);
        assert_eq!(answer.value.facts, []);
    }
}

#[tokio::test]
async fn what_can_be_left_out_of_a_fact_is_left_out() {
    let many: Vec<String> = (0..40).map(|at| format!("entity {at}")).collect();
    let long = "e".repeat(257);
    let found = facts(json!([
        {"content": " \n "},
        {"content": "a", "eventTime": "yesterday", "entities": [" Bern", "Bern ", "", "a\nb", long]},
        {"content": "b", "kind": "episode", "eventTime": null, "entities": many},
        {"content": "c", "eventTime": 7},
        {"content": "d", "eventTime": "2026-03-01T10:00:00"},
    ]))
    .await
    .expect("facts");
    let contents: Vec<&str> = found.iter().map(|fact| fact.content.as_str()).collect();
    assert_eq!(contents, ["a", "b", "c", "d"]);
    assert!(found.iter().all(|fact| fact.event_time.is_none()));
    assert_eq!(found[0].entities, ["Bern"]);
    assert_eq!(found[1].entities.len(), MAX_ENTITIES);
    assert_eq!((found[0].kind, found[1].kind), (Kind::Fact, Kind::Episode));
}

#[tokio::test]
async fn of_too_many_facts_the_first_64_are_kept_and_the_others_are_told() {
    for count in [MAX_FACTS, MAX_FACTS + 1, 3 * MAX_FACTS] {
        let facts: Vec<_> = (0..count)
            .map(|at| json!({ "content": format!(" fact {at}") }))
            .collect();
        let answer = extract(wrote(json!({ "facts": facts }))).await;
        let Extraction { facts, surplus } = answer.expect("facts").value;
        assert_eq!(facts.len(), 64);
        assert_eq!(facts[63].content, "fact 63");
        let others: Vec<_> = (64..count).map(|at| format!("fact {at}")).collect();
        assert_eq!(surplus, others);
    }
}

#[tokio::test]
async fn what_an_answer_of_no_use_cost_is_known() {
    let usage = json!({"total_tokens": 42});
    let refused = json!([{"message": {"content": null, "refusal": "no"}}]);
    for (bad, cost) in [
        (wrote("no JSON"), 42),
        (wrote(json!({ "facts": [{ "content": "a\0b" }] })), 42),
        (reply(OK, json!({"choices": refused, "usage": usage})), 42),
        (reply(OK, json!({"choices": 7, "usage": usage})), 42),
        (reply(OK, json!({ "usage": usage })), 42),
        (reply(OK, "<html>"), 0),
        (Reply::Flood, 0),
        (reply("400 Bad Request", json!({ "usage": usage })), 0),
    ] {
        assert_eq!(extract(bad).await.expect_err("no use").tokens(), cost);
    }
    let message = json!([{"message": {"content": "no JSON"}}]);
    let error = extract(reply(OK, json!({ "choices": message }))).await;
    let tokens = error.expect_err("garbage").tokens();
    assert!((20..200).contains(&tokens), "an estimate: {tokens}");
}

#[tokio::test]
async fn what_a_memory_cannot_hold_makes_the_whole_answer_garbage() {
    let fact = |content: &str| json!({ "content": content });
    for bad in [
        json!([fact("a\0b")]),
        json!([fact(&"x".repeat(MAX_CONTENT_BYTES + 1))]),
        json!([{"content": "a", "kind": "rumour"}]),
        json!([{"content": 7}]),
        json!([{"kind": "fact"}]),
        json!({}),
    ] {
        assert_garbage(facts(bad).await);
    }
}

#[tokio::test]
async fn an_answer_of_another_shape_is_garbage_and_never_quoted() {
    let no_message = json!({"choices": [{"message": {"content": null, "refusal": "vault"}}]});
    for bad in [
        wrote("The facts are: vault"),
        wrote("```json\n{\"facts\": [\"vault\"]}\n```"),
        wrote("{\"facts\": []} vault"),
        wrote("{\"facts\": [{\"content\": \"vault"),
        wrote("[]"),
        wrote(""),
        reply(OK, "<html>vault</html>"),
        reply(OK, "{}"),
        reply(OK, json!({"choices": []})),
        reply(OK, no_message),
        Reply::Flood,
    ] {
        let error = extract(bad).await.expect_err("garbage");
        assert_eq!(error.reason(), "llm_garbage");
        assert!(!format!("{error}{error:?}").contains("vault"), "{error}");
    }
}

#[tokio::test]
async fn verdicts_come_in_the_order_of_the_candidates_and_exactly_one_each() {
    let verdict = |id: usize, supported: bool| json!({"id": id, "supported": supported});
    let all = json!([verdict(2, true), verdict(0, true), verdict(1, false)]);
    let server = Server::start(vec![wrote(json!({ "verdicts": all }))]).await;
    let answer = model(&server).verify(TEXT, &candidates(3)).await;
    assert_eq!(answer.expect("verdicts").value, [true, false, true]);
    let sent = data(&server);
    assert_eq!(
        (&sent["task"], &sent["text"]),
        (&json!("verify"), &json!(TEXT))
    );
    assert_eq!(
        sent["candidates"],
        json!([
            {"id": 0, "content": "candidate 0", "eventTime": "2026-03-01T12:00:00Z"},
            {"id": 1, "content": "candidate 1"},
            {"id": 2, "content": "candidate 2"},
        ])
    );
    for bad in [
        json!([verdict(0, true), verdict(1, true)]),
        json!([verdict(0, true), verdict(1, true), verdict(1, true)]),
        json!([
            verdict(0, true),
            verdict(1, true),
            verdict(2, true),
            verdict(3, true)
        ]),
        json!([verdict(1, true), verdict(2, true), verdict(3, true)]),
        json!([verdict(0, true), verdict(1, true), {"id": 2, "supported": "true"}]),
        json!([verdict(0, true), verdict(1, true), {"id": -1, "supported": true}]),
        json!([]),
    ] {
        let server = Server::start(vec![wrote(json!({ "verdicts": bad }))]).await;
        assert_garbage(model(&server).verify(TEXT, &candidates(3)).await);
    }
}

#[tokio::test]
async fn tokens_are_estimated_and_the_model_is_the_configured_one_when_the_service_says_neither() {
    for (usage, model) in [
        (Value::Null, Value::Null),
        (json!({"total_tokens": -1}), json!("two words")),
        (json!({"total_tokens": u64::MAX}), json!("x".repeat(129))),
    ] {
        let message = json!([{"message": {"content": "{\"facts\": []}"}}]);
        let body = json!({"choices": message, "usage": usage, "model": model});
        let answer = extract(reply(OK, body)).await.expect("an answer");
        assert!((20..200).contains(&answer.tokens), "{}", answer.tokens);
        assert_eq!(answer.model, "m");
    }
}
