//! Canonical bytes and hashes against published vectors and an independent implementation, and what
//! sealing does to an event.

use halofy_audit::{
    Chain, Columns, Detail, Event, GENESIS, Head, MAX_PURPOSE_CHARS, Outcome, canonical_bytes,
    leaf_hash, purpose, timestamp, truncate_to_micros,
};
use proptest::prelude::*;
use time::{OffsetDateTime, UtcOffset, macros::datetime};

use crate::support::{any_event, denied_write_event, search_event};

fn canonical_of(json: &str) -> Vec<u8> {
    let value: serde_json::Value = serde_json::from_str(json).expect("the vector is JSON");
    serde_json_canonicalizer::to_vec(&value).expect("the vector has a canonical form")
}

#[test]
fn line_separators_and_letters_stay_raw_and_members_are_sorted() {
    // The bytes that Python's json.dumps(sort_keys=True, ensure_ascii=False, separators=(",", ":")) gives.
    let expected =
        hex::decode("7b2261223a22c3a9222c2262223a312c2263223a22e280a8227d").expect("hex");
    assert_eq!(canonical_of(r#"{"b":1,"a":"é","c":"\u2028"}"#), expected);
}

#[test]
fn the_canonicaliser_gives_the_vectors_of_rfc_8785() {
    // Section 3.2.2 to 3.2.4.
    let input = r#"{
        "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"#;
    let expected = concat!(
        r#"{"literals":[null,true,false],"#,
        r#""numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#,
        r#""string":"€$\u000f\nA'B\"\\\\\"/"}"#
    );
    assert_eq!(
        String::from_utf8(canonical_of(input)).as_deref(),
        Ok(expected)
    );
    // Section 3.2.3: members are ordered by UTF-16 code units, so the emoji precedes U+FB33.
    let input = r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh",
        "1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control",
        "\u00f6":"Latin Small Letter O With Diaeresis"}"#;
    let sorted = String::from_utf8(canonical_of(input)).expect("UTF-8");
    let places: Vec<_> = [
        "Carriage", "One", "Control", "Latin", "Euro", "Emoji", "Hebrew",
    ]
    .map(|name| sorted.find(name).expect("each member is kept"))
    .into();
    assert!(places.is_sorted(), "{sorted}");
}

#[test]
fn bytes_and_hashes_equal_an_independent_implementation() {
    // All values computed with Python's json, struct and hashlib.
    let first = search_event().seal();
    let second = denied_write_event().seal();
    assert_eq!(
        std::str::from_utf8(first.canonical()),
        Ok(concat!(
            r#"{"actor":"user:dana","agentId":"http","callId":"01JGJ4V3M8N5Q2R7S9T0V1W2X3","#,
            r#""detail":"returned=2 tokens=60 driver=baseline","keyId":"k_7","memoryId":null,"#,
            r#""namespace":"acme/eng/platform","op":"search","#,
            "\"purpose\":\"{\\\"b\\\":1,\\\"a\\\":\\\"é\\\",\\\"c\\\":\\\"\u{2028}\\\"}\\t🦀\",",
            r#""result":"ok","ts":"2026-01-02T03:04:05.123456Z","v":1}"#
        ))
    );
    assert_eq!(
        std::str::from_utf8(second.canonical()),
        Ok(concat!(
            r#"{"actor":"user:erin","agentId":"mcp","callId":"01JGJ4V3M8N5Q2R7S9T0V1W2X4","detail":null,"#,
            r#""keyId":null,"memoryId":"01JGJ4V3M8N5Q2R7S9T0V1W2X5","namespace":"acme","op":"write","#,
            r#""purpose":null,"result":"denied","ts":"2026-01-02T03:04:05.000000Z","v":1}"#
        ))
    );
    assert_eq!(
        hex::encode(first.leaf()),
        "e1fd46b08efaccdad9f536561650aca8cb9d926723d9da12e7b19d2b5407da88"
    );
    assert_eq!(
        hex::encode(second.leaf()),
        "7450606ace5a38d19df8a2ac2ce15ec58208b296710a72b71065c5ea6db05629"
    );

    let mut chain = Chain::new();
    let a = chain.extend(7, 742, first.leaf());
    let b = chain.extend(5, 743, second.leaf());
    assert_eq!((a.index, a.seq, a.xid, b.index), (0, 7, 742, 1));
    assert_eq!(
        hex::encode(a.hash),
        "47a16ee45d5e9fe1e0404a757ab42f4b798f9af9bb570fadfdd896a93ccfb4d9"
    );
    assert_eq!(
        hex::encode(b.hash),
        "8aa82354427a25c0c68fdfb9295d3d70df755a39d0a18fa5866208498945afa0"
    );
    assert_eq!(
        chain.head(),
        Some(Head {
            index: 1,
            hash: b.hash
        })
    );
}

#[test]
fn the_leaf_of_nothing_is_the_vector_of_rfc_6962() {
    // The leaf hash of an empty entry in the test vectors of the certificate-transparency logs.
    let expected = "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d";
    assert_eq!(hex::encode(leaf_hash(b"")), expected);
}

#[test]
fn a_resumed_chain_continues_like_one_that_never_stopped() {
    let mut whole = Chain::new();
    assert_eq!(whole.head(), None);
    let first = whole.extend(1, 700, GENESIS);
    let mut resumed = Chain::resume(Head {
        index: first.index,
        hash: first.hash,
    });
    assert_eq!(
        resumed.extend(2, 701, [9; 32]),
        whole.extend(2, 701, [9; 32])
    );
    assert_eq!(resumed, whole);
}

#[test]
fn times_are_cut_to_microseconds_and_never_rounded_up() {
    let cut = truncate_to_micros(datetime!(2026-01-02 03:04:05.123456789 UTC));
    assert_eq!(cut, datetime!(2026-01-02 03:04:05.123456 UTC));
    assert_eq!(
        timestamp(datetime!(2026-01-02 03:04:05.999999999 UTC)),
        "2026-01-02T03:04:05.999999Z"
    );
    assert_eq!(
        timestamp(datetime!(1969-12-31 23:59:59.000000999 UTC)),
        "1969-12-31T23:59:59.000000Z"
    );
    assert_eq!(
        timestamp(datetime!(2026-01-01 00:30:00 +1)),
        "2025-12-31T23:30:00.000000Z"
    );
}

#[test]
fn a_time_beyond_the_calendar_does_not_panic() {
    let west = UtcOffset::from_hms(-23, 0, 0).expect("a valid offset");
    let late = datetime!(9999-12-31 23:59:59.5 UTC).replace_offset(west);
    assert_eq!(timestamp(late), "9999-12-31T23:59:59.999999Z");
    let east = UtcOffset::from_hms(23, 0, 0).expect("a valid offset");
    let early = datetime!(-9999-01-01 00:00:00 UTC).replace_offset(east);
    assert_eq!(timestamp(early), "-9999-01-01T00:00:00.000000Z");
}

#[test]
fn the_purpose_is_cut_at_characters_not_bytes() {
    let query = "🦀".repeat(MAX_PURPOSE_CHARS) + "tail";
    let cut = purpose(&query);
    assert_eq!(cut.chars().count(), 200);
    assert_eq!(cut.len(), 800);
    let sealed = Event {
        purpose: Some(query),
        ..search_event()
    }
    .seal();
    assert_eq!(sealed.columns().purpose, Some(cut));
    assert_eq!(purpose("short"), "short");
}

#[test]
fn the_character_that_postgres_text_cannot_hold_is_replaced() {
    let sealed = Event {
        actor: "a\0b".into(),
        memory_id: Some("\0".into()),
        ..search_event()
    }
    .seal();
    assert_eq!(sealed.columns().actor, "a\u{fffd}b");
    assert_eq!(sealed.columns().memory_id.as_deref(), Some("\u{fffd}"));
}

#[test]
fn an_empty_detail_is_absent_and_an_empty_text_is_not() {
    let event = Event {
        detail: Some(Detail::new()),
        purpose: Some(String::new()),
        ..search_event()
    };
    let sealed = event.seal();
    assert_eq!(sealed.columns().detail, None);
    assert_eq!(sealed.columns().purpose.as_deref(), Some(""));
}

#[test]
fn every_outcome_has_the_text_of_its_column() {
    let texts =
        [Outcome::Ok, Outcome::Denied, Outcome::Miss, Outcome::Error].map(|o| o.to_string());
    assert_eq!(texts, ["ok", "denied", "miss", "error"]);
}

/// What a database does to the columns: text as it is, without U+0000, and time as whole microseconds.
fn through_a_database(columns: &Columns) -> Columns {
    let json = serde_json::to_string(columns).expect("columns serialise");
    assert!(!json.contains("\\u0000"));
    let micros = columns.ts.unix_timestamp_nanos().div_euclid(1_000);
    let ts = OffsetDateTime::from_unix_timestamp_nanos(micros * 1_000).expect("in range");
    Columns {
        ts,
        ..columns.clone()
    }
}

proptest! {
    #[test]
    fn columns_read_back_give_the_same_bytes(event in any_event()) {
        let sealed = event.seal();
        let read = through_a_database(sealed.columns());
        prop_assert_eq!(&read, sealed.columns());
        prop_assert_eq!(canonical_bytes(&read), sealed.canonical());
    }
}
