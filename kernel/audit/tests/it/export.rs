//! The file form: round trips, and refusals that name the line.

use std::io::{BufReader, Cursor};

use halofy_audit::{
    ExportError, Head, MAX_LINE_BYTES, Reason, StoredRow, read_jsonl, verify_jsonl, write_row,
};
use proptest::prelude::*;

use crate::support::{any_rows, record, rows, verify};

fn file_of(rows: &[StoredRow]) -> Vec<u8> {
    let mut out = Vec::new();
    for row in rows {
        write_row(&mut out, row).expect("memory takes every write");
    }
    out
}

fn malformed_line(file: &str) -> (u64, String) {
    match verify_jsonl(file.as_bytes(), []) {
        Err(ExportError::Malformed { line, source }) => (line, source.to_string()),
        other => panic!("expected a malformed line, got {other:?}"),
    }
}

/// The export of three rows with `from` replaced by `to` in the second line only.
fn second_line_with(from: &str, to: &str) -> String {
    let file = String::from_utf8(file_of(&rows(3))).expect("UTF-8");
    let mut lines: Vec<_> = file.lines().map(str::to_owned).collect();
    assert!(lines[1].contains(from), "{from} is in the line");
    lines[1] = lines[1].replacen(from, to, 1);
    lines.join("\n")
}

#[test]
fn an_exported_trail_verifies_like_the_rows_themselves() {
    let rows = rows(4);
    let report = verify_jsonl(file_of(&rows).as_slice(), []).expect("the file is well formed");
    assert!(report.ok);
    assert_eq!(report, verify(&rows));
}

#[test]
fn an_altered_export_names_the_row() {
    let report = verify_jsonl(second_line_with("user:dana", "user:dave").as_bytes(), [])
        .expect("well formed");
    assert_eq!((report.fault_count, report.faults[0].index), (1, Some(1)));
}

#[test]
fn a_cut_export_fails_against_a_checkpoint() {
    let rows = rows(4);
    let head = verify(&rows).head.expect("the trail has a head");
    let kept =
        String::from_utf8(serde_json::to_vec(&head).expect("a head serialises")).expect("UTF-8");
    let checkpoint: Head = serde_json::from_str(&kept).expect("a head can be kept as JSON");
    let report = verify_jsonl(file_of(&rows[..2]).as_slice(), [checkpoint]).expect("well formed");
    assert_eq!(report.faults[0].reason, Reason::CheckpointNotReached);
}

#[test]
fn unknown_repeated_and_missing_fields_are_refused_with_their_line() {
    let (line, why) = malformed_line(&second_line_with("\"seq\":", "\"extra\":1,\"seq\":"));
    assert_eq!(line, 2);
    assert!(why.contains("unknown field `extra`"), "{why}");
    let (line, why) = malformed_line(&second_line_with(
        "\"actor\":",
        "\"actor\":\"x\",\"actor\":",
    ));
    assert_eq!(line, 2);
    assert!(why.contains("duplicate field `actor`"), "{why}");
    let (line, why) = malformed_line(&second_line_with("\"op\":\"search\",", ""));
    assert_eq!(line, 2);
    assert!(why.contains("missing field `op`"), "{why}");
    let (_, why) = malformed_line(&second_line_with("{\"entry\":", "{\"note\":1,\"entry\":"));
    assert!(why.contains("unknown field `note`"), "{why}");
}

#[test]
fn other_spellings_blank_lines_and_broken_json_are_refused_with_their_line() {
    let (line, why) = malformed_line(&second_line_with(".123456Z", ".1234567Z"));
    assert_eq!(line, 2);
    assert!(why.contains("six fractional digits"), "{why}");
    assert_eq!(
        malformed_line(&second_line_with("05.123456Z", "05.123456+00:00")).0,
        2
    );
    let hash = hex::encode(&rows(3)[1].entry.as_ref().expect("chained").hash);
    let (line, why) = malformed_line(&second_line_with(&hash, &hash.to_uppercase()));
    assert_eq!(line, 2);
    assert!(why.contains("lower-case hex"), "{why}");
    assert_eq!(malformed_line("\n").0, 1);
    assert_eq!(malformed_line(&second_line_with("}", "")).0, 2);
}

#[test]
fn reading_goes_on_after_a_malformed_line() {
    let file = second_line_with("}", "");
    let read: Vec<_> = read_jsonl(file.as_bytes()).map(|row| row.is_ok()).collect();
    assert_eq!(read, [true, false, true]);
}

#[test]
fn an_endless_line_is_refused_without_being_held() {
    let endless = BufReader::new(std::io::repeat(b' '));
    let read: Vec<_> = read_jsonl(endless).collect();
    assert!(
        matches!(read.as_slice(), [Err(ExportError::TooLong { line: 1 })]),
        "{read:?}"
    );
    assert_eq!(MAX_LINE_BYTES, 16 * 1024 * 1024);
}

#[test]
fn a_read_error_ends_the_verification() {
    struct Failing;
    impl std::io::Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("disk gone"))
        }
    }
    let result = verify_jsonl(BufReader::new(Failing), []);
    assert!(
        matches!(result, Err(ExportError::Read { line: 1, .. })),
        "{result:?}"
    );
}

#[test]
fn damaged_rows_survive_the_export_and_stay_faulty() {
    let mut trail = rows(3);
    record(&mut trail[0]).canonical[5] = 0xff;
    trail[1].record = None;
    trail[2].entry = None;
    let read: Vec<_> = read_jsonl(Cursor::new(file_of(&trail)))
        .map(|row| row.expect("well formed"))
        .collect();
    assert_eq!(read, trail);
    assert_eq!(verify(&read).fault_count, 2);
}

proptest! {
    #[test]
    fn every_trail_survives_the_export(rows in any_rows()) {
        let read: Result<Vec<_>, _> = read_jsonl(file_of(&rows).as_slice()).collect();
        let read = read.map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(&read, &rows);
        prop_assert!(verify(&read).ok);
    }

    #[test]
    fn a_flipped_byte_in_the_file_is_refused_a_fault_or_the_same_rows(
        rows in any_rows(), at in any::<prop::sample::Index>(), flip in 1_u8..,
    ) {
        let mut file = file_of(&rows);
        let at = at.index(file.len());
        file[at] ^= flip;
        let read: Result<Vec<_>, _> = read_jsonl(file.as_slice()).collect();
        match (read, verify_jsonl(file.as_slice(), [])) {
            (Err(_), verdict) => prop_assert!(verdict.is_err()),
            (Ok(read), Ok(report)) => prop_assert_eq!(report.ok, read == rows),
            (Ok(_), Err(e)) => prop_assert!(false, "readable yet refused: {}", e),
        }
    }
}
