//! Who sees whose rows: the cases N1, N2, N6 and N7 here, and those with more to
//! say in the files below. N5 is in `hidden.rs`.

mod arms;
mod claims;
mod hidden;
mod text;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use halofy_core::Namespace;
use halofy_gate::{AuditTail, Gate, Refusal};
use halofy_tests::{Caller, Kernel, Role};
use serde_json::json;

/// Names that look alike to a pattern, to a prefix, or to a person.
const LOOKALIKES: [&str; 8] = [
    "john_doe",
    "john-doe",
    "acme",
    "acme-corp",
    "a_b",
    "aXb",
    "a%",
    "a\\",
];

/// Lifts the rate limit of a tenant, for tests that call more than any caller would.
pub(crate) async fn unlimited(kernel: &Kernel, namespace: &str) {
    let rate = json!({ "rateLimit": { "perSecond": 100_000, "burst": 100_000 } });
    kernel.policy(namespace, rate).await;
}

pub(crate) fn namespace(path: &str) -> Namespace {
    path.parse().expect("a namespace")
}

#[tokio::test]
async fn n1_a_caller_finds_its_own_facts_and_none_of_its_lookalikes() {
    let kernel = Kernel::start().await;
    let mut callers = Vec::new();
    for (number, path) in LOOKALIKES.into_iter().enumerate() {
        let caller = kernel.key(path, "user:u", Role::Agent).await;
        let fact = format!("The secret word is swordfish number {number}.");
        caller.write(&fact).await.expect_status(200);
        callers.push((path, caller, fact));
    }
    for (path, caller, own) in &callers {
        for valid_only in [true, false] {
            let body = json!({ "query": "secret swordfish", "k": 100, "validOnly": valid_only });
            let found = caller.call("search", body).await.expect_status(200);
            assert_eq!(found.contents(), [own], "as {path}");
            assert_eq!(found.of_results("namespace"), [*path]);
        }
        let child = kernel
            .key(&format!("{path}/child"), "user:c", Role::Agent)
            .await;
        let found = child.search("secret swordfish").await.expect_status(200);
        assert_eq!(found.contents(), [own], "as the child of {path}");
        let stats = caller.stats().await.expect_status(200);
        assert_eq!(stats.body["memories"]["current"], 1, "as {path}");
    }
}

#[tokio::test]
async fn n1_a_row_of_a_lookalike_cannot_be_read_by_its_id() {
    let kernel = Kernel::start().await;
    let owner = kernel.key("a_b", "user:owner", Role::Agent).await;
    let id = owner.write("The vault code is 7301.").await.id().to_owned();
    for path in ["aXb", "a%", "a", "a_", "a_bc", "a_b-c", "b"] {
        let other = kernel.key(path, "user:other", Role::Owner).await;
        other.read(&id).await.expect_problem(404, "not_found");
    }
    let child = kernel.key("a_b/c", "user:child", Role::Agent).await;
    child.read(&id).await.expect_status(200);
}

#[tokio::test]
async fn n1_a_subtree_is_the_namespace_and_what_lies_below_it() {
    let kernel = Kernel::start().await;
    for path in LOOKALIKES {
        kernel.key(path, "user:u", Role::Agent).await;
        kernel
            .key(&format!("{path}/c"), "user:u", Role::Agent)
            .await;
    }
    for path in LOOKALIKES {
        let subtree = BTreeSet::from([path.to_owned(), format!("{path}/c")]);
        let under = namespace(path);
        let list = async move |gate: Arc<Gate>| gate.key_list(Some(&under)).await;
        let keys = kernel.on_gate(list).await.expect("keys");
        let found: Vec<String> = keys.into_iter().map(|key| key.namespace).collect();
        assert_eq!(found.len(), 2, "under {path}: {found:?}");
        assert_eq!(BTreeSet::from_iter(found), subtree);

        let tail = AuditTail {
            limit: 100,
            under: Some(namespace(path)),
        };
        let rows = kernel
            .on_gate(async move |gate| gate.audit_tail(&tail).await)
            .await;
        let rows = rows.expect("rows");
        let found: Vec<String> = rows.into_iter().map(|row| row.columns.namespace).collect();
        assert_eq!(found.len(), 2, "under {path}: {found:?}");
        assert_eq!(BTreeSet::from_iter(found), subtree);
    }
}

#[tokio::test]
async fn n1_suspending_a_namespace_stops_it_and_its_children_and_no_lookalike() {
    let kernel = Kernel::start().await;
    kernel.policy("a_b", json!({ "suspended": true })).await;
    for (path, status) in [
        ("a_b", 403),
        ("a_b/c", 403),
        ("aXb", 200),
        ("a_bc", 200),
        ("a", 200),
    ] {
        let caller = kernel.key(path, "user:u", Role::Agent).await;
        assert_eq!(caller.stats().await.status, status, "{path}");
    }
}

#[tokio::test]
async fn n2_two_ways_to_cut_the_same_letters_stay_two_things() {
    let kernel = Kernel::start().await;
    let text = "The launch is on the second of May.";
    let mut written = Vec::new();
    for path in ["a/b_c", "a_b/c", "a_b_c", "a/b/c"] {
        let caller = kernel.key(path, "user:u", Role::Agent).await;
        let answer = caller.write(text).await.expect_status(200);
        assert_eq!(answer.body["deduplicated"], json!([]), "{path}");
        written.push((caller, answer.id().to_owned()));
    }
    for (caller, own) in &written {
        assert_eq!(caller.search("when is the launch").await.ids(), [own]);
        for (_, id) in written.iter().filter(|(_, id)| id != own) {
            caller.read(id).await.expect_problem(404, "not_found");
        }
    }
    kernel
        .sql(
            "insert into entity_registry (id, namespace, canonical, created_at)
             values ('e1', 'a', 'b_c', now()), ('e2', 'a_b', 'c', now())",
        )
        .await;
    assert_eq!(
        kernel
            .sql_value("select count(*) from entity_registry")
            .await,
        "2"
    );
}

#[tokio::test]
async fn n2_a_value_that_spells_a_parameter_is_only_a_value() {
    let kernel = Kernel::start().await;
    let actor = "user:x&user_id=u1;namespace=acme";
    let caller = kernel
        .key("tenant&namespace=acme", actor, Role::Agent)
        .await;
    let victim = kernel.key("acme", "user:u1", Role::Agent).await;
    let text = "Reports go to finance&user_id=u1&namespace=acme every Friday.";
    let id = caller.write(text).await.expect_status(200).id().to_owned();
    let row = kernel.last_audit().await.columns;
    assert_eq!(
        (row.namespace.as_str(), row.actor.as_str()),
        ("tenant&namespace=acme", actor)
    );
    assert_eq!(caller.read(&id).await.body["content"], text);
    assert!(victim.search("reports to finance").await.ids().is_empty());
}

/// Searches `times`, eight at a time, and gives the contents of every answer.
async fn search_often(caller: &Caller, times: usize) -> BTreeSet<Vec<String>> {
    let answers = stream::iter(0..times).map(async |at| {
        let query = format!("who holds the key number {}", at % 7);
        let answer = caller.search(&query).await.expect_status(200);
        answer
            .contents()
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    });
    answers.buffer_unordered(8).collect().await
}

#[tokio::test]
async fn n6_two_callers_at_once_never_see_a_row_of_each_other() {
    let kernel = Kernel::start().await;
    let mut callers = Vec::new();
    for path in ["red", "blue"] {
        unlimited(&kernel, path).await;
        let caller = kernel.key(path, "user:u", Role::Agent).await;
        caller
            .write(&format!("The {path} guard holds the key."))
            .await
            .expect_status(200);
        callers.push(caller);
    }
    let (red, blue) = tokio::join!(
        search_often(&callers[0], 1_000),
        search_often(&callers[1], 1_000)
    );
    assert_eq!(
        red,
        BTreeSet::from([vec!["The red guard holds the key.".to_owned()]])
    );
    assert_eq!(
        blue,
        BTreeSet::from([vec!["The blue guard holds the key.".to_owned()]])
    );
    for (caller, path) in callers.iter().zip(["red", "blue"]) {
        let own = format!(
            "select count(*) from audit_log where op = 'search' and key_id = '{}'
                and namespace = '{path}' and result = 'ok'",
            caller.key_id
        );
        assert_eq!(kernel.sql_value(own).await, "1000");
    }
    assert!(kernel.verify().await.ok);
}

/// The rows of every table but the audit log's two, which grow with every call.
async fn row_counts(kernel: &Kernel) -> Vec<(String, String)> {
    let tables = kernel
        .sql_values(
            "select table_name from information_schema.tables
              where table_schema = 'public' and table_name not like 'audit%' order by 1",
        )
        .await;
    let mut counts = Vec::new();
    for table in tables {
        let count = kernel
            .sql_value(format!("select count(*) from {table}"))
            .await;
        counts.push((table, count));
    }
    counts
}

#[tokio::test]
async fn n7_asking_after_an_unknown_namespace_creates_nothing() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Owner).await;
    let before = row_counts(&kernel).await;
    assert!(before.len() >= 5, "{before:?}");
    for path in ["nowhere", "acme/below", "acm", "acme2"] {
        let view = kernel.policy_of(path).await;
        let missing = matches!(view, Err(Refusal::NotFound { hidden: false }));
        assert!(missing, "{path}: {view:?}");
    }
    let revoke = async |gate: Arc<Gate>| gate.key_revoke("key_01ARZ3NDEKTSV4RRFFQ69G5FAV").await;
    let revoked = kernel.on_gate(revoke).await;
    assert!(
        matches!(revoked, Err(Refusal::NotFound { hidden: false })),
        "{revoked:?}"
    );
    let id = ulid::Ulid::generate().to_string();
    caller.read(&id).await.expect_problem(404, "not_found");
    assert_eq!(row_counts(&kernel).await, before);
    let row = kernel.last_audit().await.columns;
    assert_eq!((row.op.as_str(), row.result.as_str()), ("read", "miss"));
    assert_eq!(row.memory_id, Some(id));
}

#[tokio::test]
async fn n7_the_command_says_that_a_namespace_is_unknown_and_creates_nothing() {
    let kernel = Kernel::start().await;
    kernel.key("acme", "user:u", Role::Owner).await;
    let data = kernel.stop().await;
    let asked = crate::halofy()
        .on(&data)
        .run(&["policy", "get", "nowhere"])
        .await;
    let asked = asked.expect_code(1);
    assert!(asked.stderr.contains("Not found"), "{}", asked.stderr);
    let kernel = Kernel::with().on(&data).start().await;
    assert_eq!(kernel.sql_value("select count(*) from policies").await, "0");
    assert_eq!(kernel.sql_value("select count(*) from api_keys").await, "1");
}
