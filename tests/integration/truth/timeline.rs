//! W6: what held when. By the slot, by what the model finds, and by naming the predecessor;
//! told in the order of events and in any other.

use halofy_tests::{Caller, Kernel, ScriptedModel};
use serde_json::{Value, json};

use super::{by_subject, each, found, found_at, found_now, history, kernel_with, member};
use super::{settled, tell, told};

const BAA2: &str = "Acme is rated Baa2.";
const BAA1: &str = "Acme is rated Baa1.";
const AUGUST: &str = "2025-08-04T09:00:00Z";
const SEPTEMBER: &str = "2025-09-15T00:00:00Z";
const BEFORE: &str = "2025-11-10T11:59:59.999999Z";
const NOVEMBER: &str = "2025-11-10T12:00:00Z";

/// How the two are known to be of one subject.
#[derive(Debug, Clone, Copy, PartialEq)]
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
        let kernel = match by {
            By::Slot => Kernel::start().await,
            By::Model => kernel_with(&model).await,
        };
        let caller = member(&kernel, "acme").await;
        Self {
            kernel,
            caller,
            by,
            _model: model,
        }
    }

    async fn told(&self, content: &str, at: &str) -> String {
        let fields = match self.by {
            By::Slot => json!({ "eventTime": at, "slot": "rating/acme" }),
            By::Model => json!({ "eventTime": at, "verbatim": false }),
        };
        let id = told(&self.caller, content, fields).await;
        settled(&self.kernel).await;
        id
    }
}

#[tokio::test]
async fn w6_now_the_newer_holds_and_then_the_older_did_whichever_was_told_first() {
    for by in [By::Slot, By::Model] {
        for late in [false, true] {
            let rated = Rated::by(by).await;
            let (older, newer) = if late {
                let newer = rated.told(BAA1, NOVEMBER).await;
                (rated.told(BAA2, AUGUST).await, newer)
            } else {
                let older = rated.told(BAA2, AUGUST).await;
                (older, rated.told(BAA1, NOVEMBER).await)
            };
            eprintln!("by {by:?}, the older told late: {late}");
            each_holds_in_its_time(&rated.caller, [&older, &newer]).await;
            the_history_lane_shows_both(&rated.caller, [&older, &newer]).await;
        }
    }
}

async fn each_holds_in_its_time(caller: &Caller, [older, newer]: [&str; 2]) {
    assert_eq!(found_now(caller, "Acme rated").await, [BAA1]);
    for (moment, expected, id) in [
        (AUGUST, BAA2, older),
        (SEPTEMBER, BAA2, older),
        (BEFORE, BAA2, older),
        (NOVEMBER, BAA1, newer),
        ("2026-01-01T00:00:00+01:00", BAA1, newer),
    ] {
        assert_eq!(
            found_at(caller, "Acme rated", moment).await,
            [expected],
            "{moment}"
        );
        for asked in [older, newer] {
            let body = json!({ "id": asked, "asOf": moment });
            let read = caller.call("read", body).await.expect_status(200);
            assert_eq!(read.body["id"], id, "{asked} at {moment}");
            assert_eq!(read.body["content"], expected);
        }
    }
    let early = "2025-08-04T08:59:59.999999Z";
    assert_eq!(found_at(caller, "Acme rated", early).await, [""; 0]);
    let body = json!({ "id": older, "asOf": early });
    caller
        .call("read", body)
        .await
        .expect_problem(404, "not_found");
}

async fn the_history_lane_shows_both(caller: &Caller, [older, newer]: [&str; 2]) {
    for asked in [older, newer] {
        let chain = history(caller, asked).await;
        assert_eq!(each(&chain, "id"), [older, newer], "from {asked}");
        assert_eq!(each(&chain, "validFrom"), [AUGUST, NOVEMBER]);
        assert_eq!(each(&chain, "validTo"), [NOVEMBER, "-"]);
        assert_eq!(each(&chain, "supersedes"), ["-", older]);
    }
    let body = json!({ "query": "Acme rated", "validOnly": false });
    let both = caller.call("search", body).await.expect_status(200);
    let mut shown: Vec<(&str, bool)> = Vec::new();
    for hit in both.body["results"].as_array().expect("results") {
        let current = hit["current"].as_bool().expect("a flag");
        shown.push((hit["id"].as_str().expect("an id"), current));
    }
    shown.sort_unstable();
    let mut expected = [(older, false), (newer, true)];
    expected.sort_unstable();
    assert_eq!(shown, expected);
    let stats = caller.stats().await.expect_status(200);
    let counts = json!({ "current": 1, "superseded": 1, "disputed": 0 });
    assert_eq!(stats.body["memories"], counts);
}

/// Ratings of three months; each holds until the next begins.
const MONTHS: [(&str, &str); 3] = [
    ("Acme is rated Ba1.", "2025-06-01T00:00:00Z"),
    (BAA2, AUGUST),
    (BAA1, NOVEMBER),
];

#[tokio::test]
async fn w6_of_three_told_in_any_order_exactly_one_holds_at_each_moment() {
    for by in [By::Slot, By::Model] {
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            let rated = Rated::by(by).await;
            let mut ids = vec![String::new(); 3];
            for month in order {
                let (content, at) = MONTHS[month];
                ids[month] = rated.told(content, at).await;
            }
            let caller = &rated.caller;
            for (moment, holds) in [
                ("2025-06-01T00:00:00Z", 0),
                ("2025-07-01T00:00:00Z", 0),
                ("2025-08-04T08:59:59.999999Z", 0),
                (AUGUST, 1),
                (SEPTEMBER, 1),
                (BEFORE, 1),
                (NOVEMBER, 2),
            ] {
                let found = found_at(caller, "Acme rated", moment).await;
                assert_eq!(found, [MONTHS[holds].0], "{by:?}, {order:?}, {moment}");
                let body = json!({ "id": ids[0], "asOf": moment });
                let read = caller.call("read", body).await.expect_status(200);
                assert_eq!(read.body["id"], ids[holds], "{by:?}, {order:?}, {moment}");
            }
            assert_eq!(found_now(caller, "Acme rated").await, [BAA1]);
            let chain = history(caller, &ids[1]).await;
            let before = ["-", &ids[0], &ids[1]];
            assert_eq!(each(&chain, "id"), ids, "{by:?}, {order:?}");
            assert_eq!(each(&chain, "supersedes"), before, "{by:?}, {order:?}");
        }
    }
}

#[tokio::test]
async fn w6_a_predecessor_that_is_named_ends_where_its_successor_begins() {
    let kernel = Kernel::start().await;
    let caller = member(&kernel, "acme").await;
    let older = told(&caller, BAA2, json!({ "eventTime": AUGUST })).await;
    let naming = json!({ "eventTime": NOVEMBER, "supersedes": older });
    let answer = tell(&caller, BAA1, naming.clone()).await;
    assert_eq!(answer.body["superseded"], json!([older]));
    let newer = answer.id().to_owned();
    each_holds_in_its_time(&caller, [&older, &newer]).await;
    the_history_lane_shows_both(&caller, [&older, &newer]).await;
    // Said again, it takes nobody's place; not even its own.
    let again = tell(&caller, BAA1, naming).await;
    assert_eq!(again.body["deduplicated"], json!([newer]));
    assert_eq!(again.body["superseded"], json!([]));
    // Whoever names an older one of the chain means the one that holds.
    let naming = json!({ "supersedes": older });
    let third = tell(&caller, "Acme is rated A3.", naming).await;
    assert_eq!(third.body["superseded"], json!([newer]));
    let chain = history(&caller, &older).await;
    assert_eq!(each(&chain, "id"), [&older, &newer, third.id()]);
}

#[tokio::test]
async fn w6_what_is_said_to_replace_a_fact_replaces_it_though_it_was_known() {
    let kernel = Kernel::start().await;
    let caller = member(&kernel, "acme").await;
    let wrong = told(&caller, BAA2, json!({})).await;
    let known = told(&caller, BAA1, json!({})).await;
    let answer = tell(&caller, BAA1, json!({ "supersedes": wrong })).await;
    assert_eq!(answer.body["deduplicated"], json!([known]));
    assert_eq!(answer.body["superseded"], json!([wrong]));
    assert_eq!(found_now(&caller, "Acme rated").await, [BAA1]);
    assert_eq!(
        each(&history(&caller, &wrong).await, "id"),
        [&wrong, &known]
    );
    // Taking it back restores the one, and does not take the other away.
    let admin = super::admin(&kernel, "acme").await;
    let decided = super::disputes(&admin, json!({ "all": true })).await;
    let id = decided[0]["id"].as_str().expect("an id");
    super::resolve(&admin, id, "undo").await.expect_status(200);
    assert_eq!(found_now(&caller, "Acme rated").await, [BAA1, BAA2]);
}

#[tokio::test]
async fn w6_a_slot_holds_what_was_last_put_in_it_also_where_the_text_is_known() {
    let kernel = Kernel::start().await;
    let caller = member(&kernel, "acme").await;
    let put = async |slot: &str, text: &str| {
        let fields = json!({ "slot": slot, "kind": "pointer" });
        tell(&caller, text, fields).await.expect_status(200)
    };
    let holds = async |slot: &str| {
        let sql = format!(
            "select content from memory_objects where slot = '{slot}' and t_valid_to is null"
        );
        kernel.sql_value(sql).await
    };
    tell(&caller, "The cache is empty.", json!({})).await;
    for slot in ["left", "right"] {
        for text in [
            "The cache is empty.",
            "The cache is full.",
            "The cache is empty.",
        ] {
            let answer = put(slot, text).await;
            assert_eq!(
                super::ids_in(&answer.body["stored"]).len(),
                1,
                "{slot}: {text}"
            );
            assert_eq!(holds(slot).await, text);
            let again = put(slot, text).await;
            assert_eq!(super::ids_in(&again.body["deduplicated"]).len(), 1);
        }
    }
    assert_eq!(holds("left").await, "The cache is empty.");
    let chain = history(&caller, put("left", "The cache is empty.").await.id()).await;
    assert_eq!(chain.len(), 3);
    let both: Value = json!({ "slot": "left", "supersedes": chain[0]["id"] });
    let mut body = json!({ "content": "x y" });
    body.as_object_mut()
        .expect("an object")
        .extend(both.as_object().expect("one").clone());
    caller
        .call("write", body)
        .await
        .expect_invalid("supersedes");
    assert_eq!(
        found(&caller, "cache", json!({ "validOnly": false }))
            .await
            .len(),
        7
    );
}
