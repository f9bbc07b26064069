//! Rows to test with: chains made the way the kernel makes them, and proptest strategies.

use halofy_audit::{
    Chain, Detail, Event, Outcome, Record, Report, StoredEntry, StoredRow, Verifier,
};
use proptest::prelude::*;
use time::{OffsetDateTime, macros::datetime};

pub(crate) fn search_event() -> Event {
    Event {
        call_id: "01JGJ4V3M8N5Q2R7S9T0V1W2X3".into(),
        ts: datetime!(2026-01-02 03:04:05.123456789 UTC),
        actor: "user:dana".into(),
        agent_id: "http".into(),
        key_id: Some("k_7".into()),
        op: "search".into(),
        memory_id: None,
        namespace: "acme/eng/platform".into(),
        purpose: Some("{\"b\":1,\"a\":\"é\",\"c\":\"\u{2028}\"}\t🦀".into()),
        result: Outcome::Ok,
        detail: Some(
            Detail::new()
                .field("returned", 2)
                .field("tokens", 60)
                .field("driver", "baseline"),
        ),
    }
}

pub(crate) fn denied_write_event() -> Event {
    Event {
        call_id: "01JGJ4V3M8N5Q2R7S9T0V1W2X4".into(),
        ts: datetime!(2026-01-02 04:04:05 +1),
        actor: "user:erin".into(),
        agent_id: "mcp".into(),
        key_id: None,
        op: "write".into(),
        memory_id: Some("01JGJ4V3M8N5Q2R7S9T0V1W2X5".into()),
        namespace: "acme".into(),
        purpose: None,
        result: Outcome::Denied,
        detail: None,
    }
}

/// Seals and chains the events; sequence numbers count down and transactions up, so that neither is
/// mistaken for the index.
pub(crate) fn chained(events: impl IntoIterator<Item = Event>) -> Vec<StoredRow> {
    let mut chain = Chain::new();
    let row = |(i, event): (i64, Event)| {
        let (seq, xid) = (1_000 - i, 742 + i);
        let sealed = event.seal();
        let entry = chain.extend(seq, xid.cast_unsigned(), sealed.leaf());
        StoredRow {
            entry: Some(StoredEntry::from(&entry)),
            record: Some(Record::of(&sealed, seq, xid)),
        }
    };
    (0..).zip(events).map(row).collect()
}

/// `n` rows that differ in their call id.
pub(crate) fn rows(n: usize) -> Vec<StoredRow> {
    chained((0..n).map(|i| Event {
        call_id: format!("CALL{i}"),
        ..search_event()
    }))
}

pub(crate) fn verify(rows: &[StoredRow]) -> Report {
    let mut verifier = Verifier::new();
    for row in rows {
        let _ = verifier.push(row);
    }
    verifier.finish()
}

pub(crate) fn entry(row: &mut StoredRow) -> &mut StoredEntry {
    row.entry.as_mut().expect("the row is chained")
}

pub(crate) fn record(row: &mut StoredRow) -> &mut Record {
    row.record.as_mut().expect("the row has a record")
}

pub(crate) fn any_event() -> impl Strategy<Value = Event> {
    // All characters, control characters and U+0000 among them.
    let text = || proptest::collection::vec(any::<char>(), 0..8).prop_map(String::from_iter);
    let maybe = || proptest::option::of(text());
    let outcome = proptest::sample::select(vec![
        Outcome::Ok,
        Outcome::Denied,
        Outcome::Miss,
        Outcome::Error,
    ]);
    // Years 1653 to 2286, so before and after both 1970 and 2000, where epochs lie.
    let nanos = -10_000_000_000_000_000_000_i128..10_000_000_000_000_000_000;
    let detail = proptest::option::of(text().prop_map(|v| Detail::new().field("reason", v)));
    (
        text(),
        nanos,
        text(),
        text(),
        maybe(),
        text(),
        maybe(),
        text(),
        (maybe(), outcome, detail),
    )
        .prop_map(
            |(
                call_id,
                nanos,
                actor,
                agent_id,
                key_id,
                op,
                memory_id,
                namespace,
                (purpose, result, detail),
            )| {
                let ts = OffsetDateTime::from_unix_timestamp_nanos(nanos)
                    .expect("within the range of years");
                Event {
                    call_id,
                    ts,
                    actor,
                    agent_id,
                    key_id,
                    op,
                    memory_id,
                    namespace,
                    purpose,
                    result,
                    detail,
                }
            },
        )
}

pub(crate) fn any_rows() -> impl Strategy<Value = Vec<StoredRow>> {
    proptest::collection::vec(any_event(), 1..6).prop_map(chained)
}
