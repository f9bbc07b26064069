//! Disputes and how somebody settles them: what each verdict does to both memories, to what
//! held when, and to the chain. Whatever the kernel decided can be taken back.

use halofy_tests::{Caller, Kernel, ScriptedModel};
use serde_json::{Value, json};

use super::{admin, by_subject, disputes, each, found, found_at, found_now, history};
use super::{kernel_with, moment, resolve, settled, tell, told};

const OLD: &str = "Rome is old.";
const NEW: &str = "Rome is new.";

/// Two facts that contradict each other, and what the kernel made of it.
struct Decided {
    kernel: Kernel,
    admin: Caller,
    old: String,
    new: String,
    /// The decision's name.
    id: String,
    /// Between the decision and what comes next.
    since: String,
    _model: ScriptedModel,
}

impl Decided {
    /// The old one of one source, the new one of another, found by the model.
    async fn of(old: &str, new: &str) -> Self {
        let model = by_subject();
        let kernel = kernel_with(&model).await;
        let admin = admin(&kernel, "acme").await;
        let old = told(&admin, OLD, super::from_source(old)).await;
        settled(&kernel).await;
        let new = told(&admin, NEW, super::from_source(new)).await;
        settled(&kernel).await;
        let all = disputes(&admin, json!({ "all": true })).await;
        let id = all[0]["id"].as_str().expect("an id").to_owned();
        let since = moment(&kernel).await;
        Self {
            kernel,
            admin,
            old,
            new,
            id,
            since,
            _model: model,
        }
    }

    /// Resolves it, and gives what was said again.
    async fn resolve(&self, verdict: &str) -> Option<String> {
        let answer = resolve(&self.admin, &self.id, verdict)
            .await
            .expect_status(200);
        answer.body["restored"].as_str().map(str::to_owned)
    }

    async fn now(&self) -> Vec<String> {
        found_now(&self.admin, "Rome").await
    }

    async fn then(&self) -> Vec<String> {
        found_at(&self.admin, "Rome", &self.since).await
    }

    async fn ever(&self) -> Vec<String> {
        found(&self.admin, "Rome", json!({ "validOnly": false })).await
    }

    /// Its state, decision, resolution and who resolved it; and that it waits no more.
    async fn expect_settled(&self, decision: &str, resolution: &str) {
        assert_eq!(disputes(&self.admin, json!({})).await.len(), 0);
        let all = disputes(&self.admin, json!({ "all": true })).await;
        let shown = |field: &str| all[0][field].as_str().unwrap_or("-");
        let fields = ["state", "decision", "resolution", "resolvedBy"].map(shown);
        assert_eq!(fields, ["settled", decision, resolution, "user:admin"]);
        let row = self.kernel.last_audit_of("resolve").await.columns;
        let detail = row.detail.expect("a detail");
        assert!(
            detail.contains(&format!("verdict={resolution}")),
            "{detail}"
        );
        assert!(detail.contains(&self.id), "{detail}");
        for verdict in ["accept", "reject", "both", "undo"] {
            let again = resolve(&self.admin, &self.id, verdict).await;
            again.expect_invalid("id");
        }
        assert!(self.kernel.verify().await.ok);
    }

    /// Of the chain from an id: ids, and which of them hold.
    async fn chain(&self, id: &str) -> Vec<(String, bool)> {
        let chain = history(&self.admin, id).await;
        let holds = |one: &Value| one["validTo"].is_null() && one["status"] == "active";
        let link = |one: &Value| (one["id"].as_str().expect("an id").to_owned(), holds(one));
        chain.iter().map(link).collect()
    }
}

fn holding(id: &str) -> (String, bool) {
    (id.to_owned(), true)
}

fn ended(id: &str) -> (String, bool) {
    (id.to_owned(), false)
}

#[tokio::test]
async fn a_dispute_waits_and_shows_both_sides() {
    let decided = Decided::of("document", "conversation").await;
    let open = disputes(&decided.admin, json!({})).await;
    assert_eq!(open.len(), 1);
    assert_eq!(open[0]["state"], "open");
    assert_eq!(open[0]["decision"], "disputed");
    assert_eq!(
        open[0]["incoming"],
        json!({ "id": decided.new, "content": NEW })
    );
    assert_eq!(
        open[0]["incumbent"],
        json!({ "id": decided.old, "content": OLD })
    );
    assert!(
        open[0]["foundBy"]
            .as_str()
            .expect("a model")
            .starts_with("scripted")
    );
    assert_eq!(
        (decided.now().await, decided.ever().await),
        (vec![OLD.into()], vec![OLD.into()])
    );
    let row = decided.kernel.last_audit_of("conflict").await.columns;
    assert!(
        row.detail
            .expect("a detail")
            .starts_with("decision=disputed")
    );
}

#[tokio::test]
async fn to_accept_a_dispute_closes_the_incumbent_and_says_the_incoming_again() {
    let decided = Decided::of("document", "conversation").await;
    let again = decided.resolve("accept").await.expect("it is said again");
    assert_eq!(decided.now().await, [NEW]);
    assert_eq!(decided.then().await, [OLD], "until then the incumbent held");
    assert_eq!(decided.ever().await, [NEW, OLD]);
    let (old, new) = (&decided.old, &decided.new);
    for id in [old, new, &again] {
        let chain = [ended(old), ended(new), holding(&again)];
        let mut found = decided.chain(id).await;
        found.sort();
        let mut chain = chain.to_vec();
        chain.sort();
        assert_eq!(found, chain, "from {id}");
    }
    let memory = decided.admin.read(&again).await.expect_status(200).body;
    assert_eq!(memory["supersedes"], **old);
    assert_eq!(memory["restores"], **new);
    assert_eq!(
        memory["provenance"]["trust"], 10,
        "who says it did not change"
    );
    decided.expect_settled("disputed", "accept").await;
}

#[tokio::test]
async fn to_reject_a_dispute_ends_the_incoming_and_nothing_else() {
    let decided = Decided::of("manual", "live-fetch").await;
    assert_eq!(decided.resolve("reject").await, None);
    assert_eq!(decided.now().await, [OLD]);
    assert_eq!(decided.then().await, [OLD]);
    assert_eq!(
        decided.ever().await,
        [OLD],
        "what was never believed is no history"
    );
    assert_eq!(decided.chain(&decided.old).await, [holding(&decided.old)]);
    assert_eq!(decided.chain(&decided.new).await, [ended(&decided.new)]);
    decided.expect_settled("disputed", "reject").await;
    // It may be told again, and is put aside again.
    let again = tell(&decided.admin, NEW, super::from_source("live-fetch")).await;
    settled(&decided.kernel).await;
    assert_ne!(again.id(), decided.new);
    assert_eq!(decided.now().await, [OLD]);
    assert_eq!(disputes(&decided.admin, json!({})).await.len(), 1);
}

#[tokio::test]
async fn to_keep_both_of_a_dispute_or_to_undo_it_lets_both_hold() {
    for verdict in ["both", "undo"] {
        let decided = Decided::of("document", "conversation").await;
        let again = decided.resolve(verdict).await.expect("it is said again");
        assert_eq!(decided.now().await, [NEW, OLD]);
        assert_eq!(decided.then().await, [OLD]);
        assert_eq!(decided.ever().await, [NEW, OLD]);
        assert_eq!(decided.chain(&decided.old).await, [holding(&decided.old)]);
        let chain = [ended(&decided.new), holding(&again)];
        assert_eq!(decided.chain(&again).await, chain);
        decided.expect_settled("disputed", verdict).await;
        // Nobody decides it anew behind somebody's back.
        settled(&decided.kernel).await;
        assert_eq!(decided.now().await, [NEW, OLD]);
    }
}

#[tokio::test]
async fn to_undo_a_supersedence_lets_both_hold_and_changes_nothing_that_was() {
    let decided = Decided::of("document", "manual").await;
    assert_eq!(decided.now().await, [NEW]);
    for verdict in ["accept", "reject", "both"] {
        let refused = resolve(&decided.admin, &decided.id, verdict).await;
        refused.expect_invalid("verdict");
    }
    let again = decided.resolve("undo").await.expect("it is said again");
    assert_eq!(decided.now().await, [NEW, OLD]);
    assert_eq!(decided.then().await, [NEW]);
    let (old, new) = (&decided.old, &decided.new);
    let chain = [ended(old), holding(new), holding(&again)];
    for id in [old, new, &again] {
        assert_eq!(decided.chain(id).await, chain, "from {id}");
        let at = json!({ "id": id, "asOf": moment(&decided.kernel).await });
        let read = decided.admin.call("read", at).await.expect_status(200);
        let holds = if id == old { &again } else { id };
        assert_eq!(read.body["id"], **holds, "from {id}");
    }
    decided.expect_settled("superseded", "undo").await;
}

#[tokio::test]
async fn to_undo_what_was_taken_for_history_lets_both_hold() {
    let model = by_subject();
    let kernel = kernel_with(&model).await;
    let admin = admin(&kernel, "acme").await;
    let at = |moment: &str| json!({ "eventTime": moment });
    told(&admin, NEW, at("2025-11-01T00:00:00Z")).await;
    settled(&kernel).await;
    told(&admin, OLD, at("2025-08-01T00:00:00Z")).await;
    settled(&kernel).await;
    let all = disputes(&admin, json!({ "all": true })).await;
    assert_eq!(each(&all, "decision"), ["historical"]);
    let id = all[0]["id"].as_str().expect("an id");
    resolve(&admin, id, "undo").await.expect_status(200);
    assert_eq!(found_now(&admin, "Rome").await, [NEW, OLD]);
    assert_eq!(
        found_at(&admin, "Rome", "2025-09-01T00:00:00Z").await,
        [OLD]
    );
}

/// A slot or a named place that was taken, and who decides about it.
async fn taken(kernel: &Kernel, by: &str) -> (Caller, String, String) {
    let admin = admin(kernel, "acme").await;
    let first = match by {
        "slot" => json!({ "slot": "rome" }),
        _ => json!({}),
    };
    let old = told(&admin, OLD, first).await;
    let second = match by {
        "slot" => json!({ "slot": "rome" }),
        _ => json!({ "supersedes": old }),
    };
    let new = told(&admin, NEW, second).await;
    (admin, old, new)
}

#[tokio::test]
async fn to_undo_who_took_a_place_gives_it_back() {
    for by in ["slot", "name"] {
        let kernel = Kernel::start().await;
        let (admin, old, new) = taken(&kernel, by).await;
        let all = disputes(&admin, json!({ "all": true })).await;
        assert_eq!(each(&all, "foundBy"), ["caller"], "{by}");
        let id = all[0]["id"].as_str().expect("an id");
        resolve(&admin, id, "undo").await.expect_status(200);
        assert_eq!(found_now(&admin, "Rome").await, [OLD], "{by}");
        let chain = history(&admin, &old).await;
        assert_eq!(each(&chain, "content"), [OLD, NEW, OLD], "{by}");
        assert_eq!(each(&chain, "supersedes"), ["-", &old, &new], "{by}");
    }
}

#[tokio::test]
async fn what_was_replaced_since_is_taken_back_from_the_last_to_the_first() {
    for by in ["slot", "name"] {
        let kernel = Kernel::start().await;
        let (admin, _, new) = taken(&kernel, by).await;
        let third = match by {
            "slot" => json!({ "slot": "rome" }),
            _ => json!({ "supersedes": new }),
        };
        told(&admin, "Rome is eternal.", third).await;
        let all = disputes(&admin, json!({ "all": true })).await;
        let [last, first] = [0, 1].map(|at| all[at]["id"].as_str().expect("an id"));
        let early = resolve(&admin, first, "undo").await.expect_invalid("id");
        assert!(
            early.text.contains("take that back first"),
            "{}",
            early.text
        );
        assert_eq!(
            found_now(&admin, "Rome").await,
            ["Rome is eternal."],
            "{by}"
        );
        resolve(&admin, last, "undo").await.expect_status(200);
        assert_eq!(found_now(&admin, "Rome").await, [NEW], "{by}");
        resolve(&admin, first, "undo").await.expect_status(200);
        assert_eq!(found_now(&admin, "Rome").await, [OLD], "{by}");
        assert!(kernel.verify().await.ok);
    }
}

#[tokio::test]
async fn a_dispute_can_be_accepted_after_its_incumbent_was_replaced() {
    for by in ["slot", "name"] {
        let kernel = Kernel::start().await;
        let admin = admin(&kernel, "acme").await;
        let place = |id: &str| match by {
            "slot" => json!({ "slot": "rome" }),
            _ => json!({ "supersedes": id }),
        };
        let with = |source: &str, mut fields: Value| {
            fields["provenance"] = json!({ "source": source });
            fields
        };
        let first = match by {
            "slot" => json!({ "slot": "rome" }),
            _ => json!({}),
        };
        let old = told(&admin, OLD, with("document", first)).await;
        let disputed = tell(&admin, NEW, place(&old)).await;
        assert_eq!(disputed.body["stored"], json!([]), "{by}");
        told(&admin, "Rome is eternal.", with("manual", place(&old))).await;
        let open = disputes(&admin, json!({})).await;
        let id = open[0]["id"].as_str().expect("an id");
        if by == "slot" {
            // One slot cannot hold both.
            for verdict in ["both", "undo"] {
                resolve(&admin, id, verdict).await.expect_invalid("verdict");
            }
        }
        resolve(&admin, id, "accept").await.expect_status(200);
        assert_eq!(found_now(&admin, "Rome").await, [NEW], "{by}");
        let chain = history(&admin, &old).await;
        let holds = chain.iter().filter(|one| one["validTo"].is_null());
        assert_eq!(holds.count(), 1, "{by}");
        assert!(kernel.verify().await.ok);
    }
}
