//! N4 and R7 through every reference cartridge: no arm forgets the scope, whoever ranks, and
//! equal scores keep their order.

use halofy_gate::Push;
use halofy_tests::{Kernel, Role};
use serde_json::json;

use crate::languages::components;

/// Baseline, and the keyword engine in each language whose tool is here.
async fn with_every_engine() -> (Kernel, Vec<&'static str>) {
    let kernel = Kernel::with().lenient().start().await;
    let mut names = vec!["baseline"];
    for (name, component) in components().await {
        let push = Push {
            component: component.clone(),
            mount: true,
            allow_unsigned: true,
            ..Push::default()
        };
        kernel.push(push).await.expect("it is mounted");
        names.push(name);
    }
    (kernel, names)
}

#[tokio::test]
async fn no_engine_shows_a_row_of_a_sibling_and_none_changes_the_order_of_equals() {
    let (kernel, engines) = with_every_engine().await;
    let alice = kernel.key("acme/alice", "user:alice", Role::Agent).await;
    let bob = kernel.key("acme/bob", "user:bob", Role::Agent).await;
    let owner = kernel.key("acme", "user:owner", Role::Agent).await;
    for at in 0..20 {
        let secret = format!("The vault code of bob is {at}.");
        bob.write(&secret).await.expect_status(200);
    }
    owner
        .write("Every vault is in Bern.")
        .await
        .expect_status(200);
    // Equal words, equal vectors: only the order of admission can part them.
    for sign in ["!", "?", ".", "!!", "??"] {
        let twin = format!("Alice keeps the vault key{sign}");
        alice.write(&twin).await.expect_status(200);
    }
    for engine in engines {
        let policy = json!({ "retriever": engine, "allowUnsigned": true });
        kernel.policy("acme", policy).await;
        let first = alice.search("vault code of bob").await.expect_status(200);
        assert_eq!(first.body["driver"], engine);
        assert_eq!(first.body.get("driverFallback"), None, "{engine}");
        let found = first.contents();
        assert!(!found.is_empty(), "{engine} finds nothing");
        assert!(
            !found.iter().any(|text| text.contains("bob is")),
            "{engine}: {found:?}"
        );
        for _ in 0..100 {
            let again = alice.search("vault code of bob").await.expect_status(200);
            assert_eq!(again.body["results"], first.body["results"], "{engine}");
        }
    }
    assert!(kernel.verify().await.ok);
}
