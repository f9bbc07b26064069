//! What is said again: by a source that ranks higher, about what was put aside, about what is
//! believed, and about an earlier time.

use halofy_tests::{Caller, Kernel, Role, ScriptedModel};
use serde_json::{Value, json};

use super::{by_subject, disputes, each, found_now, from_source, history, ids_in, kernel_with};
use super::{member, resolve, settled, tell, told};

const BAA2: &str = "Acme is rated Baa2.";
const BAA1: &str = "Acme is rated Baa1.";
const AUGUST: &str = "2025-08-04T09:00:00Z";
const NOVEMBER: &str = "2025-11-10T12:00:00Z";

/// How the two are known to be of one subject.
#[derive(Debug, Clone, Copy)]
enum By {
    Slot,
    Model,
}

struct Rated {
    kernel: Kernel,
    caller: Caller,
    by: By,
    _model: ScriptedModel,
}

impl Rated {
    async fn by(by: By) -> Self {
        let model = by_subject();
        let kernel = kernel_with(&model).await;
        let caller = member(&kernel, "acme").await;
        Self {
            kernel,
            caller,
            by,
            _model: model,
        }
    }

    /// What a source says, once it was compared with what is there.
    async fn says(&self, source: &str, content: &str) -> Value {
        let mut fields = json!({ "provenance": { "source": source } });
        if let By::Slot = self.by {
            fields["slot"] = json!("rating");
        }
        let answer = tell(&self.caller, content, fields).await;
        settled(&self.kernel).await;
        answer.body
    }

    async fn rank_of(&self, id: &str) -> (i64, Value) {
        let read = self.caller.read(id).await.expect_status(200).body;
        let trust = read["provenance"]["trust"].as_i64().expect("a rank");
        (trust, read["provenance"]["trustRaised"].clone())
    }
}

#[tokio::test]
async fn what_was_put_aside_is_believed_once_a_source_of_enough_rank_says_the_same() {
    for by in [By::Slot, By::Model] {
        for source in ["document", "manual"] {
            let rated = Rated::by(by).await;
            let caller = &rated.caller;
            let old = rated.says("document", BAA2).await["stored"][0].clone();
            let first = rated.says("conversation", BAA1).await;
            assert_eq!(found_now(caller, "Acme rated").await, [BAA2]);
            let waiting = disputes(caller, json!({})).await;
            assert_eq!(waiting.len(), 1, "{by:?}");
            let aside = waiting[0]["incoming"]["id"].as_str().expect("an id");
            let answer = rated.says(source, BAA1).await;
            let new = ids_in(&answer["stored"]).pop();
            let new = new.unwrap_or_else(|| panic!("{by:?} {source}: {answer} after {first}"));
            assert_eq!(found_now(caller, "Acme rated").await, [BAA1]);
            assert_ne!(new, aside, "what was put aside stays as it was");
            let chain = history(caller, &new).await;
            let expected = [old.as_str().expect("an id"), &new];
            assert_eq!(each(&chain, "id"), expected, "{by:?} {source}");
            the_dispute_is_settled(&rated, aside, &waiting[0]["id"]).await;
        }
    }
}

async fn the_dispute_is_settled(rated: &Rated, aside: &str, dispute: &Value) {
    let caller = &rated.caller;
    assert_eq!(disputes(caller, json!({})).await, [Value::Null; 0]);
    let all = disputes(caller, json!({ "all": true })).await;
    let own = all.iter().find(|one| one["id"] == *dispute);
    let own = own.expect("it is kept");
    assert_eq!(own["resolution"], "retold", "{own}");
    assert_eq!(own["resolvedBy"], "user:member", "{own}");
    let aside = caller.read(aside).await.expect_status(200).body;
    assert_eq!(aside["status"], "disputed");
    assert_ne!(aside["validTo"], Value::Null, "it has ended");
    // What the new one decided can be taken back as anything else.
    let decided = all.iter().find(|one| one["decision"] == "superseded");
    let decided = decided.expect("a decision")["id"].as_str().expect("an id");
    let admin = super::admin(&rated.kernel, "acme").await;
    resolve(&admin, decided, "undo").await.expect_status(200);
    assert!(
        found_now(caller, "Acme rated")
            .await
            .contains(&BAA2.to_owned())
    );
}

#[tokio::test]
async fn what_was_put_aside_stays_so_while_nobody_of_higher_rank_says_it() {
    for by in [By::Slot, By::Model] {
        let rated = Rated::by(by).await;
        let caller = &rated.caller;
        rated.says("document", BAA2).await;
        rated.says("swap-import", BAA1).await;
        let waiting = disputes(caller, json!({})).await;
        for source in ["conversation", "swap-import"] {
            let again = rated.says(source, BAA1).await;
            assert_eq!(again["disputed"], json!([waiting[0]["incoming"]["id"]]));
        }
        assert_eq!(disputes(caller, json!({})).await, waiting);
        assert_eq!(found_now(caller, "Acme rated").await, [BAA2]);
    }
}

#[tokio::test]
async fn a_rank_between_both_is_put_aside_itself_and_only_it_waits() {
    for by in [By::Slot, By::Model] {
        let rated = Rated::by(by).await;
        rated.says("document", BAA2).await;
        rated.says("conversation", BAA1).await;
        rated.says("swap-import", BAA1).await;
        let waiting = disputes(&rated.caller, json!({})).await;
        assert_eq!(waiting.len(), 1, "{by:?} {waiting:?}");
        let waits = waiting[0]["incoming"]["id"].as_str().expect("an id");
        assert_eq!(rated.rank_of(waits).await, (20, Value::Null));
        assert_eq!(found_now(&rated.caller, "Acme rated").await, [BAA2]);
    }
}

#[tokio::test]
async fn what_is_believed_holds_the_highest_rank_of_those_who_say_it() {
    for by in [By::Slot, By::Model] {
        let rated = Rated::by(by).await;
        let first = rated.says("conversation", BAA2).await;
        let id = first["stored"][0].as_str().expect("an id");
        for (source, raised) in [
            ("conversation", Value::Null),
            ("document", json!(40)),
            ("swap-import", json!(40)),
            ("manual", json!(50)),
        ] {
            let again = rated.says(source, BAA2).await;
            assert_eq!(again["deduplicated"], json!([id]), "{source}");
            // What it was written with is not overwritten.
            assert_eq!(rated.rank_of(id).await, (10, raised), "{source}");
        }
        rated.says("document", BAA1).await;
        assert_eq!(found_now(&rated.caller, "Acme rated").await, [BAA2]);
        let waiting = disputes(&rated.caller, json!({})).await;
        assert_eq!(each(&waiting, "decision"), ["disputed"], "{by:?}");
        // Whoever raised it is in the audit log.
        let raising = "select count(*) from memory_objects m join audit_log a
                           on a.call_id = m.raised_by_call
                        where m.trust_raised = 50 and a.memory_id = m.id";
        assert_eq!(rated.kernel.sql_value(raising).await, "1");
    }
}

#[tokio::test]
async fn an_older_value_that_is_told_again_and_again_is_one_memory() {
    let kernel = Kernel::start().await;
    let caller = member(&kernel, "acme").await;
    let of = |at: &str| json!({ "slot": "rating", "eventTime": at });
    told(&caller, BAA1, of(NOVEMBER)).await;
    let august = told(&caller, BAA2, of(AUGUST)).await;
    for spelled in [BAA2, " ACME is  rated baa2.", BAA2, BAA2] {
        let again = tell(&caller, spelled, of(AUGUST)).await.body;
        assert_eq!(again["deduplicated"], json!([august]), "{again}");
    }
    assert_eq!(
        kernel
            .sql_value("select count(*) from memory_objects")
            .await,
        "2"
    );
    let read = caller.read(&august).await.body;
    assert_eq!(read["telemetry"]["accessCount"], 4);
    // Of another moment it is another value, and now another again.
    told(&caller, BAA2, of("2025-09-01T00:00:00Z")).await;
    told(&caller, BAA2, json!({ "slot": "rating" })).await;
    assert_eq!(found_now(&caller, "Acme rated").await, [BAA2]);
    assert_eq!(
        kernel
            .sql_value("select count(*) from memory_objects")
            .await,
        "4"
    );
}

const BROWN: &str = "Kite is brown.";
const BLUE: &str = "Kite is blue.";
const GREEN: &str = "Kite is green.";

/// Brown of `source`, and blue, which an agent names as its successor and is put aside.
struct Kite {
    kernel: Kernel,
    caller: Caller,
    brown: String,
    blue: String,
}

impl Kite {
    async fn of(source: &str) -> Self {
        let kernel = Kernel::start().await;
        let caller = member(&kernel, "acme").await;
        let brown = told(&caller, BROWN, from_source(source)).await;
        let agent = kernel.key("acme", "agent:kite", Role::Agent).await;
        let aside = tell(&agent, BLUE, json!({ "supersedes": brown }))
            .await
            .body;
        let blue = ids_in(&aside["disputed"]).pop().expect("put aside");
        Self {
            kernel,
            caller,
            brown,
            blue,
        }
    }

    async fn says(&self, content: &str, source: &str) -> Value {
        tell(&self.caller, content, from_source(source)).await.body
    }

    async fn found(&self) -> Vec<String> {
        found_now(&self.caller, "Kite").await
    }

    /// The pairs that wait for somebody.
    async fn waiting(&self) -> Vec<[String; 2]> {
        let waiting = disputes(&self.caller, json!({})).await;
        let id = |one: &Value, side: &str| one[side]["id"].as_str().expect("an id").to_owned();
        let pair = |one| [id(one, "incoming"), id(one, "incumbent")];
        waiting.iter().map(pair).collect()
    }
}

#[tokio::test]
async fn a_retelling_that_ranks_below_the_incumbent_is_put_aside_against_it() {
    let kite = Kite::of("manual").await;
    let again = kite.says(BLUE, "swap-import").await;
    let [id] = &ids_in(&again["disputed"])[..] else {
        panic!("it is put aside: {again}");
    };
    assert_ne!(*id, kite.blue);
    assert_eq!(again["stored"], json!([]));
    assert_eq!(kite.found().await, [BROWN]);
    assert_eq!(kite.waiting().await, [[id.clone(), kite.brown.clone()]]);
    // Higher still, and as high as the incumbent.
    let last = kite.says(BLUE, "document").await;
    let last = ids_in(&last["disputed"]).pop().expect("put aside");
    assert_eq!(kite.waiting().await, [[last, kite.brown.clone()]]);
    let won = kite.says(BLUE, "manual").await;
    assert_eq!(won["superseded"], json!([kite.brown]), "{won}");
    assert_eq!(kite.found().await, [BLUE]);
    assert_eq!(kite.waiting().await, [[""; 2]; 0]);
}

#[tokio::test]
async fn a_retelling_that_ranks_no_lower_than_the_incumbent_takes_its_place() {
    for source in ["manual", "document"] {
        let kite = Kite::of("document").await;
        let again = kite.says(BLUE, source).await;
        let new = ids_in(&again["stored"]).pop();
        let new = new.unwrap_or_else(|| panic!("{source}: {again}"));
        assert_eq!(again["superseded"], json!([kite.brown]), "{source}");
        assert_eq!(kite.found().await, [BLUE], "{source}");
        let chain = history(&kite.caller, &new).await;
        assert_eq!(each(&chain, "id"), [&kite.brown, &new]);
        let (brown, blue) = (&chain[0], &chain[1]);
        assert_eq!(
            brown["validTo"], blue["validFrom"],
            "one ends where the other begins"
        );
        assert_eq!(kite.waiting().await, [[""; 2]; 0]);
        let all = disputes(&kite.caller, json!({ "all": true })).await;
        assert_eq!(each(&all, "decision"), ["superseded", "disputed"]);
        assert_eq!(each(&all, "resolution"), ["-", "retold"]);
        // And it can be taken back.
        let admin = super::admin(&kite.kernel, "acme").await;
        let decided = all[0]["id"].as_str().expect("an id");
        resolve(&admin, decided, "undo").await.expect_status(200);
        assert_eq!(kite.found().await, [BROWN], "{source}");
    }
}

#[tokio::test]
async fn what_took_the_incumbents_place_stands_for_it_when_a_text_is_retold() {
    let kite = Kite::of("manual").await;
    let mut fields = from_source("manual");
    fields["supersedes"] = json!(kite.brown);
    let green = told(&kite.caller, GREEN, fields).await;
    let again = kite.says(BLUE, "document").await;
    let aside = ids_in(&again["disputed"]).pop().expect("put aside");
    assert_eq!(kite.waiting().await, [[aside, green.clone()]]);
    assert_eq!(kite.found().await, [GREEN]);
    let again = kite.says(BLUE, "manual").await;
    assert_eq!(again["superseded"], json!([green]), "{again}");
    assert_eq!(kite.found().await, [BLUE]);
}

#[tokio::test]
async fn an_incumbent_that_is_gone_does_not_count_against_a_retelling() {
    let kite = Kite::of("manual").await;
    let admin = super::admin(&kite.kernel, "acme").await;
    let mut fields = from_source("manual");
    fields["supersedes"] = json!(kite.brown);
    let green = told(&kite.caller, GREEN, fields).await;
    let erased = admin.call("forget", json!({ "id": green })).await;
    erased.expect_status(200);
    let again = kite.says(BLUE, "document").await;
    assert_eq!(ids_in(&again["stored"]).len(), 1, "{again}");
    assert_eq!(kite.found().await, [BLUE]);
    assert_eq!(kite.waiting().await, [[""; 2]; 0]);
}

#[tokio::test]
async fn a_retelling_that_names_another_is_weighed_against_both() {
    for (source, holds) in [
        ("swap-import", [BROWN, GREEN].as_slice()),
        ("manual", &[BLUE]),
    ] {
        let kite = Kite::of("manual").await;
        let green = told(&kite.caller, GREEN, from_source("conversation")).await;
        let mut fields = from_source(source);
        fields["supersedes"] = json!(green);
        let again = tell(&kite.caller, BLUE, fields).await.body;
        assert_eq!(kite.found().await, holds, "{source}: {again}");
        if source == "manual" {
            assert_eq!(again["superseded"], json!([green, kite.brown]), "{again}");
            let all = disputes(&kite.caller, json!({ "all": true })).await;
            let superseded = all.iter().filter(|one| one["decision"] == "superseded");
            assert_eq!(superseded.count(), 2, "each can be found");
        } else {
            let aside = ids_in(&again["disputed"]).pop().expect("put aside");
            assert_eq!(kite.waiting().await, [[aside, kite.brown.clone()]]);
        }
    }
}

#[tokio::test]
async fn a_retelling_closes_nothing_that_its_writer_may_not_read() {
    let kernel = Kernel::start().await;
    let admin = super::admin(&kernel, "acme").await;
    let mut fields = from_source("document");
    fields["provenance"]["sourceAccess"] = json!({ "principals": ["user:admin"] });
    let brown = told(&admin, BROWN, fields).await;
    let aside = json!({ "supersedes": brown, "provenance": { "source": "conversation" } });
    let aside = tell(&admin, BLUE, aside).await.body;
    assert_eq!(ids_in(&aside["disputed"]).len(), 1, "{aside}");
    let other = member(&kernel, "acme").await;
    let again = tell(&other, BLUE, from_source("manual")).await.body;
    assert_eq!(again["superseded"], json!([]), "{again}");
    assert_eq!(ids_in(&again["disputed"]).len(), 1, "{again}");
    assert_eq!(found_now(&admin, "Kite").await, [BROWN]);
    let waiting = disputes(&admin, json!({})).await;
    assert_eq!(each(&waiting, "decision"), ["disputed"]);
}

#[tokio::test]
async fn retellings_at_once_leave_one_belief() {
    let kite = Kite::of("document").await;
    let says = |source| kite.says(BLUE, source);
    let all = tokio::join!(
        says("manual"),
        says("document"),
        says("manual"),
        says("swap-import"),
        says("document"),
    );
    assert_eq!(kite.found().await, [BLUE], "{all:?}");
    assert_eq!(kite.waiting().await, [[""; 2]; 0]);
}
