//! A child's write never touches what its ancestors hold: it neither swallows, closes nor
//! disputes a row of theirs, and its own row is never swallowed by one.

use halofy_tests::{Caller, Kernel, Role};
use serde_json::json;

use super::{by_subject, count, disputes, found_now, history, kernel_with, member, settled};
use super::{tell, told};

const OLD: &str = "Rome is old.";
const NEW: &str = "Rome is new.";

async fn family(kernel: &Kernel) -> [Caller; 3] {
    let parent = member(kernel, "acme").await;
    let child = member(kernel, "acme/eng").await;
    let sibling = member(kernel, "acme/ops").await;
    [parent, child, sibling]
}

#[tokio::test]
async fn the_same_text_is_a_row_of_its_own_in_a_child() {
    let kernel = Kernel::start().await;
    let [parent, child, sibling] = family(&kernel).await;
    let above = told(&parent, OLD, json!({})).await;
    let mut ids = vec![above.clone()];
    for caller in [&child, &sibling] {
        let answer = tell(caller, OLD, json!({})).await;
        assert_eq!(answer.body["deduplicated"], json!([]));
        ids.push(answer.id().to_owned());
        assert_eq!(found_now(caller, "Rome").await, [OLD, OLD]);
    }
    ids.dedup();
    assert_eq!(ids.len(), 3);
    let memory = parent.read(&above).await.expect_status(200).body;
    assert_eq!(memory["telemetry"]["accessCount"], 0);
    assert_eq!(memory["validTo"], json!(null));
}

#[tokio::test]
async fn a_contradiction_between_a_child_and_its_parent_closes_neither() {
    let model = by_subject();
    let kernel = kernel_with(&model).await;
    let [parent, child, sibling] = family(&kernel).await;
    told(&parent, OLD, super::from_source("conversation")).await;
    settled(&kernel).await;
    for (caller, source) in [(&child, "manual"), (&sibling, "conversation")] {
        told(caller, NEW, super::from_source(source)).await;
        settled(&kernel).await;
        assert_eq!(found_now(caller, "Rome").await, [NEW, OLD]);
    }
    told(
        &parent,
        "Rome is eternal.",
        super::from_source("conversation"),
    )
    .await;
    settled(&kernel).await;
    // Within the parent it is settled, and the children keep theirs.
    assert_eq!(found_now(&parent, "Rome").await, ["Rome is eternal."]);
    assert_eq!(found_now(&child, "Rome").await, ["Rome is eternal.", NEW]);
    assert_eq!(disputes(&parent, json!({ "all": true })).await.len(), 1);
    for caller in [&child, &sibling] {
        assert_eq!(disputes(caller, json!({ "all": true })).await.len(), 0);
    }
}

#[tokio::test]
async fn a_child_cannot_replace_a_memory_of_its_parent() {
    let kernel = Kernel::start().await;
    let [parent, child, sibling] = family(&kernel).await;
    let above = told(&parent, OLD, json!({})).await;
    let beside = told(&sibling, OLD, json!({})).await;
    told(&child, "Rome is known.", json!({})).await;
    for content in [NEW, "Rome is known."] {
        let mut body = super::from_source("manual");
        body["content"] = json!(content);
        body["supersedes"] = json!(above);
        child
            .call("write", body.clone())
            .await
            .expect_invalid("supersedes");
        // A sibling's is as none at all.
        body["supersedes"] = json!(beside);
        let hidden = child
            .call("write", body.clone())
            .await
            .expect_problem(404, "not_found");
        assert_eq!(kernel.last_audit_of("write").await.columns.result, "denied");
        body["supersedes"] = json!("01ARZ3NDEKTSV4RRFFQ69G5FAV");
        let missing = child.call("write", body.clone()).await.expect_status(404);
        assert_eq!(hidden.text, missing.text);
        assert_eq!(kernel.last_audit_of("write").await.columns.result, "miss");
        body["supersedes"] = json!("x");
        child.call("write", body).await.expect_invalid("supersedes");
    }
    assert_eq!(history(&parent, &above).await.len(), 1);
    assert_eq!(
        count(&kernel, "memory_objects where t_valid_to is not null").await,
        0
    );
    assert_eq!(
        count(&kernel, "memory_objects").await,
        3,
        "nothing was stored"
    );
}

#[tokio::test]
async fn a_slot_is_of_one_namespace() {
    let kernel = Kernel::start().await;
    let [parent, child, sibling] = family(&kernel).await;
    let slot = json!({ "slot": "rome" });
    let above = told(&parent, OLD, slot.clone()).await;
    for caller in [&child, &sibling] {
        let answer = tell(caller, NEW, slot.clone()).await;
        assert_eq!(answer.body["superseded"], json!([]));
        let second = tell(caller, "Rome is eternal.", slot.clone()).await;
        assert_eq!(second.body["superseded"], json!([answer.id()]));
    }
    let memory = parent.read(&above).await.expect_status(200).body;
    assert_eq!(memory["validTo"], json!(null));
    assert_eq!(found_now(&parent, "Rome").await, [OLD]);
}

#[tokio::test]
async fn what_has_ended_for_good_cannot_be_replaced() {
    let model = by_subject();
    let kernel = kernel_with(&model).await;
    let owner = kernel.key("acme", "user:o", Role::Owner).await;
    told(&owner, OLD, super::from_source("manual")).await;
    settled(&kernel).await;
    let disputed = told(&owner, NEW, json!({})).await;
    settled(&kernel).await;
    let mut body = json!({ "content": "Rome is eternal.", "supersedes": disputed });
    owner
        .call("write", body.clone())
        .await
        .expect_invalid("supersedes");
    let open = disputes(&owner, json!({})).await;
    let id = open[0]["id"].as_str().expect("an id");
    super::resolve(&owner, id, "reject")
        .await
        .expect_status(200);
    owner
        .call("write", body.clone())
        .await
        .expect_invalid("supersedes");
    owner
        .call("forget", json!({ "id": disputed }))
        .await
        .expect_status(200);
    body["supersedes"] = json!(disputed);
    owner
        .call("write", body)
        .await
        .expect_problem(404, "not_found");
}
