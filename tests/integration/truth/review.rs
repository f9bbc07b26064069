//! What a namespace's policy makes of contradictions, and who may decide them.

use halofy_tests::{Caller, Kernel, Role, ScriptedModel};
use serde_json::json;

use super::{admin, by_subject, count, disputes, each, found_at, found_now, history};
use super::{kernel_with, member, moment, resolve, settled, tell, told};

const OLD: &str = "Rome is old.";
const NEW: &str = "Rome is new.";

/// A contradiction that waits for somebody, in a namespace that wants that.
async fn under_review(model: &ScriptedModel) -> (Kernel, Caller, [String; 2], String) {
    let kernel = kernel_with(model).await;
    kernel
        .policy("acme", json!({ "conflictReview": "review" }))
        .await;
    let admin = admin(&kernel, "acme").await;
    let old = told(&admin, OLD, super::from_source("conversation")).await;
    let new = told(&admin, NEW, super::from_source("manual")).await;
    settled(&kernel).await;
    let open = disputes(&admin, json!({})).await;
    assert_eq!(each(&open, "decision"), ["review"]);
    let id = open[0]["id"].as_str().expect("an id").to_owned();
    (kernel, admin, [old, new], id)
}

#[tokio::test]
async fn under_review_nothing_is_closed_until_somebody_decides() {
    let model = by_subject();
    let (kernel, admin, ids, id) = under_review(&model).await;
    assert_eq!(found_now(&admin, "Rome").await, [NEW, OLD]);
    let open = "memory_objects where t_valid_to is null and status = 'active'";
    assert_eq!(count(&kernel, open).await, 2);
    for one in &ids {
        assert_eq!(history(&admin, one).await.len(), 1);
    }
    let refused = resolve(&admin, &id, "undo").await;
    refused.expect_invalid("verdict");
    let listed = disputes(&admin, json!({})).await;
    assert_eq!(each(&listed, "state"), ["open"]);
}

#[tokio::test]
async fn a_review_ends_as_somebody_decides() {
    for (verdict, now, links) in [
        ("accept", vec![NEW], 2),
        ("reject", vec![OLD], 1),
        ("both", vec![NEW, OLD], 1),
    ] {
        let model = by_subject();
        let (kernel, admin, [old, _], id) = under_review(&model).await;
        let before = moment(&kernel).await;
        resolve(&admin, &id, verdict).await.expect_status(200);
        assert_eq!(found_now(&admin, "Rome").await, now, "{verdict}");
        assert_eq!(
            found_at(&admin, "Rome", &before).await,
            [NEW, OLD],
            "{verdict}"
        );
        assert_eq!(disputes(&admin, json!({})).await.len(), 0);
        let chain = history(&admin, &old).await;
        assert_eq!(chain.len(), links, "{verdict}");
        resolve(&admin, &id, verdict).await.expect_invalid("id");
        assert!(kernel.verify().await.ok);
    }
}

#[tokio::test]
async fn a_review_whose_incumbent_ended_meanwhile_can_still_be_decided() {
    for (verdict, now) in [
        ("accept", vec!["Rome is eternal.", NEW]),
        ("reject", vec!["Rome is eternal."]),
        ("both", vec!["Rome is eternal.", NEW]),
    ] {
        let model = by_subject();
        let (kernel, admin, [old, _], id) = under_review(&model).await;
        kernel
            .policy("acme", json!({ "conflictReview": "off" }))
            .await;
        tell(&admin, "Rome is eternal.", json!({ "supersedes": old })).await;
        resolve(&admin, &id, verdict).await.expect_status(200);
        assert_eq!(found_now(&admin, "Rome").await, now, "{verdict}");
    }
}

#[tokio::test]
async fn a_namespace_that_looks_for_none_has_no_jobs_and_no_decisions() {
    let model = by_subject();
    let kernel = kernel_with(&model).await;
    kernel
        .policy("acme", json!({ "conflictReview": "off" }))
        .await;
    for path in ["acme", "acme/eng"] {
        let caller = member(&kernel, path).await;
        for fact in [OLD, NEW] {
            told(&caller, fact, json!({})).await;
        }
    }
    assert_eq!(count(&kernel, "jobs").await, 0);
    assert_eq!(count(&kernel, "conflicts").await, 0);
    assert_eq!(model.requests().len(), 0);
    let open = "memory_objects where t_valid_to is null and status = 'active'";
    assert_eq!(count(&kernel, open).await, 4);
}

#[tokio::test]
async fn a_policy_that_changes_while_a_check_waits_is_the_one_that_counts() {
    let model = by_subject();
    let (kernel, admin, ..) = under_review(&model).await;
    kernel
        .policy("acme", json!({ "conflictReview": "auto" }))
        .await;
    told(&admin, "Rome is eternal.", super::from_source("manual")).await;
    settled(&kernel).await;
    // What waits for somebody still waits; what came since was settled.
    assert_eq!(found_now(&admin, "Rome").await, ["Rome is eternal."]);
    let all = disputes(&admin, json!({ "all": true })).await;
    assert_eq!(all.len(), 3);
    assert_eq!(
        each(&disputes(&admin, json!({})).await, "decision"),
        ["review"]
    );
}

#[tokio::test]
async fn only_who_answers_for_a_namespace_decides_in_it() {
    let model = by_subject();
    let (kernel, _, _, id) = under_review(&model).await;
    for role in [Role::Agent, Role::Member, Role::Auditor] {
        let caller = kernel.key("acme", "user:u", role).await;
        let refused = resolve(&caller, &id, "accept").await;
        refused.expect_problem(403, "role_forbids");
        let row = kernel.last_audit_of("resolve").await.columns;
        assert_eq!(row.result, "denied");
        assert_eq!(
            disputes(&caller, json!({})).await.len(),
            1,
            "{role} may look"
        );
    }
    let owner = kernel.key("acme", "user:o", Role::Owner).await;
    resolve(&owner, &id, "accept").await.expect_status(200);
}

#[tokio::test]
async fn a_dispute_of_somebody_else_is_as_none() {
    let model = by_subject();
    let (kernel, admin, _, id) = under_review(&model).await;
    let unknown = "cfl_01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let missing = resolve(&admin, unknown, "accept").await;
    let missing = missing.expect_problem(404, "not_found");
    for path in ["other", "acme/eng", "acm", "acme-corp"] {
        let stranger = kernel.key(path, "user:s", Role::Owner).await;
        assert_eq!(
            disputes(&stranger, json!({ "all": true })).await.len(),
            0,
            "{path}"
        );
        for verdict in ["accept", "reject", "both", "undo"] {
            let refused = resolve(&stranger, &id, verdict).await.expect_status(404);
            assert_eq!(refused.text, missing.text, "{path}");
        }
    }
    assert_eq!(disputes(&admin, json!({})).await.len(), 1);
    for bad in [
        "",
        "x",
        "cfl_",
        "cfl_x\u{0}",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        &id.to_lowercase(),
    ] {
        resolve(&admin, bad, "accept").await.expect_invalid("id");
    }
    resolve(&admin, &id, "maybe")
        .await
        .expect_invalid("verdict");
}

#[tokio::test]
async fn disputes_have_pages_and_those_of_one_memory_can_be_asked_for() {
    let kernel = Kernel::start().await;
    let member = kernel.key("acme", "user:m", Role::Member).await;
    let agent = kernel.key("acme", "user:a", Role::Agent).await;
    let mut facts = Vec::new();
    for fact in ["The kite is brown.", "The heron is grey."] {
        let body = json!({ "content": fact, "provenance": { "source": "manual" } });
        facts.push(
            member
                .call("write", body)
                .await
                .expect_status(200)
                .id()
                .to_owned(),
        );
    }
    for number in 0..7 {
        let claim = format!("Claim {number}.");
        let body = json!({ "content": claim, "supersedes": facts[usize::from(number == 3)] });
        let told = agent.call("write", body).await.expect_status(200);
        assert_eq!(told.body["disputed"].as_array().map(Vec::len), Some(1));
    }
    let (mut seen, mut after) = (Vec::new(), serde_json::Value::Null);
    loop {
        let body = json!({ "limit": 3, "after": after });
        let page = member.call("disputes", body).await.expect_status(200).body;
        let listed = page["disputes"].as_array().expect("a list").clone();
        after = listed.last().expect("none is empty")["id"].clone();
        seen.extend(listed.into_iter().map(|one| one["id"].clone()));
        if page["truncated"] == false {
            break;
        }
    }
    let all = disputes(&member, json!({})).await;
    let all: Vec<_> = all.iter().map(|one| one["id"].clone()).collect();
    assert_eq!((seen.len(), seen), (7, all));
    let about = disputes(&member, json!({ "memory": facts[1] })).await;
    assert_eq!(about.len(), 1);
    assert_eq!(about[0]["incoming"]["content"], "Claim 3.");
    let refused = member.call("disputes", json!({ "after": "x" })).await;
    refused.expect_invalid("after");
}
