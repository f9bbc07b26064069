//! Mounting, versions side by side, rolling back, quarantine, explain, shadow, replay.

use std::time::Duration;

use halofy_gate::{DriverState, MountChange, Push};
use halofy_tests::{Kernel, Role, ranking_cartridge, trapping_driver};
use serde_json::json;

use super::{FACT, QUESTION, audited, served_by, signed, vendor, with_fact};

#[tokio::test]
async fn a_pushed_driver_serves_and_the_answer_and_the_log_name_it() {
    let kernel = Kernel::start().await;
    let caller = with_fact(&kernel).await;
    let key = vendor(&kernel).await;
    let push = signed(ranking_cartridge("steady", "1.0.0"), &key);
    let pushed = kernel.push(push).await.expect("it is mounted");
    assert_eq!(pushed.signed_by.as_deref(), Some("Acme Ranking"));
    assert_eq!((pushed.mounted, pushed.conformance), (true, Some(true)));
    kernel
        .policy("acme", json!({ "retriever": "steady" }))
        .await;
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(found.contents(), [FACT]);
    assert_eq!(served_by(&found.body), ("steady", None));
    assert_eq!(audited(&kernel, "search", "driver").await, "steady");
    assert_eq!(audited(&kernel, "search", "version").await, "1.0.0");
    assert_eq!(audited(&kernel, "search", "digest").await, pushed.digest);
    // The registry is in the database, so it outlives the kernel.
    let data = kernel.stop().await;
    let kernel = Kernel::with().on(&data).start().await;
    let caller = kernel.caller(&caller.key, &caller.key_id);
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(served_by(&found.body), ("steady", None));
    assert!(kernel.verify().await.ok);
}

#[tokio::test]
async fn versions_stand_side_by_side_and_a_rollback_brings_the_one_before_back() {
    let kernel = Kernel::start().await;
    let caller = with_fact(&kernel).await;
    let key = vendor(&kernel).await;
    for version in ["1.0.0", "2.0.0"] {
        let push = signed(ranking_cartridge("steady", version), &key);
        kernel.push(push).await.expect("it is mounted");
    }
    let version_for = async |retriever: &str| {
        kernel
            .policy("acme", json!({ "retriever": retriever }))
            .await;
        caller.search(QUESTION).await.expect_status(200);
        audited(&kernel, "search", "version").await
    };
    assert_eq!(version_for("steady").await, "2.0.0");
    assert_eq!(version_for("steady@1.0.0").await, "1.0.0");
    let listed = kernel.change("steady", MountChange::Rollback).await;
    assert_eq!(listed.expect("a list").len(), 1);
    let first = kernel.change("steady", MountChange::Rollback).await;
    first.expect_err("there is nothing before the first");
    assert_eq!(version_for("steady").await, "1.0.0");
    let gone = json!({ "retriever": "steady@2.0.0" });
    kernel.policy("acme", gone).await;
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(served_by(&found.body), ("baseline", Some("unmounted")));
    let again = MountChange::Mount {
        limits: Default::default(),
    };
    let listed = kernel.change("steady@2.0.0", again).await.expect("a list");
    assert_eq!(
        (listed[0].version.as_str(), listed[0].default),
        ("2.0.0", true)
    );
    let by_digest = format!(
        "steady@sha256:{}",
        listed[1].digest.as_deref().expect("one")
    );
    assert_eq!(version_for(&by_digest).await, "1.0.0");
    let other = ranking_cartridge("steady", "1.0.0");
    let mut other = signed(other, &key);
    other.component.extend(b"\0\x02\x01x");
    let resigned = signed(other.component, &key);
    let refused = kernel
        .push(resigned)
        .await
        .expect_err("one version, one content");
    assert!(refused.to_string().contains("1.0.0 is here"), "{refused}");
    assert!(kernel.verify().await.ok);
}

#[tokio::test]
async fn quarantine_by_hand_has_a_way_back() {
    let kernel = Kernel::start().await;
    let caller = with_fact(&kernel).await;
    let key = vendor(&kernel).await;
    let push = signed(ranking_cartridge("steady", "1.0.0"), &key);
    kernel.push(push).await.expect("it is mounted");
    kernel
        .policy("acme", json!({ "retriever": "steady" }))
        .await;
    let reason = "odd answers".to_owned();
    let out = MountChange::Quarantine { reason };
    let listed = kernel.change("steady", out.clone()).await.expect("a list");
    assert_eq!(
        listed[0].state,
        DriverState::Quarantined("odd answers".to_owned())
    );
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(served_by(&found.body), ("baseline", Some("quarantined")));
    let missing = kernel.on_gate(async |gate| gate.drivers_missing()).await;
    assert_eq!(missing[0].reason, "quarantined");
    let ready = caller
        .raw(reqwest::Method::GET, "/health/ready", &[], "")
        .await;
    assert_eq!(ready.body["driversMissing"], json!(["steady"]));
    kernel
        .change("steady", out)
        .await
        .expect_err("it is out already");
    let released = kernel.change("steady", MountChange::Release).await;
    assert_eq!(released.expect("a list")[0].state, DriverState::Serving);
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(served_by(&found.body), ("steady", None));
    assert!(kernel.verify().await.ok);
}

#[tokio::test]
async fn a_driver_that_keeps_failing_takes_itself_out_and_is_let_back_by_hand() {
    let kernel = Kernel::with().lenient().start().await;
    let caller = with_fact(&kernel).await;
    let key = vendor(&kernel).await;
    let push = signed(trapping_driver("brittle", "1.0.0"), &key);
    let pushed = kernel.push(push).await.expect("it is mounted all the same");
    assert_eq!(pushed.conformance, Some(false));
    kernel
        .policy("acme", json!({ "retriever": "brittle" }))
        .await;
    for at in 0..12 {
        let found = caller.search(QUESTION).await.expect_status(200);
        assert_eq!(found.contents(), [FACT]);
        let reason = if at < 10 { "trap" } else { "quarantined" };
        assert_eq!(served_by(&found.body), ("baseline", Some(reason)), "{at}");
    }
    let rows = kernel.audit().await;
    let row = rows
        .iter()
        .find(|row| row.columns.op == "driver_quarantine");
    let row = &row.expect("an audit row").columns;
    assert_eq!((row.actor.as_str(), row.result.as_str()), ("kernel", "ok"));
    kernel
        .change("brittle", MountChange::Release)
        .await
        .expect("it is back");
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(served_by(&found.body), ("baseline", Some("trap")));
    assert!(kernel.verify().await.ok);
}

#[tokio::test]
async fn what_fails_conformance_is_not_mounted_unless_forced() {
    let kernel = Kernel::start().await;
    let key = vendor(&kernel).await;
    let push = signed(trapping_driver("brittle", "1.0.0"), &key);
    let refused = kernel.push(push.clone()).await.expect_err("it fails");
    assert!(
        refused.to_string().contains("finds-planted-fact"),
        "{refused}"
    );
    assert_eq!(
        audited(&kernel, "cartridge_push", "why").await,
        "conformance"
    );
    let forced = Push {
        force: true,
        ..push
    };
    let pushed = kernel.push(forced).await.expect("it is mounted");
    assert_eq!(pushed.conformance, Some(false));
    assert_eq!(
        audited(&kernel, "cartridge_push", "conformance").await,
        "failed"
    );
}

#[tokio::test]
async fn explain_tells_who_ran_what_it_read_and_where_the_time_went() {
    let kernel = Kernel::with()
        .cartridge("brittle", halofy_tests::trapping_cartridge())
        .start()
        .await;
    let caller = with_fact(&kernel).await;
    kernel
        .policy("acme", json!({ "retriever": "brittle" }))
        .await;
    let ask = json!({ "query": QUESTION, "explain": true });
    let found = caller.call("search", ask).await.expect_status(200);
    let explain = &found.body["explain"];
    assert_eq!(explain["selected"], "brittle");
    assert_eq!(explain["selectedBy"], "policy");
    let attempts = explain["attempts"].as_array().expect("attempts");
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[0]["outcome"], "trap");
    let baseline = &attempts[1];
    assert_eq!(baseline["driver"], "baseline");
    assert_eq!(baseline["outcome"], "served");
    assert_eq!(baseline["viewCalls"], 3);
    assert_eq!(baseline["rows"], 2, "one row through each of two arms");
    assert_eq!(baseline["dropped"]["unknown"], 0);
    assert!(baseline["memoryBytes"].as_u64() > Some(65_535));
    let micros = |stage: &str| baseline["micros"][stage].as_u64().expect("a time");
    assert!(micros("view") > 0 && micros("instantiate") + micros("view") <= micros("total"));
    let plain = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(plain.body.get("explain"), None);
}

#[tokio::test]
async fn a_shadow_ranks_beside_and_is_never_served() {
    let kernel = Kernel::start().await;
    let caller = with_fact(&kernel).await;
    let key = vendor(&kernel).await;
    let push = signed(ranking_cartridge("steady", "1.0.0"), &key);
    kernel.push(push).await.expect("it is mounted");
    kernel.policy("acme", json!({ "shadow": "steady" })).await;
    let found = caller.search(QUESTION).await.expect_status(200);
    assert_eq!(served_by(&found.body), ("baseline", None));
    for _ in 0..100 {
        if kernel
            .audit()
            .await
            .iter()
            .any(|row| row.columns.op == "shadow")
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(audited(&kernel, "shadow", "shadow").await, "steady");
    assert_eq!(audited(&kernel, "shadow", "overlap_pct").await, "100");
    assert_eq!(audited(&kernel, "shadow", "same_order").await, "true");
    assert!(kernel.verify().await.ok);
}

#[tokio::test]
async fn a_replay_finds_the_answer_of_then_whatever_was_written_since() {
    let kernel = Kernel::start().await;
    let caller = with_fact(&kernel).await;
    for at in 0..5 {
        let fact = format!("Telescope {at} of the observatory opens late.");
        caller.write(&fact).await.expect_status(200);
    }
    let then = caller.search(QUESTION).await.expect_status(200);
    let seq = kernel.last_audit().await.seq;
    caller
        .write("The observatory is open when it does open, when it opens.")
        .await
        .expect_status(200);
    let now = caller.search(QUESTION).await.expect_status(200);
    assert_ne!(then.contents(), now.contents());
    let replay = |seq, query: Option<&'static str>| {
        kernel.on_gate(async move |gate| gate.replay(seq, query).await)
    };
    let replayed = replay(seq, None).await.expect("a replay");
    assert!(replayed.same, "{replayed:?}");
    let contents: Vec<_> = replayed.results.iter().map(|hit| &*hit.content).collect();
    assert_eq!(contents, then.contents());
    let other = replay(seq, Some("another question")).await;
    assert!(
        other
            .expect_err("the log knows better")
            .to_string()
            .contains("query")
    );
    let write = replay(1, None)
        .await
        .expect_err("a write cannot be run again");
    assert!(write.to_string().contains("not a search"), "{write}");
    let sensitive = json!({ "query": QUESTION, "sensitive": true });
    caller.call("search", sensitive).await.expect_status(200);
    let seq = kernel.last_audit().await.seq;
    replay(seq, None)
        .await
        .expect_err("the log has not the query");
    assert!(replay(seq, Some(QUESTION)).await.expect("a replay").same);
}

#[tokio::test]
async fn setting_one_thing_of_a_policy_keeps_the_others() {
    let kernel = Kernel::start().await;
    let caller = with_fact(&kernel).await;
    kernel.policy("acme", json!({ "suspended": true })).await;
    let set = async |policy: serde_json::Value| {
        let policy = serde_json::from_value(policy).expect("a policy");
        let namespace = "acme".parse().expect("a namespace");
        kernel
            .on_gate(async move |gate| {
                gate.policy_set(&namespace, &policy, Default::default())
                    .await
            })
            .await
    };
    set(json!({ "tokenBudget": 100 })).await.expect("it is set");
    caller
        .search(QUESTION)
        .await
        .expect_problem(403, "suspended");
    set(json!({ "suspended": false })).await.expect("it is set");
    caller.search(QUESTION).await.expect_status(200);
    let view = kernel.policy_of("acme").await.expect("a policy");
    assert_eq!(view.effective.token_budget, 100);
    let refused = set(json!({ "retriever": "ghost@1" })).await;
    assert!(
        refused
            .expect_err("nobody serves")
            .to_string()
            .contains("unmounted")
    );
}

#[tokio::test]
async fn no_key_is_made_for_the_actors_of_the_log() {
    let kernel = Kernel::start().await;
    for actor in ["operator", "kernel", "unknown"] {
        let request = halofy_gate::NewKeyRequest {
            namespace: "acme".parse().expect("a namespace"),
            actor: actor.parse().expect("an actor"),
            role: Role::Agent,
            expires_at: None,
            groups: Vec::new(),
        };
        let made = kernel
            .on_gate(async move |gate| gate.key_create(&request).await)
            .await;
        assert!(made.is_err(), "{actor}");
    }
}
