//! The trust lattice: who wins of two sources that contradict each other, and W5: of two
//! that do not, neither.

use halofy_core::Source;
use halofy_tests::{Kernel, ScriptedModel};
use serde_json::json;

use super::{admin, each, member, settled, tell, told};
use super::{by_subject, count, disputes, found, found_now, from_source, history, kernel_with};

/// What a member may say that it has a fact from.
fn claimable() -> impl Iterator<Item = Source> {
    let all = Source::ALL.into_iter();
    all.filter(|source| *source != Source::Consolidation)
}

/// The namespace of a pair.
fn pair_of(incumbent: Source, incoming: Source) -> String {
    format!("acme/{}-{}", incumbent.as_str(), incoming.as_str())
}

#[tokio::test]
async fn the_higher_rank_wins_and_of_equal_rank_the_later() {
    let model = by_subject();
    let kernel = kernel_with(&model).await;
    let mut pairs = Vec::new();
    for incumbent in Source::ALL {
        for incoming in claimable() {
            let caller = member(&kernel, &pair_of(incumbent, incoming)).await;
            let claimed = match incumbent {
                Source::Consolidation => Source::SwapImport,
                other => other,
            };
            let old = told(&caller, "Rome is old.", from_source(claimed.as_str())).await;
            pairs.push((incumbent, incoming, caller, old));
        }
    }
    settled(&kernel).await;
    // Nobody may claim what only the kernel says.
    let planted = "update memory_objects set source = 'consolidation', trust = 30
                    where namespace like 'acme/consolidation-%'";
    kernel.sql(planted).await;
    let mut told_later = Vec::new();
    for (incumbent, incoming, caller, old) in pairs {
        let new = told(&caller, "Rome is new.", from_source(incoming.as_str())).await;
        told_later.push((incumbent, incoming, caller, old, new));
    }
    settled(&kernel).await;
    for (incumbent, incoming, caller, old, new) in told_later {
        let pair = pair_of(incumbent, incoming);
        let decided = disputes(&caller, json!({ "all": true })).await;
        assert_eq!(decided.len(), 1, "{pair}");
        let (decision, holds, ended) = if incoming.trust() < incumbent.trust() {
            ("disputed", "Rome is old.", 0)
        } else {
            ("superseded", "Rome is new.", 1)
        };
        assert_eq!(decided[0]["decision"], decision, "{pair}");
        assert_eq!(decided[0]["incoming"]["id"], *new, "{pair}");
        assert_eq!(decided[0]["incumbent"]["id"], *old, "{pair}");
        assert_eq!(found_now(&caller, "Rome").await, [holds], "{pair}");
        // What is put aside is in no search at all.
        let ever = found(&caller, "Rome", json!({ "validOnly": false })).await;
        assert_eq!(ever.len(), 1 + ended, "{pair}");
        let chain = history(&caller, &old).await;
        assert_eq!(chain.len(), 1 + ended, "{pair}");
        assert_eq!(chain[0]["provenance"]["trust"], incumbent.trust(), "{pair}");
        let opened = disputes(&caller, json!({})).await.len();
        assert_eq!(opened, 1 - ended, "{pair}");
    }
    assert!(kernel.verify().await.ok);
}

#[tokio::test]
async fn of_equal_rank_what_happened_later_wins_whenever_it_was_told() {
    let model = by_subject();
    let kernel = kernel_with(&model).await;
    for source in claimable() {
        let caller = member(&kernel, &format!("acme/{}", source.as_str())).await;
        let at = |moment: &str| {
            let mut fields = from_source(source.as_str());
            fields["eventTime"] = json!(moment);
            fields
        };
        told(&caller, "Rome is new.", at("2025-11-01T00:00:00Z")).await;
        settled(&kernel).await;
        told(&caller, "Rome is old.", at("2025-08-01T00:00:00Z")).await;
        settled(&kernel).await;
        let decided = disputes(&caller, json!({ "all": true })).await;
        assert_eq!(each(&decided, "decision"), ["historical"]);
        assert_eq!(found_now(&caller, "Rome").await, ["Rome is new."]);
        let ever = found(&caller, "Rome", json!({ "validOnly": false })).await;
        assert_eq!(ever, ["Rome is new.", "Rome is old."]);
    }
}

#[tokio::test]
async fn who_came_later_does_not_depend_on_whose_check_is_first() {
    let model = by_subject();
    let kernel = kernel_with(&model).await;
    for run in 0..8 {
        let caller = member(&kernel, &format!("acme/{run}")).await;
        // The check of the first may run when the second is there already.
        let old = told(&caller, "Rome is old.", from_source("conversation")).await;
        let new = told(&caller, "Rome is new.", from_source("manual")).await;
        settled(&kernel).await;
        let decided = disputes(&caller, json!({ "all": true })).await;
        assert_eq!(each(&decided, "decision"), ["superseded"]);
        assert_eq!(decided[0]["incoming"]["id"], *new);
        assert_eq!(each(&history(&caller, &new).await, "id"), [old, new]);
    }
}

#[tokio::test]
async fn the_kernels_own_source_is_nobodys_to_claim() {
    let kernel = Kernel::start().await;
    for caller in [member(&kernel, "acme").await, admin(&kernel, "acme").await] {
        let mut body = from_source("consolidation");
        body["content"] = json!("Rome is old.");
        caller
            .call("write", body)
            .await
            .expect_invalid("provenance.source");
    }
    let agent = kernel
        .key("acme", "agent:a", halofy_tests::Role::Agent)
        .await;
    for source in Source::ALL {
        let mut body = from_source(source.as_str());
        body["content"] = json!("Rome is old.");
        let answer = agent.call("write", body).await;
        match source {
            Source::Conversation => answer.expect_status(200),
            _ => answer.expect_invalid("provenance.source"),
        };
    }
}

#[tokio::test]
async fn a_lower_rank_takes_neither_a_slot_nor_a_named_place() {
    let kernel = Kernel::start().await;
    let caller = member(&kernel, "acme").await;
    let mut fields = from_source("document");
    fields["slot"] = json!("rome");
    let held = told(&caller, "Rome is old.", fields).await;
    for more in [json!({ "slot": "rome" }), json!({ "supersedes": held })] {
        let content = format!("Rome is new by {more}.");
        let answer = tell(&caller, &content, more).await;
        assert_eq!(answer.body["stored"], json!([]));
        assert_eq!(answer.body["superseded"], json!([]));
        assert_eq!(super::ids_in(&answer.body["disputed"]).len(), 1);
        assert_eq!(found_now(&caller, "Rome").await, ["Rome is old."]);
    }
    assert_eq!(disputes(&caller, json!({})).await.len(), 2);
    let audited = kernel.last_audit_of("write").await;
    assert_eq!(audited.columns.detail.as_deref(), Some("disputed=1"));
}

#[tokio::test]
async fn a_disputed_fact_that_is_said_again_does_not_pile_up() {
    let model = by_subject();
    let kernel = kernel_with(&model).await;
    let caller = member(&kernel, "acme").await;
    told(&caller, "Rome is old.", from_source("document")).await;
    settled(&kernel).await;
    let disputed = told(&caller, "Rome is new.", json!({})).await;
    settled(&kernel).await;
    for spelling in ["Rome is new.", "rome  IS new.", "Rome is new."] {
        let again = tell(&caller, spelling, json!({})).await;
        assert_eq!(again.body["disputed"], json!([disputed]), "{spelling}");
        assert_eq!(again.body["stored"], json!([]), "{spelling}");
        settled(&kernel).await;
    }
    assert_eq!(count(&kernel, "memory_objects").await, 2);
    assert_eq!(disputes(&caller, json!({ "all": true })).await.len(), 1);
    let stats = caller.stats().await.expect_status(200);
    let counts = json!({ "current": 1, "superseded": 0, "disputed": 1 });
    assert_eq!(stats.body["memories"], counts);
}

const BANKS: [&str; 4] = [
    "Acme Bank is rated Baa2 by the agency.",
    "Acme Bark is rated Baa1 by the agency.",
    "Acme Bank's owner is rated A3 by the agency.",
    "The agency is rated by Acme Bank.",
];

#[tokio::test]
async fn w5_similar_words_on_different_subjects_close_neither() {
    let model = by_subject();
    let with = kernel_with(&model).await;
    let without = Kernel::start().await;
    for kernel in [&with, &without] {
        let caller = member(kernel, "acme").await;
        for fact in BANKS {
            told(&caller, fact, json!({})).await;
            settled(kernel).await;
        }
        assert_eq!(found_now(&caller, "Acme Bank rated agency").await.len(), 4);
        assert_eq!(disputes(&caller, json!({ "all": true })).await.len(), 0);
        let untouched = "memory_objects where t_valid_to is null and supersedes is null
                         and status = 'active'";
        assert_eq!(count(kernel, untouched).await, 4);
    }
    // The model was asked, and said no.
    assert_eq!(model.asked().len(), 3);
    assert_eq!(count(&with, "jobs where kind = 'conflict'").await, 4);
    assert_eq!(count(&without, "jobs").await, 0);
}

#[tokio::test]
async fn w5_a_model_that_answers_nonsense_closes_neither_either() {
    let model = ScriptedModel::garbage();
    let kernel = kernel_with(&model).await;
    let caller = member(&kernel, "acme").await;
    for fact in ["Rome is old.", "Rome is new."] {
        told(&caller, fact, json!({})).await;
    }
    for _ in 0..600 {
        if !model.requests().is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(!model.requests().is_empty(), "it was asked");
    assert_eq!(found_now(&caller, "Rome").await.len(), 2);
    assert_eq!(count(&kernel, "conflicts").await, 0);
}
