//! Who may read what came from a source: nobody else learns of it by any way, and those who
//! are named do, across the namespaces that they see. `groups` has the arms that no call
//! reaches, and keys.

use halofy_tests::{Caller, Kernel, Role};
use serde_json::{Value, json};

use super::{by_subject, disputes, found, found_at, found_now, history, kernel_with};
use super::{ids_in, moment, resolve, settled, tell, told};

pub(super) const SECRET: &str = "Zebra is merging with Acme.";
const NOBODYS: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// For the group legal, and for dana.
pub(super) fn restricted() -> Value {
    json!({ "provenance": { "sourceAccess": {
        "groups": ["legal"], "principals": ["user:dana"],
    } } })
}

/// The same, with more.
fn restricted_and(more: &Value) -> Value {
    let mut fields = restricted();
    let more = more.as_object().expect("an object").clone();
    fields.as_object_mut().expect("an object").extend(more);
    fields
}

/// Who is in `acme` and below it.
struct People {
    /// In the group; writes what is restricted.
    lee: Caller,
    /// Who may read it: lee, another of the group, dana, and their like in a child.
    readers: Vec<Caller>,
    /// Who may not: of the same namespace, of a child, and lookalikes of the readers.
    others: Vec<Caller>,
}

async fn people(kernel: &Kernel) -> People {
    let lee = kernel
        .key_in_groups("acme", "user:lee", Role::Member, &["legal"])
        .await;
    let readers = vec![
        lee.clone(),
        kernel
            .key_in_groups("acme", "user:kim", Role::Agent, &["press", "legal"])
            .await,
        kernel.key("acme", "user:dana", Role::Agent).await,
        kernel
            .key_in_groups("acme/eng", "user:kim", Role::Member, &["legal"])
            .await,
        kernel.key("acme/eng/web", "user:dana", Role::Member).await,
    ];
    let others = vec![
        kernel.key("acme", "user:other", Role::Member).await,
        kernel.key("acme", "user:owner", Role::Owner).await,
        kernel.key("acme", "legal", Role::Member).await,
        kernel
            .key_in_groups(
                "acme",
                "user:mal",
                Role::Member,
                &["user:dana", "lega", "legal2"],
            )
            .await,
        kernel.key("acme/eng", "user:other", Role::Member).await,
        kernel
            .key_in_groups("other", "user:dana", Role::Owner, &["legal"])
            .await,
    ];
    People {
        lee,
        readers,
        others,
    }
}

/// Everything by which a caller could learn of a memory; empty when it learns nothing.
async fn learned(caller: &Caller, id: &str, at: &str) -> Vec<String> {
    let mut learned = Vec::new();
    for more in [
        json!({}),
        json!({ "validOnly": false }),
        json!({ "asOf": at }),
    ] {
        let hits = found(caller, "Zebra is merging", more.clone()).await;
        learned.extend((!hits.is_empty()).then(|| format!("search {more}")));
    }
    let calls = [
        ("read", json!({ "id": id })),
        ("read", json!({ "id": id, "asOf": at })),
        ("history", json!({ "id": id })),
    ];
    for (op, body) in calls {
        let mut unknown = body.clone();
        unknown["id"] = json!(NOBODYS);
        let (answer, missing) = (
            caller.call(op, body.clone()).await,
            caller.call(op, unknown).await,
        );
        missing.clone().expect_problem(404, "not_found");
        learned.extend((answer.text != missing.text).then(|| format!("{op} {body}")));
    }
    let stats = caller.stats().await.expect_status(200).body["memories"].clone();
    let none = json!({ "current": 0, "superseded": 0, "disputed": 0 });
    learned.extend((stats != none).then(|| format!("stats {stats}")));
    learned
}

#[tokio::test]
async fn what_names_its_readers_is_seen_by_them_and_by_nobody_else() {
    let kernel = Kernel::start().await;
    let people = people(&kernel).await;
    let id = told(&people.lee, SECRET, restricted()).await;
    let at = moment(&kernel).await;
    for (number, reader) in people.readers.iter().enumerate() {
        assert_eq!(learned(reader, &id, &at).await.len(), 7, "reader {number}");
        assert_eq!(found_now(reader, "Zebra is merging").await, [SECRET]);
        let memory = reader.read(&id).await.expect_status(200).body;
        let access = &memory["provenance"]["sourceAccess"];
        assert_eq!(*access, restricted()["provenance"]["sourceAccess"]);
    }
    for (number, other) in people.others.iter().enumerate() {
        assert_eq!(learned(other, &id, &at).await, [""; 0], "other {number}");
    }
    assert!(kernel.verify().await.ok);
}

#[tokio::test]
async fn a_child_keeps_from_its_parent_what_it_keeps_from_others() {
    let kernel = Kernel::start().await;
    let people = people(&kernel).await;
    let child = &people.readers[3];
    let id = told(child, SECRET, restricted()).await;
    let at = moment(&kernel).await;
    assert_eq!(found_now(child, "Zebra is merging").await, [SECRET]);
    assert_eq!(
        found_now(&people.readers[4], "Zebra is merging").await,
        [SECRET]
    );
    // A group of the parent reads down no more than anybody else does.
    for above in [&people.lee, &people.readers[2]]
        .into_iter()
        .chain(&people.others)
    {
        assert_eq!(learned(above, &id, &at).await, [""; 0]);
    }
}

#[tokio::test]
async fn who_writes_the_same_learns_nothing_of_what_others_may_read() {
    let kernel = Kernel::start().await;
    let people = people(&kernel).await;
    let slot = json!({ "slot": "merger" });
    let plain = told(&people.lee, SECRET, restricted()).await;
    let placed = told(&people.lee, "Zebra is in talks.", restricted_and(&slot)).await;
    let other = &people.others[0];
    for fields in [json!({}), restricted()] {
        let answer = tell(other, SECRET, fields.clone()).await;
        assert_eq!(answer.body["deduplicated"], json!([]), "{fields}");
        assert_eq!(ids_in(&answer.body["stored"]).len(), 1, "{fields}");
        // One's own is known.
        let again = tell(other, SECRET, fields.clone()).await;
        assert_eq!(again.body["deduplicated"], json!([answer.id()]), "{fields}");
    }
    for fields in [slot.clone(), restricted_and(&slot)] {
        for text in ["Zebra is in talks.", "Zebra is not in talks."] {
            let answer = tell(other, text, fields.clone()).await;
            let told = ids_in(&answer.body["superseded"]);
            assert!(!told.contains(&placed), "{fields}: {}", answer.text);
            assert_eq!(
                answer.body["deduplicated"],
                json!([]),
                "{fields}: {}",
                answer.text
            );
        }
    }
    let naming = |id: &str| json!({ "content": "Zebra is off.", "supersedes": id });
    let hidden = other
        .call("write", naming(&placed))
        .await
        .expect_problem(404, "not_found");
    let missing = other
        .call("write", naming(NOBODYS))
        .await
        .expect_status(404);
    assert_eq!(hidden.text, missing.text);
    for id in [plain, placed] {
        let memory = people.lee.read(&id).await.expect_status(200).body;
        assert_eq!(
            (&memory["validTo"], &memory["status"]),
            (&json!(null), &json!("active"))
        );
        assert_eq!(memory["telemetry"]["accessCount"], 0);
    }
    // For the readers themselves a text is one fact, whoever of them tells it.
    let again = tell(&people.readers[1], SECRET, restricted_of_agent()).await;
    assert_eq!(ids_in(&again.body["deduplicated"]).len(), 1);
}

/// As [`restricted`]; the order of names does not matter.
fn restricted_of_agent() -> Value {
    json!({ "provenance": { "sourceAccess": {
        "principals": ["user:dana", "user:dana"], "groups": ["legal"],
    } } })
}

#[tokio::test]
async fn what_is_for_some_is_settled_among_what_is_for_the_same() {
    let model = by_subject();
    let kernel = kernel_with(&model).await;
    let people = people(&kernel).await;
    let owner = &people.others[1];
    told(owner, "Zebra is free.", json!({})).await;
    settled(&kernel).await;
    told(&people.lee, "Zebra is sold.", restricted()).await;
    settled(&kernel).await;
    assert_eq!(
        found_now(&people.lee, "Zebra").await,
        ["Zebra is free.", "Zebra is sold."]
    );
    told(&people.lee, "Zebra is merging.", restricted()).await;
    settled(&kernel).await;
    assert_eq!(
        found_now(&people.lee, "Zebra").await,
        ["Zebra is free.", "Zebra is merging."]
    );
    assert_eq!(found_now(owner, "Zebra").await, ["Zebra is free."]);
    let decided = disputes(&people.lee, json!({ "all": true })).await;
    assert_eq!(decided.len(), 1);
    let id = decided[0]["id"].as_str().expect("an id");
    // It answers for the namespace, and may not read these.
    assert_eq!(disputes(owner, json!({ "all": true })).await.len(), 0);
    let hidden = resolve(owner, id, "undo")
        .await
        .expect_problem(404, "not_found");
    let missing = resolve(owner, &format!("cfl_{NOBODYS}"), "undo")
        .await
        .expect_status(404);
    assert_eq!(hidden.text, missing.text);
    let counsel = kernel
        .key_in_groups("acme", "user:gc", Role::Admin, &["legal"])
        .await;
    resolve(&counsel, id, "undo").await.expect_status(200);
    let both = ["Zebra is free.", "Zebra is merging.", "Zebra is sold."];
    assert_eq!(found_now(&people.lee, "Zebra").await, both);
    assert_eq!(
        found_now(owner, "Zebra").await,
        ["Zebra is free."],
        "also what is said again"
    );
}

#[tokio::test]
async fn the_chain_of_a_fact_shows_each_only_its_own_links() {
    let kernel = Kernel::start().await;
    let people = people(&kernel).await;
    let other = &people.others[0];
    let secret = told(&people.lee, SECRET, restricted()).await;
    // Published: for everybody from now on.
    let published = told(
        &people.lee,
        "Zebra is part of Acme.",
        json!({ "supersedes": secret }),
    )
    .await;
    assert_eq!(history(&people.lee, &published).await.len(), 2);
    let chain = history(other, &published).await;
    assert_eq!(chain.len(), 1);
    assert_eq!(chain[0]["content"], "Zebra is part of Acme.");
    let at = kernel.sql_value(format!(
        "select to_char(assertion_time at time zone 'utc', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')
           from memory_objects where id = '{secret}'"
    ));
    let at = at.await;
    assert_eq!(found_at(&people.lee, "Zebra", &at).await, [SECRET]);
    assert_eq!(found_at(other, "Zebra", &at).await, [""; 0]);
    let body = json!({ "id": published, "asOf": at });
    people
        .lee
        .call("read", body.clone())
        .await
        .expect_status(200);
    other
        .call("read", body)
        .await
        .expect_problem(404, "not_found");
    for id in [&secret, &published] {
        let answer = other.call("history", json!({ "id": id })).await;
        assert!(!answer.text.contains(&secret), "{}", answer.text);
        let answer = other.read(id).await;
        assert!(!answer.text.contains(&secret), "{}", answer.text);
    }
    let ever = found(other, "Zebra", json!({ "validOnly": false })).await;
    assert_eq!(ever, ["Zebra is part of Acme."]);
    assert_eq!(disputes(other, json!({ "all": true })).await.len(), 0);
}

#[tokio::test]
async fn a_list_of_readers_that_names_nobody_is_refused() {
    let kernel = Kernel::start().await;
    let lee = kernel.key("acme", "user:lee", Role::Member).await;
    for access in [json!({}), json!({ "principals": [], "groups": [] })] {
        let provenance = json!({ "sourceAccess": access });
        let body = json!({ "content": SECRET, "provenance": provenance });
        let refused = lee.call("write", body).await;
        refused.expect_invalid("provenance.sourceAccess");
    }
    let rows = "select count(*) from memory_objects";
    assert_eq!(kernel.sql_value(rows).await, "0");
}
