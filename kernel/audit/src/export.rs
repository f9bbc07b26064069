//! The trail as a file: JSON Lines, one [`StoredRow`] a line, in index order.
//!
//! Must not live here: opening files, and checks that the verifier does not make on a database too.
//!
//! One line, broken up for reading. An absent `entry` or `record` is `null`:
//! ```json
//! {"entry":{"index":0,"seq":1,"xid":742,"leaf":"<hex>","hash":"<hex>"},
//!  "record":{"seq":1,"xid":742,"columns":{"callId":"…","ts":"2026-01-02T03:04:05.123456Z","…":"…"},
//!            "canonical":"{\"actor\":…}"}}
//! ```

use std::io::{self, BufRead, Read, Write};

use crate::chain::Head;
use crate::report::Report;
use crate::verify::{StoredRow, Verifier};

/// Longest line that is read, in bytes with its newline; what a hostile file can make the reader hold.
pub const MAX_LINE_BYTES: u64 = 16 << 20;

/// Why a file could not be read or written. Lines are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The line is not a row: no JSON, an unknown, repeated or missing field, or a value in another
    /// spelling than the export's.
    #[error("line {line}: not an audit row: {source}")]
    Malformed {
        /// The line.
        line: u64,
        /// What is wrong with it; its own line number is always 1.
        source: serde_json::Error,
    },
    /// The line is longer than [`MAX_LINE_BYTES`].
    #[error("line {line}: longer than {MAX_LINE_BYTES} bytes")]
    TooLong {
        /// The line.
        line: u64,
    },
    /// The line could not be read.
    #[error("line {line}: {source}")]
    Read {
        /// The line.
        line: u64,
        /// The cause.
        source: io::Error,
    },
    /// A row could not be written.
    #[error("the export could not be written: {0}")]
    Write(#[source] io::Error),
}

/// Writes one row and a newline. Flushing is the caller's.
///
/// # Errors
/// [`ExportError::Write`].
pub fn write_row(out: &mut impl Write, row: &StoredRow) -> Result<(), ExportError> {
    let mut line = serde_json::to_vec(row).map_err(|e| ExportError::Write(e.into()))?;
    line.push(b'\n');
    out.write_all(&line).map_err(ExportError::Write)
}

/// The rows of an export, one at a time. After an error that is not [`ExportError::Malformed`] it ends.
pub fn read_jsonl(
    mut reader: impl BufRead,
) -> impl Iterator<Item = Result<StoredRow, ExportError>> {
    let mut line = 0;
    let mut broken = false;
    std::iter::from_fn(move || {
        if broken {
            return None;
        }
        line += 1;
        let row = next_row(&mut reader, line);
        broken = matches!(
            row,
            Err(ExportError::Read { .. } | ExportError::TooLong { .. })
        );
        row.transpose()
    })
}

/// Verifies an export from the first entry on, against checkpoints kept elsewhere, if there are any.
///
/// # Errors
/// Any [`ExportError`] of reading: such a file is no export, and nothing is said about its rows.
pub fn verify_jsonl(
    reader: impl BufRead,
    checkpoints: impl IntoIterator<Item = Head>,
) -> Result<Report, ExportError> {
    let mut verifier = Verifier::new().expecting(checkpoints);
    for row in read_jsonl(reader) {
        // The report keeps the fault.
        let _ = verifier.push(&row?);
    }
    Ok(verifier.finish())
}

fn next_row(reader: &mut impl BufRead, line: u64) -> Result<Option<StoredRow>, ExportError> {
    let mut bytes = Vec::new();
    let read = reader
        .by_ref()
        .take(MAX_LINE_BYTES + 1)
        .read_until(b'\n', &mut bytes);
    match read.map_err(|source| ExportError::Read { line, source })? {
        0 => Ok(None),
        n if n as u64 > MAX_LINE_BYTES => Err(ExportError::TooLong { line }),
        _ => serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| ExportError::Malformed { line, source }),
    }
}
