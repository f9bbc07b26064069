//! N5: whichever verb takes a name, what others have and what nobody has are one answer and
//! one figure; only the audit log tells them apart.

use halofy_tests::{Answer, Caller, Kernel, Role};
use serde_json::{Value, json};
use ulid::Ulid;

use crate::audit::rows_of;

/// What of another tenant can be named.
struct Theirs {
    memory: String,
    dispute: String,
    ticket: String,
}

async fn theirs(kernel: &Kernel) -> Theirs {
    let bob = kernel.key("bob", "user:bob", Role::Owner).await;
    let deferred = json!({ "content": "The reeve mends the weir.", "async": true });
    let ticket = bob.call("write", deferred).await.expect_status(200);
    let mut told = Vec::new();
    for (source, content) in [("document", "Rated Baa2."), ("conversation", "Rated Baa1.")] {
        let provenance = json!({ "source": source });
        let body = json!({ "content": content, "slot": "rating", "provenance": provenance });
        told.push(bob.call("write", body).await.expect_status(200));
    }
    let disputes = bob.call("disputes", json!({})).await.expect_status(200);
    let text = |value: &Value| value.as_str().expect("a name").to_owned();
    Theirs {
        memory: told[0].id().to_owned(),
        dispute: text(&disputes.body["disputes"][0]["id"]),
        ticket: text(&ticket.body["ticket"]),
    }
}

/// Each verb that takes a name, with the one given.
fn calls(memory: &str, dispute: &str, ticket: &str) -> [(&'static str, Value); 7] {
    [
        ("read", json!({ "id": memory })),
        (
            "read",
            json!({ "id": memory, "asOf": "2026-03-01T00:00:00Z" }),
        ),
        ("history", json!({ "id": memory })),
        ("forget", json!({ "id": memory })),
        (
            "write",
            json!({ "content": "No.", "verbatim": true, "supersedes": memory }),
        ),
        ("resolve", json!({ "id": dispute, "verdict": "accept" })),
        ("ticket", json!({ "ticket": ticket })),
    ]
}

async fn outcomes(caller: &Caller) -> Value {
    let stats = caller.stats().await.expect_status(200);
    let mut outcomes = stats.body["audit"]["byOutcome"].clone();
    outcomes
        .as_object_mut()
        .expect("figures")
        .remove("stats ok");
    outcomes
}

/// As [`calls`], by a caller of its own.
async fn all(kernel: &Kernel, path: &str, named: [&str; 3]) -> (Vec<Answer>, Value) {
    let [memory, dispute, ticket] = named;
    let caller = kernel.key(path, "user:eve", Role::Owner).await;
    let mut answers = Vec::new();
    for (op, body) in calls(memory, dispute, ticket) {
        answers.push(caller.call(op, body).await.expect_problem(404, "not_found"));
    }
    (answers, outcomes(&caller).await)
}

#[tokio::test]
async fn n5_what_others_have_and_what_nobody_has_are_the_same_to_every_verb() {
    let kernel = Kernel::start().await;
    let bobs = theirs(&kernel).await;
    let rows = "select count(*) from memory_objects where t_valid_to is null";
    let before = kernel.sql_value(rows).await;
    let hidden = [&*bobs.memory, &*bobs.dispute, &*bobs.ticket];
    let (hidden, hidden_figures) = all(&kernel, "eve/a", hidden).await;
    let [memory, dispute, ticket] =
        ["", "cfl_", "job_"].map(|prefix| format!("{prefix}{}", Ulid::generate()));
    let (missing, missing_figures) = all(&kernel, "eve/b", [&memory, &dispute, &ticket]).await;
    assert_eq!(hidden_figures, missing_figures);
    for (one, other) in hidden.iter().zip(&missing) {
        assert_eq!(one.text, other.text);
    }
    assert_eq!(
        kernel.sql_value(rows).await,
        before,
        "nothing was erased or closed"
    );
    let audit = kernel.audit().await;
    for (path, why) in [("eve/a", "hidden"), ("eve/b", "missing")] {
        for (op, times) in [
            ("read", 2),
            ("history", 1),
            ("forget", 1),
            ("write", 1),
            ("resolve", 1),
            ("ticket", 1),
        ] {
            let rows = rows_of(&audit, op).into_iter();
            let rows = rows.filter(|row| row.columns.namespace == path);
            let details: Vec<_> = rows.filter_map(|row| row.columns.detail).collect();
            let detail = format!("reason=not_found why={why}");
            assert_eq!(details, vec![detail; times], "{op} in {path}");
        }
    }
}
