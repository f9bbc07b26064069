//! Replays of searches that were made before and after what changed the truth: each finds
//! the answer of then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use halofy_tests::{Caller, Kernel, ScriptedModel};
use serde_json::{Value, json};

use super::told;
use super::{admin, contradict, disputes, found, from_source, kernel_with, resolve, settled};

/// Searches, with what they found when they were made.
struct Log<'k> {
    kernel: &'k Kernel,
    caller: &'k Caller,
    rows: Vec<(i64, String, Vec<String>)>,
}

impl Log<'_> {
    /// Searches now, and at moments of the past, of the present and of the time to come.
    async fn search(&mut self, when: &str) {
        for more in [
            json!({}),
            json!({ "asOf": "2025-07-01T00:00:00Z" }),
            json!({ "asOf": "2025-09-01T00:00:00Z" }),
            json!({ "asOf": "2025-12-01T00:00:00Z" }),
            json!({ "asOf": super::moment(self.kernel).await }),
            json!({ "asOf": "2999-01-01T00:00:00Z" }),
        ] {
            let hits = found(self.caller, "Rome", more.clone()).await;
            let seq = self.kernel.last_audit_of("search").await.seq;
            self.rows.push((seq, format!("{when}, {more}"), hits));
        }
    }

    /// Every one of them, as often as it is asked.
    async fn expect_same(&self) {
        for (seq, what, hits) in &self.rows {
            let seq = *seq;
            let replayed = self
                .kernel
                .on_gate(async move |gate| gate.replay(seq, None).await);
            let replayed = replayed.await.expect("a replay");
            let mut contents: Vec<&str> =
                replayed.results.iter().map(|hit| &*hit.content).collect();
            contents.sort_unstable();
            assert_eq!(contents, *hits, "{what}");
            assert!(replayed.same, "{what}: {replayed:?}");
        }
    }
}

/// A model that thinks for as long as the flag is up.
fn held_by_subject() -> (ScriptedModel, Arc<AtomicBool>) {
    let held = Arc::new(AtomicBool::new(false));
    let flag = held.clone();
    let model = ScriptedModel::by_sentences_where(move |new, old| {
        while flag.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(2));
        }
        contradict(new, old)
    });
    (model, held)
}

async fn decision(admin: &Caller, decision: &str) -> String {
    let all = disputes(admin, json!({ "all": true })).await;
    let one = all
        .iter()
        .find(|one| one["decision"] == decision && one["resolution"].is_null());
    one.expect("a decision")["id"]
        .as_str()
        .expect("an id")
        .to_owned()
}

#[tokio::test]
async fn a_search_from_before_each_change_finds_what_it_found() {
    let (model, held) = held_by_subject();
    let kernel = kernel_with(&model).await;
    let admin = admin(&kernel, "acme").await;
    let mut log = Log {
        kernel: &kernel,
        caller: &admin,
        rows: Vec::new(),
    };
    let at = |source: &str, moment: Option<&str>| -> Value {
        let mut fields = from_source(source);
        fields["eventTime"] = json!(moment);
        fields
    };
    log.search("before anything").await;
    for (content, source, moment) in [
        ("Rome is young.", "document", Some("2025-06-01T00:00:00Z")),
        ("Rome is eternal.", "document", Some("2025-11-01T00:00:00Z")),
        // Between the two, told late.
        ("Rome is growing.", "document", Some("2025-08-01T00:00:00Z")),
        // Put aside.
        ("Rome is flat.", "conversation", None),
        ("Rome is Roman.", "manual", None),
    ] {
        held.store(true, Ordering::Relaxed);
        told(&admin, content, at(source, moment)).await;
        log.search(&format!("while {content} is unchecked")).await;
        held.store(false, Ordering::Relaxed);
        settled(&kernel).await;
        log.search(&format!("after {content}")).await;
        log.expect_same().await;
    }
    for (made, verdict) in [
        ("disputed", "both"),
        ("superseded", "undo"),
        ("historical", "undo"),
    ] {
        let id = decision(&admin, made).await;
        resolve(&admin, &id, verdict).await.expect_status(200);
        log.search(&format!("after {verdict} of {made}")).await;
        log.expect_same().await;
    }
    assert!(kernel.verify().await.ok);
}

#[tokio::test]
async fn a_search_from_before_a_slot_or_a_name_was_taken_finds_what_it_found() {
    let kernel = Kernel::start().await;
    let admin = admin(&kernel, "acme").await;
    let mut log = Log {
        kernel: &kernel,
        caller: &admin,
        rows: Vec::new(),
    };
    let slot = |moment: &str| json!({ "slot": "rome", "eventTime": moment });
    told(&admin, "Rome is eternal.", slot("2025-11-01T00:00:00Z")).await;
    log.search("one").await;
    told(&admin, "Rome is young.", slot("2025-06-01T00:00:00Z")).await;
    log.search("two").await;
    told(&admin, "Rome is growing.", slot("2025-08-01T00:00:00Z")).await;
    log.search("three").await;
    let fourth = told(&admin, "Rome is Roman.", json!({ "slot": "rome" })).await;
    log.search("four").await;
    told(&admin, "Rome is not Rome.", json!({ "supersedes": fourth })).await;
    log.search("five").await;
    log.expect_same().await;
    let id = decision(&admin, "superseded").await;
    resolve(&admin, &id, "undo").await.expect_status(200);
    log.search("undone").await;
    log.expect_same().await;
}
