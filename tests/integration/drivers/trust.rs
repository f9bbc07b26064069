//! Whose cartridges are let in (C17): each refusal with its reason, before anything is
//! parsed, in the audit log.

use std::sync::Arc;

use halofy_cartridge::{SignatureFile, VendorKey};
use halofy_gate::{DriverState, Gate, Push, VendorTrust};
use halofy_tests::{Kernel, ranking_cartridge};
use serde_json::json;

use super::{QUESTION, audited, served_by, signed, vendor, with_fact};

async fn refusal(kernel: &Kernel, push: Push) -> String {
    let refused = kernel.push(push).await.expect_err("it is refused");
    assert_eq!(refused.code(), "driver_refused", "{refused}");
    audited(kernel, "cartridge_push", "why").await
}

#[tokio::test]
async fn a_cartridge_is_let_in_only_on_the_word_of_a_trusted_key() {
    let kernel = Kernel::start().await;
    let key = vendor(&kernel).await;
    let component = ranking_cartridge("steady", "1.0.0");
    let good = signed(component.clone(), &key);
    let with = |change: &dyn Fn(&mut Push)| {
        let mut push = good.clone();
        change(&mut push);
        push
    };
    let unsigned = with(&|push| push.signature = None);
    assert_eq!(refusal(&kernel, unsigned).await, "unsigned");
    let stranger = signed(component.clone(), &VendorKey::generate().expect("a key"));
    assert_eq!(refusal(&kernel, stranger).await, "signature_unknown_key");
    let other_bytes = with(&|push| push.component.extend(b"\0\x02\x01x"));
    assert_eq!(refusal(&kernel, other_bytes).await, "signature_other_bytes");
    let cut = with(&|push| {
        let signature = push.signature.as_mut().expect("a signature");
        let half = signature.len() / 2;
        signature.truncate(half);
    });
    assert_eq!(refusal(&kernel, cut).await, "signature_malformed");
    let world = with(&|push| {
        let signature = push.signature.as_mut().expect("a signature");
        *signature = signature.replacen("halofy:driver@1.0.0", "halofy:driver@2.0.0", 1);
    });
    assert_eq!(refusal(&kernel, world).await, "signature_other_world");
    let garbage = with(&|push| push.component = b"not a component".to_vec());
    assert_eq!(
        refusal(&kernel, garbage).await,
        "signature_other_bytes",
        "before it is parsed"
    );
    kernel.push(good).await.expect("the good one is mounted");
    assert!(kernel.verify().await.ok);
}

#[tokio::test]
async fn a_key_signs_only_the_names_that_it_is_listed_for() {
    let kernel = Kernel::start().await;
    let key = VendorKey::generate().expect("a key");
    let trust = VendorTrust {
        vendor: "Acme Ranking".to_owned(),
        public_key: key.public().to_string(),
        names: vec!["acme-*".to_owned()],
    };
    let add = async move |gate: Arc<Gate>| gate.vendor_key_add(&trust).await;
    kernel.on_gate(add).await.expect("the key is listed");
    let foreign = signed(ranking_cartridge("steady", "1.0.0"), &key);
    assert_eq!(
        refusal(&kernel, foreign).await,
        "signature_name_not_allowed"
    );
    let own = signed(ranking_cartridge("acme-graph", "1.0.0"), &key);
    kernel.push(own).await.expect("its own name is mounted");
    let reserved = signed(
        ranking_cartridge("baseline", "9.0.0"),
        &vendor(&kernel).await,
    );
    assert_eq!(refusal(&kernel, reserved).await, "reserved_name");
}

#[tokio::test]
async fn a_revoked_key_takes_what_it_signed_with_it() {
    let kernel = Kernel::start().await;
    let caller = with_fact(&kernel).await;
    let key = vendor(&kernel).await;
    let push = signed(ranking_cartridge("steady", "1.0.0"), &key);
    kernel.push(push.clone()).await.expect("it is mounted");
    kernel
        .policy("acme", json!({ "retriever": "steady" }))
        .await;
    let id = key.public().id();
    let revoke = async move |gate: Arc<Gate>| gate.vendor_key_revoke(&id).await;
    let revoked = kernel.on_gate(revoke).await.expect("it is revoked");
    assert_eq!(revoked.status, "revoked");
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(served_by(&found.body), ("baseline", Some("refused")));
    let listed = kernel.on_gate(async |gate| gate.driver_list()).await;
    let steady = listed.iter().find(|driver| driver.name == "steady");
    let state = &steady.expect("it is listed").state;
    assert!(
        matches!(state, DriverState::Refused(why) if why.contains("revoked")),
        "{state:?}"
    );
    assert_eq!(refusal(&kernel, push).await, "signature_revoked_key");
    // A kernel that starts anew lets it in no more than the one that saw it happen.
    let data = kernel.stop().await;
    let kernel = Kernel::with().on(&data).start().await;
    let caller = kernel.caller(&caller.key, &caller.key_id);
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(served_by(&found.body), ("baseline", Some("refused")));
}

#[tokio::test]
async fn what_nobody_signed_serves_only_where_policy_says_so() {
    let kernel = Kernel::start().await;
    let caller = with_fact(&kernel).await;
    let push = Push {
        component: ranking_cartridge("steady", "1.0.0"),
        mount: true,
        allow_unsigned: true,
        ..Push::default()
    };
    let pushed = kernel.push(push).await.expect("it is mounted");
    assert_eq!(pushed.signed_by, None);
    assert_eq!(
        audited(&kernel, "cartridge_push", "signed_by").await,
        "nobody"
    );
    kernel
        .policy("acme", json!({ "retriever": "steady" }))
        .await;
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(served_by(&found.body), ("baseline", Some("unsigned")));
    let missing = kernel.on_gate(async |gate| gate.drivers_missing()).await;
    assert_eq!(missing[0].reason, "unsigned");
    let unforced = kernel.on_gate(async |gate| {
        let policy = serde_json::from_value(json!({ "retriever": "steady" }));
        let namespace = "acme/eng".parse().expect("a namespace");
        let policy = policy.expect("a policy");
        gate.policy_set(&namespace, &policy, Default::default())
            .await
    });
    let refused = unforced.await.expect_err("it would not serve");
    assert!(refused.to_string().contains("unsigned"), "{refused}");
    let policy = json!({ "retriever": "steady", "allowUnsigned": true });
    kernel.policy("acme", policy).await;
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(served_by(&found.body), ("steady", None));
}

#[tokio::test]
async fn bytes_that_were_altered_in_the_database_are_not_loaded() {
    let kernel = Kernel::start().await;
    let caller = with_fact(&kernel).await;
    let key = vendor(&kernel).await;
    let push = signed(ranking_cartridge("steady", "1.0.0"), &key);
    kernel.push(push).await.expect("it is mounted");
    kernel
        .policy("acme", json!({ "retriever": "steady" }))
        .await;
    kernel
        .try_sql("update cartridges set component = component || '\\x00'")
        .await
        .expect_err("the table refuses");
    for sql in [
        "alter table cartridges disable trigger all",
        "update cartridges set component = component || '\\x00'::bytea",
    ] {
        kernel.sql(sql).await;
    }
    let data = kernel.stop().await;
    let kernel = Kernel::with().on(&data).start().await;
    let caller = kernel.caller(&caller.key, &caller.key_id);
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(served_by(&found.body), ("baseline", Some("refused")));
}

#[tokio::test]
async fn a_signature_reads_back_as_it_was_written() {
    let key = VendorKey::generate().expect("a key");
    let push = signed(ranking_cartridge("steady", "1.0.0"), &key);
    let json = push.signature.expect("a signature");
    let read = SignatureFile::parse(json.as_bytes()).expect("it is well-formed");
    assert_eq!(read.to_json(), json);
    assert_eq!(read.manifest().name, "steady");
}
