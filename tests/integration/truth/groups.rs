//! Readers where no call leads: arms that only a cartridge reaches, and keys made by the
//! command.

use std::sync::Arc;

use halofy_core::{Identity, KeyId};
use halofy_store::{Mention, Scope, Store, Validness};
use halofy_tests::{Data, Kernel, Role};
use serde_json::json;

use super::readers::{SECRET, restricted};
use super::{count, found_now, told};

fn scope_of(actor: &str, groups: &[&str]) -> Scope {
    Scope::of(&Identity {
        key: KeyId("key".to_owned()),
        namespace: "acme".parse().expect("a namespace"),
        actor: actor.parse().expect("an actor"),
        role: Role::Agent,
        groups: groups.iter().map(ToString::to_string).collect(),
    })
}

#[tokio::test]
async fn the_entity_arm_and_the_newest_rows_keep_to_the_readers() {
    let kernel = Kernel::start().await;
    let lee = kernel
        .key_in_groups("acme", "user:lee", Role::Member, &["legal"])
        .await;
    told(&lee, SECRET, restricted()).await;
    let entity = "insert into entity_registry (id, namespace, canonical, created_at)
                  values ('e', 'acme', 'Zebra', now())";
    kernel.sql(entity).await;
    let now = time::OffsetDateTime::now_utc();
    let lanes = [
        Validness::Current,
        Validness::Ever,
        Validness::Then(now),
        Validness::At {
            valid: now,
            known: now,
        },
    ];
    for (scope, rows) in [
        (scope_of("user:lee", &["legal"]), 1),
        (scope_of("user:dana", &[]), 1),
        (scope_of("user:other", &[]), 0),
        (scope_of("legal", &["user:dana"]), 0),
        (Scope::anybody_in(&"acme".parse().expect("a namespace")), 0),
    ] {
        for lane in lanes {
            let scope = scope.clone();
            let (found, newest) = kernel
                .on_store(async move |store: Arc<Store>| {
                    let found: Result<Vec<Mention>, _> =
                        store.entity_facts(&scope, "zebra", true, 10, lane).await;
                    (found, store.candidates_newest(&scope, 10, lane).await)
                })
                .await;
            assert_eq!(found.expect("mentions").len(), rows, "{lane:?}");
            assert_eq!(newest.expect("rows").len(), rows, "{lane:?}");
        }
    }
}

#[tokio::test]
async fn a_reader_is_named_as_an_actor_is_or_refused_by_the_field() {
    let kernel = Kernel::start().await;
    let lee = kernel
        .key_in_groups("acme", "user:lee", Role::Member, &["legal"])
        .await;
    for (list, names) in [
        ("principals", json!([""])),
        ("principals", json!(["user:\u{0}"])),
        ("groups", json!([" "])),
        ("groups", json!(["x".repeat(257)])),
        ("groups", json!(vec!["g"; 65])),
    ] {
        let access = json!({ list: names });
        let body = json!({ "content": SECRET, "provenance": { "sourceAccess": access } });
        let refused = lee.call("write", body).await;
        refused.expect_invalid(&format!("provenance.sourceAccess.{list}"));
    }
    assert_eq!(count(&kernel, "memory_objects").await, 0);
}

#[tokio::test]
async fn a_key_made_by_the_command_belongs_to_its_groups_and_replays_as_it_saw() {
    let data = Data::fresh().await;
    let create = [
        "keys",
        "create",
        "--namespace",
        "acme",
        "--role",
        "member",
        "--json",
    ];
    let mut keys = Vec::new();
    for more in [
        &[
            "--actor", "user:kim", "--group", "press", "--group", "legal",
        ][..],
        &["--actor", "user:x"],
    ] {
        let args = [&create[..], more].concat();
        let made = crate::halofy()
            .on(&data)
            .run(&args)
            .await
            .expect_code(0)
            .json();
        keys.push(made["key"].as_str().expect("a key").to_owned());
    }
    let kernel = Kernel::with().on(&data).start().await;
    let [kim, x] = [0, 1].map(|at| kernel.caller(&keys[at], ""));
    told(&kim, SECRET, restricted()).await;
    told(&x, "Zebra is merging lanes.", json!({})).await;
    for (caller, hits) in [(&kim, 2), (&x, 1)] {
        assert_eq!(found_now(caller, "Zebra is merging").await.len(), hits);
        let seq = kernel.last_audit_of("search").await.seq;
        let replayed = kernel
            .on_gate(async move |gate| gate.replay(seq, None).await)
            .await;
        let replayed = replayed.expect("a replay");
        assert!(replayed.same, "{replayed:?}");
        assert_eq!(replayed.results.len(), hits);
    }
}
