//! What the verifier reports for each way in which a trail can be wrong.

use halofy_audit::{Chain, Head, MAX_FAULTS, Reason, StoredEntry, StoredRow, Verifier, leaf_hash};
use time::Duration;

use crate::support::{chained, entry, record, rows, search_event, verify};

fn head_of(row: &StoredRow) -> Head {
    let stored = row.entry.clone().expect("the row is chained");
    let hash = stored.hash.try_into().expect("32 bytes");
    Head {
        index: stored.index.cast_unsigned(),
        hash,
    }
}

/// The faults after `change` was made to the third of five rows, as (index, reason).
fn faults_after(change: impl FnOnce(&mut StoredRow)) -> Vec<(Option<i64>, Reason)> {
    let mut rows = rows(5);
    change(&mut rows[2]);
    let report = verify(&rows);
    assert!(!report.ok);
    assert_eq!(report.fault_count, report.faults.len() as u64);
    report
        .faults
        .into_iter()
        .map(|f| (f.index, f.reason))
        .collect()
}

/// Chains the rows again, as someone with the whole database in hand can.
fn rechain(rows: &mut [StoredRow]) {
    let mut chain = Chain::new();
    for row in rows {
        let record = row.record.as_ref().expect("the row has a record");
        let leaf = leaf_hash(&record.canonical);
        row.entry = Some(StoredEntry::from(&chain.extend(
            record.seq,
            record.xid.cast_unsigned(),
            leaf,
        )));
    }
}

#[test]
fn an_honest_trail_verifies() {
    let rows = rows(5);
    let report = verify(&rows);
    assert!(report.ok);
    assert_eq!(
        (report.checked, report.pending, report.fault_count),
        (5, 0, 0)
    );
    assert_eq!(report.head, Some(head_of(&rows[4])));
}

#[test]
fn an_empty_trail_verifies_and_has_no_head() {
    let report = verify(&[]);
    assert!(report.ok);
    assert_eq!((report.checked, report.head), (0, None));
}

#[test]
fn each_altered_column_is_named() {
    type Change = fn(&mut halofy_audit::Columns);
    let changes: [(&str, Change); 11] = [
        ("call_id", |c| c.call_id.push('x')),
        ("ts", |c| c.ts += Duration::microseconds(1)),
        ("actor", |c| c.actor.push('x')),
        ("agent_id", |c| c.agent_id = "cli".into()),
        ("key_id", |c| c.key_id = None),
        ("op", |c| c.op = "read".into()),
        ("memory_id", |c| c.memory_id = Some(String::new())),
        ("namespace", |c| c.namespace = "acme".into()),
        ("purpose", |c| c.purpose = None),
        ("result", |c| c.result = "forged".into()),
        ("detail", |c| c.detail = Some("returned=0".into())),
    ];
    for (column, change) in changes {
        let faults = faults_after(|row| change(&mut record(row).columns));
        let reason = Reason::ColumnsDiffer {
            columns: vec![column],
            canonical_matches_leaf: true,
        };
        assert_eq!(faults, [(Some(2), reason)]);
    }
}

#[test]
fn altered_bytes_are_told_from_altered_columns() {
    let faults = faults_after(|row| {
        let text = String::from_utf8(record(row).canonical.clone()).expect("UTF-8");
        record(row).canonical = text
            .replace("user:dana", "user:dave")
            .replace("http", "mcp")
            .into_bytes();
    });
    let columns = vec!["actor", "agent_id"];
    assert_eq!(
        faults,
        [(
            Some(2),
            Reason::ColumnsDiffer {
                columns,
                canonical_matches_leaf: false
            }
        )]
    );
}

#[test]
fn bytes_that_say_the_same_in_another_form_are_refused() {
    let spellings: [fn(&str) -> String; 4] = [
        |text| text.replace("\"v\":1", "\"v\": 1"),
        |text| text.replace("\"v\":1", "\"v\":2"),
        |text| text.replace("\"v\":1", "\"v\":1,\"w\":1"),
        |_| "not JSON".to_owned(),
    ];
    for spell in spellings {
        let faults = faults_after(|row| {
            let text = String::from_utf8(record(row).canonical.clone()).expect("UTF-8");
            record(row).canonical = spell(&text).into_bytes();
        });
        assert_eq!(faults, [(Some(2), Reason::NotCanonical)]);
    }
}

#[test]
fn columns_and_bytes_altered_together_fail_at_the_leaf() {
    let other = search_event().seal();
    let faults = faults_after(|row| {
        record(row).columns = other.columns().clone();
        record(row).canonical = other.canonical().to_vec();
    });
    assert_eq!(faults, [(Some(2), Reason::LeafMismatch)]);
}

#[test]
fn columns_bytes_and_leaf_altered_together_fail_at_the_chain() {
    let other = search_event().seal();
    let faults = faults_after(|row| {
        record(row).columns = other.columns().clone();
        record(row).canonical = other.canonical().to_vec();
        entry(row).leaf = other.leaf().to_vec();
    });
    assert_eq!(faults, [(Some(2), Reason::HashMismatch)]);
}

#[test]
fn an_altered_chain_hash_fails_there_and_at_the_next_row() {
    let mismatch = |index| (Some(index), Reason::HashMismatch);
    assert_eq!(
        faults_after(|row| entry(row).hash[31] ^= 1),
        [mismatch(2), mismatch(3)]
    );
    assert_eq!(
        faults_after(|row| entry(row).hash.clear()),
        [mismatch(2), mismatch(3)]
    );
}

#[test]
fn numbers_that_differ_between_the_tables_are_a_fault() {
    let xid = Reason::XidMismatch {
        entry: 744,
        record: 9,
    };
    assert_eq!(faults_after(|row| record(row).xid = 9), [(Some(2), xid)]);
    let seq = Reason::SeqMismatch { record: 9 };
    assert_eq!(faults_after(|row| record(row).seq = 9), [(Some(2), seq)]);
}

#[test]
fn numbers_altered_in_both_tables_fail_at_the_chain() {
    let both_xid = faults_after(|row| {
        record(row).xid = 9;
        entry(row).xid = 9;
    });
    let both_seq = faults_after(|row| {
        record(row).seq = -9;
        entry(row).seq = -9;
    });
    assert_eq!(both_xid, [(Some(2), Reason::HashMismatch)]);
    assert_eq!(both_seq, [(Some(2), Reason::HashMismatch)]);
}

#[test]
fn a_missing_audit_row_is_a_fault() {
    assert_eq!(
        faults_after(|row| row.record = None),
        [(Some(2), Reason::MissingRecord)]
    );
}

#[test]
fn a_missing_chain_entry_is_a_gap_at_the_next() {
    assert_eq!(
        faults_after(|row| row.entry = None),
        [(Some(3), Reason::Gap { expected: 2 })]
    );
}

#[test]
fn a_row_with_neither_half_is_a_fault() {
    let faults = faults_after(|row| {
        *row = StoredRow {
            entry: None,
            record: None,
        }
    });
    assert_eq!(
        faults,
        [
            (None, Reason::Empty),
            (Some(3), Reason::Gap { expected: 2 })
        ]
    );
}

#[test]
fn deleted_repeated_and_swapped_rows_are_found() {
    let mut deleted = rows(5);
    deleted.remove(1);
    assert_eq!(
        verify(&deleted).faults[0].reason,
        Reason::Gap { expected: 1 }
    );
    let mut first_gone = rows(5);
    first_gone.remove(0);
    assert_eq!(
        verify(&first_gone).faults[0].reason,
        Reason::Gap { expected: 0 }
    );
    let mut repeated = rows(5);
    repeated.insert(2, repeated[1].clone());
    assert_eq!(
        verify(&repeated).faults[0].reason,
        Reason::Repeated { expected: 2 }
    );
    let mut swapped = rows(5);
    swapped.swap(1, 2);
    assert!(!verify(&swapped).ok);
    // Two rows exchange what they say and keep their places.
    let mut exchanged = rows(5);
    let other = exchanged[1].record.clone();
    exchanged[1].record = exchanged[2].record.clone();
    exchanged[2].record = other;
    let found: Vec<_> = verify(&exchanged).faults.iter().map(|f| f.index).collect();
    assert_eq!(found, [Some(1), Some(2)]);
}

#[test]
fn unchained_rows_are_counted_and_their_columns_checked() {
    let mut trail = rows(5);
    trail[3].entry = None;
    trail[4].entry = None;
    let report = verify(&trail);
    assert!(report.ok);
    assert_eq!((report.checked, report.pending), (3, 2));
    record(&mut trail[4]).columns.actor = "user:mallory".into();
    let fault = verify(&trail).faults.remove(0);
    assert_eq!(
        (fault.index, fault.seq, fault.call_id.as_deref()),
        (None, Some(996), Some("CALL4"))
    );
}

#[test]
fn a_cut_tail_verifies_alone_and_fails_against_a_checkpoint() {
    let trail = rows(5);
    let checkpoint = head_of(&trail[4]);
    for kept in [0, 3, 4] {
        assert!(verify(&trail[..kept]).ok);
        let report = verify_against(&trail[..kept], checkpoint);
        assert!(!report.ok);
        assert_eq!(report.faults[0].reason, Reason::CheckpointNotReached);
        assert_eq!(report.faults[0].index, Some(4));
    }
    assert!(verify_against(&trail, checkpoint).ok);
}

#[test]
fn a_suffix_rewritten_with_valid_hashes_fails_against_a_checkpoint() {
    let honest = rows(5);
    let mut forged = honest.clone();
    forged[3].record = chained([search_event()])[0].record.clone();
    rechain(&mut forged);
    assert!(verify(&forged).ok);
    let report = verify_against(&forged, head_of(&honest[4]));
    assert_eq!(report.faults[0].reason, Reason::CheckpointMismatch);
    // A checkpoint from before the rewritten rows cannot see it; that is what frequent ones are for.
    assert!(verify_against(&forged, head_of(&honest[2])).ok);
}

fn verify_against(rows: &[StoredRow], checkpoint: Head) -> halofy_audit::Report {
    let mut verifier = Verifier::new().expecting([checkpoint]);
    for row in rows {
        let _ = verifier.push(row);
    }
    verifier.finish()
}

#[test]
fn verification_can_resume_after_a_trusted_head() {
    let trail = rows(5);
    let mut verifier =
        Verifier::resume(head_of(&trail[1])).expecting([head_of(&trail[1]), head_of(&trail[4])]);
    for row in &trail[2..] {
        assert_eq!(verifier.push(row), Ok(()));
    }
    let report = verifier.finish();
    assert!(report.ok);
    assert_eq!(report.checked, 3);
    let mut wrong = Verifier::resume(Head {
        index: 1,
        hash: [7; 32],
    });
    let fault = wrong
        .push(&trail[2])
        .expect_err("the head is not this chain's");
    assert_eq!(fault.reason, Reason::HashMismatch);
}

#[test]
fn checking_goes_on_and_the_list_is_bounded() {
    let mut trail = rows(MAX_FAULTS + 20);
    for row in &mut trail {
        record(row).columns.op = "read".into();
    }
    let report = verify(&trail);
    assert_eq!((report.checked, report.fault_count), (120, 120));
    assert_eq!(report.faults.len(), MAX_FAULTS);
}

#[test]
fn a_fault_reads_as_one_line_and_as_json() {
    let mut trail = rows(3);
    record(&mut trail[1]).columns.actor = "user:mallory".into();
    record(&mut trail[1]).columns.call_id = "CALL1\nindex 9".into();
    let report = verify(&trail);
    assert_eq!(
        report.faults[0].to_string(),
        "index 1 seq 999 call CALL1\\nindex 9 - columns differ from the canonical bytes \
         (which match their leaf): call_id, actor"
    );
    let json = serde_json::to_value(&report).expect("a report serialises");
    assert_eq!(
        json["faults"][0],
        serde_json::json!({
            "index": 1, "seq": 999, "callId": "CALL1\nindex 9", "reason": "columnsDiffer",
            "columns": ["call_id", "actor"], "canonicalMatchesLeaf": true
        })
    );
    assert_eq!(json["head"]["hash"].as_str().map(str::len), Some(64));
    assert_eq!(
        (json["ok"].as_bool(), json["checked"].as_u64()),
        (Some(false), Some(3))
    );
}
