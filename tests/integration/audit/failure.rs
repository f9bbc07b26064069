//! What cannot be recorded does not happen, and what is refused is recorded once.

use halofy_tests::{Answer, Caller, Kernel, Role};
use serde_json::json;

use super::{rows_of, settled};

/// Makes every insert into the log fail, as a full disk would.
const BREAK_THE_LOG: &str = "
    create function audit_fails() returns trigger language plpgsql as
        $$ begin raise exception 'the log is broken'; end $$;
    create trigger audit_fails before insert on audit_log
        for each statement execute function audit_fails()";
const MEND_THE_LOG: &str = "drop trigger audit_fails on audit_log";

#[tokio::test]
async fn a_denied_write_changes_nothing_and_is_recorded_once() {
    let kernel = Kernel::with().connections(1).start().await;
    let iris = kernel.key("acme", "user:iris", Role::Auditor).await;
    iris.write("An auditor was here.")
        .await
        .expect_problem(403, "role_forbids");
    assert_eq!(memories(&kernel).await, "0");
    let denials = rows_of(&kernel.audit().await, "write");
    assert_eq!(denials.len(), 1, "{denials:?}");
    let row = &denials[0].columns;
    assert_eq!(
        (row.result.as_str(), row.actor.as_str()),
        ("denied", "user:iris")
    );
    assert_eq!(
        row.detail.as_deref(),
        Some("reason=role_forbids role=auditor")
    );
    settled(&kernel).await;
}

#[tokio::test]
async fn fifty_denials_at_once_over_one_connection_are_fifty_rows() {
    let kernel = Kernel::with().connections(1).start().await;
    let iris = kernel.key("acme", "user:iris", Role::Auditor).await;
    let writes = (0..50).map(|_| iris.write("An auditor was here."));
    for answer in futures_util::future::join_all(writes).await {
        answer.expect_problem(403, "role_forbids");
    }
    assert_eq!(rows_of(&kernel.audit().await, "write").len(), 50);
    assert_eq!(memories(&kernel).await, "0");
    settled(&kernel).await;
}

#[tokio::test]
async fn a_call_whose_audit_row_cannot_be_stored_gets_no_answer_and_stores_nothing() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let known = dana.write("The office is in Bern.").await.id().to_owned();
    let rows = kernel.audit().await.len();

    kernel.sql(BREAK_THE_LOG).await;
    for (what, answer) in every_op(&dana, &known).await {
        assert_eq!(answer.status, 503, "{what}: {}", answer.text);
        assert_eq!(
            answer.body["code"], "unavailable",
            "{what}: {}",
            answer.text
        );
        assert!(answer.headers.contains_key("retry-after"), "{what}");
        assert!(
            !answer.text.contains("Bern"),
            "{what} lets content out: {}",
            answer.text
        );
        assert!(
            !answer.text.contains("broken"),
            "{what} lets the database speak: {}",
            answer.text
        );
    }
    assert_eq!(memories(&kernel).await, "1", "nothing was stored");
    assert_eq!(kernel.audit().await.len(), rows);

    kernel.sql(MEND_THE_LOG).await;
    for (what, answer) in every_op(&dana, &known).await {
        assert!(answer.status < 500, "{what}: {}", answer.text);
    }
    settled(&kernel).await;
}

#[tokio::test]
async fn an_operators_change_that_cannot_be_recorded_does_not_happen() {
    let kernel = Kernel::start().await;
    kernel.key("acme", "user:dana", Role::Agent).await;
    kernel.sql(BREAK_THE_LOG).await;
    let request = halofy_gate::NewKeyRequest {
        namespace: "acme".parse().expect("a namespace"),
        actor: "user:eve".parse().expect("an actor"),
        role: Role::Admin,
        expires_at: None,
        groups: Vec::new(),
    };
    let made = kernel
        .on_gate(async move |gate| gate.key_create(&request).await.map(drop))
        .await;
    assert!(made.is_err(), "a key without an audit row");
    let policy = halofy_core::Policy {
        suspended: Some(true),
        ..Default::default()
    };
    let acme = "acme".parse().expect("a namespace");
    let set = async move |gate: std::sync::Arc<halofy_gate::Gate>| {
        gate.policy_set(&acme, &policy, halofy_gate::PolicySet::default())
            .await
            .map(drop)
    };
    assert!(
        kernel.on_gate(set).await.is_err(),
        "a policy without an audit row"
    );
    assert_eq!(kernel.sql_value("select count(*) from api_keys").await, "1");
    assert_eq!(kernel.sql_value("select count(*) from policies").await, "0");
}

/// Each op, in a form that succeeds, that is refused, and that finds nothing.
async fn every_op(dana: &Caller, known: &str) -> Vec<(&'static str, Answer)> {
    vec![
        ("write", dana.write("The cafe is in Basel.").await),
        (
            "write of what is known",
            dana.write("The office is in Bern.").await,
        ),
        (
            "write that is refused",
            dana.call("write", json!({ "content": "" })).await,
        ),
        ("search", dana.search("where is the office?").await),
        (
            "search with history",
            dana.call("search", json!({ "query": "office", "validOnly": false }))
                .await,
        ),
        (
            "search that is refused",
            dana.call("search", json!({ "query": "x", "k": 0 })).await,
        ),
        ("read", dana.read(known).await),
        (
            "read of nothing",
            dana.read("01ARZ3NDEKTSV4RRFFQ69G5FAV").await,
        ),
        ("stats", dana.stats().await),
    ]
}

async fn memories(kernel: &Kernel) -> String {
    kernel
        .sql_value("select count(*) from memory_objects")
        .await
}
