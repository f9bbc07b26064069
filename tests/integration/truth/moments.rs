//! W7, R3 and R6: moments, years and vectors that are not what they should be.

use halofy_tests::{Kernel, Mood, Role, ScriptedEmbedder};
use serde_json::json;

use super::{count, found, member};

/// Texts, and the moment in UTC that they name; none where they name none.
const MOMENTS: [(&str, Option<&str>); 22] = [
    ("2025-08-01T00:00:00", None),
    ("2025-08-01", None),
    ("2025-13-01", None),
    ("2025-13-01T00:00:00Z", None),
    ("2025-02-29T00:00:00Z", None),
    ("2025-08-01T24:00:00Z", None),
    ("2025-08-01T00:00:00+25:00", None),
    ("1754006400", None),
    ("", None),
    ("now", None),
    ("2025-08-01T00:00:00\u{0}Z", None),
    ("10000-01-01T00:00:00Z", None),
    ("-0001-01-01T00:00:00Z", None),
    // A year that cannot be written, in UTC.
    ("0000-01-01T00:00:00+02:00", None),
    ("9999-12-31T23:59:59-02:00", None),
    ("2025-08-01T12:00:60Z", None),
    ("2025-08-01T00:00:00Z", Some("2025-08-01T00:00:00Z")),
    ("2025-08-01T01:30:00+02:00", Some("2025-07-31T23:30:00Z")),
    (
        "2025-08-01T00:00:00.1234567-00:00",
        Some("2025-08-01T00:00:00.123456Z"),
    ),
    ("0000-01-01T00:00:00Z", Some("0000-01-01T00:00:00Z")),
    (
        "9999-12-31T23:59:59.999999Z",
        Some("9999-12-31T23:59:59.999999Z"),
    ),
    ("2016-12-31T23:59:60Z", Some("2016-12-31T23:59:59.999999Z")),
];

#[tokio::test]
async fn w7_a_moment_is_stored_in_utc_or_refused_by_its_field() {
    let kernel = Kernel::start().await;
    let caller = member(&kernel, "acme").await;
    let mut stored = 0;
    for (at, (text, utc)) in MOMENTS.into_iter().enumerate() {
        let content = format!("Ferry {at} left.");
        let body = json!({ "content": content, "eventTime": text });
        let answer = caller.call("write", body).await;
        let Some(utc) = utc else {
            answer.expect_invalid("eventTime");
            continue;
        };
        let id = answer.expect_status(200).id().to_owned();
        let memory = caller.read(&id).await.expect_status(200);
        assert_eq!(memory.body["eventTime"], utc, "{text}");
        stored += 1;
        // However far away it is, everything that shows it can.
        assert!(found(&caller, &content, json!({})).await.contains(&content));
        assert_eq!(super::history(&caller, &id).await[0]["eventTime"], utc);
    }
    assert_eq!(count(&kernel, "memory_objects").await, stored);
    let zone = "memory_objects where event_time at time zone 'utc'
                = timestamp '2025-07-31 23:30:00'";
    assert_eq!(count(&kernel, zone).await, 1, "in UTC");
}

#[tokio::test]
async fn w7_a_moment_that_is_asked_for_is_one_or_refused_by_its_field() {
    let kernel = Kernel::start().await;
    let caller = member(&kernel, "acme").await;
    let old = json!({ "content": "Ferry one left.", "eventTime": "0000-01-01T00:00:00Z" });
    let id = caller
        .call("write", old)
        .await
        .expect_status(200)
        .id()
        .to_owned();
    for (text, utc) in MOMENTS {
        let search = json!({ "query": "ferry", "asOf": text });
        let search = caller.call("search", search).await;
        let read = caller.call("read", json!({ "id": id, "asOf": text })).await;
        if utc.is_some() {
            // It left in the year 0, so it holds at all of these.
            assert_eq!(search.expect_status(200).ids(), [&id], "{text}");
            read.expect_status(200);
        } else {
            search.expect_invalid("asOf");
            read.expect_invalid("asOf");
        }
    }
    let both = json!({ "query": "ferry", "asOf": "2025-08-01T00:00:00Z", "validOnly": false });
    caller.call("search", both).await.expect_invalid("asOf");
}

#[tokio::test]
async fn w7_what_is_yet_to_come_is_believed_from_the_moment_that_it_is_told() {
    let kernel = Kernel::start().await;
    let caller = member(&kernel, "acme").await;
    let before = super::moment(&kernel).await;
    let body = json!({ "content": "Ferry one leaves.", "eventTime": "9999-01-01T00:00:00Z" });
    let id = caller
        .call("write", body)
        .await
        .expect_status(200)
        .id()
        .to_owned();
    let memory = caller.read(&id).await.expect_status(200).body;
    assert_eq!(memory["validFrom"], memory["assertionTime"]);
    assert_eq!(super::found_now(&caller, "ferry").await.len(), 1);
    assert_eq!(super::found_at(&caller, "ferry", &before).await, [""; 0]);
}

#[tokio::test]
async fn r6_years_that_no_calendar_has_are_words_of_a_query() {
    let kernel = Kernel::start().await;
    let caller = member(&kernel, "acme").await;
    let fact = "The glacier is from the year 100,000.";
    caller.write(fact).await.expect_status(200);
    for query in [
        "the year 100,000",
        "100000-01-01T00:00:00Z",
        "十万年前",
        "1 BC",
        "-0044-03-15",
        "year 99999999999999999999999999",
        "2025-13-45",
        "infinity",
        "epoch",
    ] {
        for more in [
            json!({}),
            json!({ "validOnly": false }),
            json!({ "asOf": "2999-01-01T00:00:00Z" }),
        ] {
            found(&caller, query, more).await;
        }
    }
    assert_eq!(
        super::found_now(&caller, "glacier of the year 100,000").await,
        [fact]
    );
    for content in [
        "It was in the year 100,000.",
        "十万年前 there was ice.",
        "Born in 1 BC.",
    ] {
        caller.write(content).await.expect_status(200);
    }
}

#[tokio::test]
async fn r3_what_is_no_vector_is_refused_by_name_of_its_fault_and_never_stored() {
    let embedder = ScriptedEmbedder::new(256);
    let kernel = Kernel::with().embedder(embedder.clone()).start().await;
    let caller = kernel.key("acme", "user:u", Role::Member).await;
    let kept = caller.write("The ferry leaves at noon.").await;
    let kept = kept.expect_status(200).id().to_owned();
    let with = |number: f32| {
        let mut vector = vec![0.5; 256];
        vector[255] = number;
        vector
    };
    for (vector, named) in [
        (vec![0.5; 768], ["256", "768"]),
        (vec![0.5; 255], ["256", "255"]),
        (Vec::new(), ["256", "0"]),
        (with(f32::NAN), ["255", "NaN"]),
        (with(f32::INFINITY), ["255", "inf"]),
        (with(f32::NEG_INFINITY), ["255", "-inf"]),
        (vec![0.0; 256], ["256", "zero"]),
        (vec![-0.0; 256], ["256", "zero"]),
    ] {
        embedder.becomes(Mood::Says(vector));
        for more in [
            json!({}),
            json!({ "slot": "s" }),
            json!({ "supersedes": kept }),
        ] {
            let mut body = json!({ "content": "The ferry leaves at one." });
            let fields = body.as_object_mut().expect("an object");
            fields.extend(more.as_object().expect("an object").clone());
            let refused = caller.call("write", body).await;
            let refused = refused.expect_problem(503, "unavailable");
            let detail = refused.body["detail"].as_str().expect("a detail");
            assert!(
                named.iter().all(|part| detail.contains(part)),
                "{named:?}: {detail}"
            );
        }
        // A question can do without its vector, and its answer says so.
        for more in [
            json!({}),
            json!({ "validOnly": false }),
            json!({ "asOf": "2999-01-01T00:00:00Z" }),
        ] {
            let mut body = json!({ "query": "ferry" });
            let fields = body.as_object_mut().expect("an object");
            fields.extend(more.as_object().expect("an object").clone());
            let answer = caller.call("search", body).await.expect_status(200);
            assert_eq!(answer.body["degraded"], "embedding_unavailable", "{more}");
            assert_eq!(answer.ids(), [&kept], "{more}");
        }
    }
    assert_eq!(count(&kernel, "memory_objects").await, 1);
    let sizes = "select distinct vector_dims(embedding) from memory_objects";
    assert_eq!(kernel.sql_value(sizes).await, "256");
}
