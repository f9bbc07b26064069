//! Group A of the acceptance cases: one audit row for each syscall, one chain over
//! them, and what happens when somebody or something gets in the way.
//!
//! Here are the chain and its order; `tamper` alters rows, `failure` makes the log
//! fail, `hangup` makes clients go away.

use std::time::Duration;

use halofy_audit::{Event, Outcome, Record, Report, Sealed};
use halofy_store::{Sequenced, Store};
use halofy_tests::{Kernel, Role};
use time::OffsetDateTime;
use time::macros::datetime;

mod failure;
mod hangup;
mod tamper;

pub(crate) use hangup::effects_and_rows_agree;

const PROCESSES: usize = 6;
const LINES: usize = 8;

#[tokio::test]
async fn six_processes_that_append_at_once_make_one_chain() {
    let kernel = Kernel::start().await;
    let key = kernel.key("acme", "user:dana", Role::Agent).await.key;
    let imports = (0..PROCESSES).map(|process| import(&kernel, &key, process));
    futures_util::future::join_all(imports).await;

    let writes = rows_of(&kernel.audit().await, "write");
    assert_eq!(writes.len(), PROCESSES * LINES);
    assert!(
        writes
            .iter()
            .all(|row| row.columns.detail.as_deref() == Some("stored=1"))
    );
    let report = settled(&kernel).await;
    assert_eq!(
        report.checked,
        writes.len() as u64 + 1,
        "and the row of the key"
    );
    let indexes = kernel
        .sql_value("select max(idx) + 1 from audit_chain")
        .await;
    assert_eq!(indexes, report.checked.to_string(), "no gap");
}

/// On a server each process is a kernel of its own; the embedded database has one.
async fn import(kernel: &Kernel, key: &str, process: usize) {
    let lines: String = (0..LINES)
        .map(|line| format!("{{\"content\":\"process {process} says line {line}\"}}\n"))
        .collect();
    let file = kernel.data().dir().join(format!("{process}.jsonl"));
    std::fs::write(&file, lines).expect("the file to import");
    let file = file.display().to_string();
    let import = ["import", "--key", key, &file];
    let config = kernel.data().dir().join("few-connections.toml");
    std::fs::write(&config, "[server]\nmax_connections = 4\n").expect("the configuration");
    let config = config.display().to_string();
    let place = match kernel.data().is_on_server() {
        true => ["--config", &config],
        false => ["--url", &kernel.base],
    };
    let command = super::halofy().on(kernel.data());
    let finished = command.run(&[&import[..], &place].concat()).await;
    finished.expect_code(0);
}

#[tokio::test]
async fn an_event_between_two_microseconds_verifies_from_the_database() {
    let kernel = Kernel::start().await;
    let at = datetime!(2026-03-01 12:00:00.123456789 UTC);
    append(&kernel, vec![event("01PRECISE", at).seal()]).await;
    let stored = kernel
        .sql_value("select to_char(ts, 'SS.US') from audit_log where call_id = '01PRECISE'")
        .await;
    assert_eq!(stored, "00.123456");
    let report = settled(&kernel).await;
    assert_eq!(report.checked, 1);
}

#[tokio::test]
async fn the_hashed_bytes_are_those_that_another_language_makes() {
    let kernel = Kernel::start().await;
    let mut odd = event("01CANONICAL", datetime!(2026-03-01 13:00:00 +1));
    odd.purpose = Some("{\"b\":1,\"a\":\"é\",\"c\":\"\u{2028}\"}".to_owned());
    odd.actor = "user:zoë/€\u{1f600}\t\u{7f}".to_owned();
    append(&kernel, vec![odd.seal()]).await;

    let stored = kernel
        .sql_value("select convert_from(canonical, 'UTF8') from audit_log")
        .await;
    // Python: json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    let expected = concat!(
        r#"{"actor":"user:zoë/€😀\t"#,
        "\u{7f}",
        r#"","agentId":"kernel","callId":"01CANONICAL","detail":null,"keyId":null,"#,
        r#""memoryId":null,"namespace":"acme","op":"search","purpose":"{\"b\":1,\"a\":\"é\",\"c\":\""#,
        "\u{2028}",
        r#"\"}","result":"ok","ts":"2026-03-01T12:00:00.000000Z","v":1}"#,
    );
    assert_eq!(stored, expected);
    let leaf = kernel
        .sql_value("select sha256('\\x00' || canonical)::text from audit_log")
        .await;
    settled(&kernel).await;
    let chained = kernel.sql_value("select leaf::text from audit_chain").await;
    assert_eq!(chained, leaf, "the database's own hash of the stored bytes");
}

#[tokio::test]
async fn a_query_with_a_secret_is_not_kept() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let query = format!("what is hm_{} for", "0123456789abcdef".repeat(4));
    dana.search(&query).await.expect_status(200);
    let row = kernel.last_audit().await.columns;
    assert_eq!((row.op.as_str(), row.purpose), ("search", None));
}

#[tokio::test]
async fn a_query_in_any_script_verifies_after_the_round_trip() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    for query in [
        "{\"b\":1,\"a\":\"é\",\"c\":\"\u{2028}\"}",
        "e\u{301} ≠ é",
        "\u{1f9d1}\u{200d}\u{1f680}",
        "\\u0000",
    ] {
        dana.search(query).await.expect_status(200);
        let row = kernel.last_audit().await;
        assert_eq!(row.columns.purpose.as_deref(), Some(query));
    }
    settled(&kernel).await;
}

#[tokio::test]
async fn a_transaction_that_commits_late_is_chained_once_and_in_order() {
    let kernel = Kernel::start().await;
    if !kernel.data().is_on_server() {
        // The embedded database has one connection, so no transaction can be late.
        return;
    }
    let noon = datetime!(2026-03-01 12:00 UTC);
    let (slow, fast) = (event("01SLOW", noon).seal(), event("01FAST", noon).seal());
    let early = kernel
        .on_store(async move |store| {
            let mut first = store.begin().await.expect("T1");
            first.audit_insert(&slow).await.expect("T1 inserts");
            let mut second = store.begin().await.expect("T2");
            second.audit_insert(&fast).await.expect("T2 inserts");
            second.commit().await.expect("T2 commits");
            let early = chained(&store).await;
            first.commit().await.expect("T1 commits");
            early
        })
        .await;
    assert_eq!(early, 0, "T2 is chained before T1, which may still commit");
    let report = settled(&kernel).await;
    assert_eq!(report.checked, 2);
    let order = kernel
        .sql("select l.call_id from audit_chain c join audit_log l on l.seq = c.seq order by c.idx")
        .await;
    let order: Vec<&str> = order.iter().filter_map(|row| row[0].as_deref()).collect();
    assert_eq!(order, ["01SLOW", "01FAST"]);
}

#[tokio::test]
async fn a_row_that_was_rolled_back_leaves_no_gap_in_the_chain() {
    let kernel = Kernel::start().await;
    let noon = datetime!(2026-03-01 12:00 UTC);
    let rows = ["01BEFORE", "01UNDONE", "01AFTER"].map(|name| event(name, noon).seal());
    kernel
        .on_store(async move |store| {
            let [before, undone, after] = rows;
            store.audit_append(&[before]).await.expect("the first row");
            let mut transaction = store.begin().await.expect("a transaction");
            transaction.audit_insert(&undone).await.expect("inserts");
            drop(transaction);
            store.audit_append(&[after]).await.expect("the last row");
        })
        .await;
    let report = settled(&kernel).await;
    assert_eq!(report.checked, 2);
    let numbers = kernel
        .sql_value("select max(seq) - min(seq) from audit_log")
        .await;
    assert_eq!(
        numbers, "2",
        "the sequence number of the row that was undone is used up"
    );
    let indexes = kernel
        .sql_value("select array_agg(idx order by idx)::text from audit_chain")
        .await;
    assert_eq!(indexes, "{0,1}");
}

fn event(call_id: &str, ts: OffsetDateTime) -> Event {
    Event {
        call_id: call_id.to_owned(),
        ts,
        actor: "user:dana".to_owned(),
        agent_id: "kernel".to_owned(),
        key_id: None,
        op: "search".to_owned(),
        memory_id: None,
        namespace: "acme".to_owned(),
        purpose: None,
        result: Outcome::Ok,
        detail: None,
    }
}

async fn append(kernel: &Kernel, rows: Vec<Sealed>) {
    let appended = kernel
        .on_store(async move |store| store.audit_append(&rows).await)
        .await;
    appended.expect("the rows are durable");
}

/// Sequences until nothing more can be chained now, and counts the chain.
async fn chained(store: &Store) -> usize {
    while let Sequenced::Rows(1..) = store.audit_sequence().await.expect("a pass") {}
    store
        .audit_page(None, 10_000)
        .await
        .expect("the chain")
        .len()
}

/// Waits until every row is chained, and asserts that all verify. Other tests'
/// transactions on the same server may hold the sequencer back for a moment.
pub(crate) async fn settled(kernel: &Kernel) -> Report {
    for _ in 0..300 {
        let report = kernel.verify().await;
        assert!(report.ok, "{report:?}");
        if report.pending == 0 {
            return report;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("rows are still not chained after 30 seconds");
}

/// The rows of one syscall.
pub(crate) fn rows_of(rows: &[Record], op: &str) -> Vec<Record> {
    rows.iter()
        .filter(|row| row.columns.op == op)
        .cloned()
        .collect()
}
