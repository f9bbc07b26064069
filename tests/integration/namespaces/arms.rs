//! N4: no arm of retrieval forgets the scope. Arms that only a cartridge reaches are
//! asked of the store itself.

use std::sync::Arc;

use halofy_retrieval::hash_embed;
use halofy_store::{Candidate, Mention, Scope, Store, Validness};
use halofy_tests::{Caller, Kernel, Role};
use serde_json::json;

const DIMENSION: usize = 256;
/// Stands in every row of bob's, and asks for it in every query.
const CANARY: &str = "zanzibar";

/// A family of namespaces, each with a fact about the canary.
struct Family {
    kernel: Kernel,
    alice: Caller,
}

async fn family() -> Family {
    let kernel = Kernel::start().await;
    let mut alice = None;
    for path in [
        "acme",
        "acme/alice",
        "acme/alice/kid",
        "acme/bob",
        "acme/alic",
        "other",
    ] {
        let caller = kernel.key(path, "user:u", Role::Agent).await;
        let fact = format!("Zebulon sails to {CANARY} with the crew of {path}.");
        caller.write(&fact).await.expect_status(200);
        if path == "acme/alice" {
            alice = Some(caller);
        }
    }
    plant_for_bob(&kernel).await;
    let alice = alice.expect("alice's key");
    Family { kernel, alice }
}

/// What no syscall writes: a superseded fact, an entity and a concept of bob's.
async fn plant_for_bob(kernel: &Kernel) {
    let vector = vector_literal(CANARY);
    let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    kernel
        .sql(format!(
            "insert into memory_objects (id, namespace, actor, kind, content, content_key, lexemes,
                    assertion_time, t_valid_from, t_valid_to, closed_at,
                    classification, embedding)
             values ('{id}', 'acme/bob', 'user:bob', 'fact', 'Old {CANARY} of bob.',
                    sha256('old'), array_to_tsvector(array['{CANARY}']),
                    now() - interval '2 days', now() - interval '2 days', now(), now(),
                    '{{\"sensitivity\":\"internal\"}}', '{vector}');
             insert into entity_registry (id, namespace, canonical, aliases, created_at)
             values ('e-bob', 'acme/bob', 'Zebulon', array['{CANARY}'], now());
             insert into concepts (id, namespace, path, title, summary, updated_at, embedding)
             values ('c-bob', 'acme/bob', 'bob.md', 'Bob', '{CANARY} of bob', now(), '{vector}'),
                    ('c-acme', 'acme', 'acme.md', 'Acme', '{CANARY} of acme', now(), '{vector}')"
        ))
        .await;
}

fn vector_literal(text: &str) -> String {
    let numbers = hash_embed(text, DIMENSION);
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    format!("[{}]", numbers.join(","))
}

fn alice_scope() -> Scope {
    Scope::anybody_in(&super::namespace("acme/alice"))
}

/// Whose rows these are, sorted.
fn owners<'a>(namespaces: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut owners: Vec<&str> = namespaces.into_iter().collect();
    owners.sort_unstable();
    owners
}

fn owners_of(found: &[Candidate]) -> Vec<&str> {
    owners(found.iter().map(|row| &*row.namespace))
}

#[tokio::test]
async fn n4_search_shows_the_callers_own_and_its_parents_rows_in_both_lanes() {
    let Family {
        kernel: _runs,
        alice,
    } = family().await;
    for query in [
        CANARY,
        "Zebulon sails",
        "the crew of acme/bob",
        "Old zanzibar of bob.",
    ] {
        for valid_only in [true, false] {
            let body = json!({ "query": query, "k": 100, "validOnly": valid_only });
            let found = alice.call("search", body).await.expect_status(200);
            let seen = owners(found.of_results("namespace"));
            let fits = seen
                .iter()
                .all(|owner| ["acme", "acme/alice"].contains(owner));
            assert!(fits, "{query}, validOnly {valid_only}: {}", found.text);
        }
    }
    let body = json!({ "query": CANARY, "k": 100, "validOnly": false });
    let found = alice.call("search", body).await;
    assert_eq!(
        owners(found.of_results("namespace")),
        ["acme", "acme/alice"]
    );
    let stats = alice.stats().await.expect_status(200);
    assert_eq!(
        stats.body["memories"],
        json!({ "current": 2, "superseded": 0, "disputed": 0 })
    );
}

#[tokio::test]
async fn n4_the_lexical_and_the_newest_arm_keep_to_the_scope() {
    let Family { kernel, .. } = family().await;
    let work = async |store: Arc<Store>| {
        let caller = alice_scope();
        let current = store
            .candidates_lexical(&caller, CANARY, 100, Validness::Current)
            .await;
        let ever = store
            .candidates_lexical(&caller, CANARY, 100, Validness::Ever)
            .await;
        let newest = store
            .candidates_newest(&alice_scope(), 100, Validness::Current)
            .await;
        [current, ever, newest]
    };
    for arm in kernel.on_store(work).await {
        assert_eq!(owners_of(&arm.expect("rows")), ["acme", "acme/alice"]);
    }
}

#[tokio::test]
async fn n4_the_vector_and_the_concept_arm_keep_to_the_scope() {
    let Family { kernel, .. } = family().await;
    let work = async |store: Arc<Store>| {
        let caller = alice_scope();
        let vector = hash_embed(CANARY, DIMENSION);
        let current = store
            .candidates_nearest(&caller, &vector, 100, Validness::Current)
            .await;
        let ever = store
            .candidates_nearest(&caller, &vector, 100, Validness::Ever)
            .await;
        let concepts = store.concepts_nearest(&alice_scope(), &vector, 100).await;
        (current, ever, concepts)
    };
    let (current, ever, concepts) = kernel.on_store(work).await;
    assert_eq!(owners_of(&current.expect("rows")), ["acme", "acme/alice"]);
    assert_eq!(owners_of(&ever.expect("rows")), ["acme", "acme/alice"]);
    assert_eq!(owners_of(&concepts.expect("concepts")), ["acme"]);
}

async fn mentions(kernel: &Kernel, mention: &'static str, second_hop: bool) -> Vec<Mention> {
    let work = async move |store: Arc<Store>| {
        store
            .entity_facts(&alice_scope(), mention, second_hop, 100, Validness::Current)
            .await
    };
    kernel.on_store(work).await.expect("mentions")
}

#[tokio::test]
async fn n4_the_entity_arm_keeps_to_the_scope_in_registry_and_rows() {
    let Family { kernel, .. } = family().await;
    for second_hop in [false, true] {
        let found = mentions(&kernel, "zebulon", second_hop).await;
        assert!(
            found.is_empty(),
            "the registry of bob is not alice's: {found:?}"
        );
    }
    kernel
        .sql(
            "insert into entity_registry (id, namespace, canonical, created_at)
             values ('e-acme', 'acme', 'Zebulon', now()), ('e-crew', 'acme', 'crew', now())",
        )
        .await;
    for second_hop in [false, true] {
        let found = mentions(&kernel, "ZEBULON", second_hop).await;
        let whose = owners(found.iter().map(|mention| &*mention.candidate.namespace));
        assert_eq!(whose, ["acme", "acme/alice"]);
    }
    let by_alias = mentions(&kernel, CANARY, true).await;
    assert!(
        by_alias.is_empty(),
        "an alias that only bob gave: {by_alias:?}"
    );
}

#[tokio::test]
async fn n4_asking_which_ids_are_current_tells_nothing_of_others() {
    let Family { kernel, .. } = family().await;
    let ids = kernel.sql_values("select id from memory_objects").await;
    assert_eq!(ids.len(), 7);
    let work = async move |store: Arc<Store>| store.memories_current(&alice_scope(), &ids).await;
    assert_eq!(kernel.on_store(work).await.expect("ids").len(), 2);
}
