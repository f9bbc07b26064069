//! The verifier: rows in, faults and a report out, in constant memory.
//!
//! Must not live here: where rows come from, and how a fault reads.

use serde::{Deserialize, Serialize};

use crate::canonical::{canonical_bytes, differing_columns, leaf_hash};
use crate::chain::{ChainEntry, GENESIS, Hash, Head, link};
use crate::encoding;
use crate::event::{Columns, Sealed};
use crate::report::{Fault, MAX_FAULTS, Reason, Report};

/// One chain entry as a database or file presents it: no field is trusted, not even a hash's length.
/// The integers are signed, as SQL `bigint` is; they hash as their 8 bytes, so this loses nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    missing_docs,
    reason = "each field is documented at the field of `ChainEntry` it comes from"
)]
pub struct StoredEntry {
    pub index: i64,
    pub seq: i64,
    pub xid: i64,
    #[serde(with = "encoding::hex_bytes")]
    pub leaf: Vec<u8>,
    #[serde(with = "encoding::hex_bytes")]
    pub hash: Vec<u8>,
}

impl From<&ChainEntry> for StoredEntry {
    fn from(entry: &ChainEntry) -> Self {
        Self {
            index: entry.index.cast_signed(),
            seq: entry.seq,
            xid: entry.xid.cast_signed(),
            leaf: entry.leaf.to_vec(),
            hash: entry.hash.to_vec(),
        }
    }
}

/// One audit row as a database or file presents it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// The row's own sequence number.
    pub seq: i64,
    /// The row's own transaction id.
    pub xid: i64,
    /// The event columns.
    pub columns: Columns,
    /// The canonical bytes as stored.
    #[serde(with = "encoding::text_or_hex")]
    pub canonical: Vec<u8>,
}

impl Record {
    /// The record that storing `sealed` under this number and transaction gives.
    #[must_use]
    pub fn of(sealed: &Sealed, seq: i64, xid: i64) -> Self {
        Self {
            seq,
            xid,
            columns: sealed.columns().clone(),
            canonical: sealed.canonical().to_vec(),
        }
    }
}

/// A chain entry and the audit row with the same sequence number. Rows are verified in index order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredRow {
    /// Absent for a row that was not chained yet.
    pub entry: Option<StoredEntry>,
    /// Absent if the chain names a row that is not there, which is a fault.
    pub record: Option<Record>,
}

/// Checks rows one by one, in index order.
///
/// After a fault it goes on from that row as stored, so the next row is judged by itself. Uniqueness of
/// `call_id` is the database's to keep; constant memory cannot check it.
#[derive(Debug, Default)]
pub struct Verifier {
    expected: i64,
    previous: Hash,
    checked: u64,
    pending: u64,
    head: Option<Head>,
    checkpoints: Vec<Head>,
    fault_count: u64,
    faults: Vec<Fault>,
}

impl Verifier {
    /// Starts at the first entry.
    #[must_use]
    pub fn new() -> Self {
        Self {
            previous: GENESIS,
            ..Self::default()
        }
    }

    /// Starts after `head`, which the caller trusts.
    #[must_use]
    pub fn resume(head: Head) -> Self {
        let expected = head.index.saturating_add(1).cast_signed();
        Self {
            expected,
            previous: head.hash,
            head: Some(head),
            ..Self::default()
        }
    }

    /// Demands that the chain pass through each of these heads, noted earlier and kept elsewhere.
    #[must_use]
    pub fn expecting(mut self, checkpoints: impl IntoIterator<Item = Head>) -> Self {
        let start = self.head;
        self.checkpoints
            .extend(checkpoints.into_iter().filter(|c| Some(*c) != start));
        self
    }

    /// Checks the next row.
    ///
    /// In this order: the index is the next; the row exists and has the entry's sequence number and
    /// transaction; its columns give the stored canonical bytes; the leaf is their hash; the chain hash
    /// follows; checkpoints at this index agree. A row without an entry has its columns checked only.
    ///
    /// # Errors
    /// The first of these that fails. It is also kept for the report, and checking may go on.
    pub fn push(&mut self, row: &StoredRow) -> Result<(), Fault> {
        let checked = self.check(row);
        self.advance(row);
        checked.map_err(|reason| {
            let fault = locate(row, reason);
            self.keep(fault.clone());
            fault
        })
    }

    /// Ends the verification. A checkpoint that no entry reached is a fault.
    #[must_use]
    pub fn finish(mut self) -> Report {
        for checkpoint in std::mem::take(&mut self.checkpoints) {
            let index = Some(checkpoint.index.cast_signed());
            self.keep(Fault {
                index,
                seq: None,
                call_id: None,
                reason: Reason::CheckpointNotReached,
            });
        }
        Report {
            ok: self.fault_count == 0,
            checked: self.checked,
            pending: self.pending,
            head: self.head,
            fault_count: self.fault_count,
            faults: self.faults,
        }
    }

    fn check(&self, row: &StoredRow) -> Result<(), Reason> {
        let Some(entry) = &row.entry else {
            let record = row.record.as_ref().ok_or(Reason::Empty)?;
            return check_columns(record, &leaf_hash(&record.canonical));
        };
        self.check_index(entry)?;
        let record = row.record.as_ref().ok_or(Reason::MissingRecord)?;
        check_pairing(entry, record)?;
        check_columns(record, &entry.leaf)?;
        if entry.leaf != leaf_hash(&record.canonical) {
            return Err(Reason::LeafMismatch);
        }
        self.check_hash(entry)
    }

    fn check_index(&self, entry: &StoredEntry) -> Result<(), Reason> {
        let expected = self.expected;
        match entry.index.cmp(&expected) {
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => Err(Reason::Gap { expected }),
            std::cmp::Ordering::Less => Err(Reason::Repeated { expected }),
        }
    }

    fn check_hash(&self, entry: &StoredEntry) -> Result<(), Reason> {
        let [index, seq, xid] = [entry.index, entry.seq, entry.xid].map(i64::to_be_bytes);
        if entry.hash != link(&self.previous, index, seq, xid, &entry.leaf) {
            return Err(Reason::HashMismatch);
        }
        let mut here = self
            .checkpoints
            .iter()
            .filter(|c| c.index.cast_signed() == entry.index);
        if here.any(|c| entry.hash != c.hash) {
            return Err(Reason::CheckpointMismatch);
        }
        Ok(())
    }

    fn advance(&mut self, row: &StoredRow) {
        let Some(entry) = &row.entry else {
            self.pending += u64::from(row.record.is_some());
            return;
        };
        self.checked += 1;
        self.expected = entry.index.saturating_add(1);
        self.checkpoints
            .retain(|c| c.index.cast_signed() != entry.index);
        let hash = Hash::try_from(entry.hash.as_slice()).ok();
        // A hash of another length is a fault already; any value will do to go on from.
        self.previous = hash.unwrap_or(GENESIS);
        self.head = hash
            .zip(u64::try_from(entry.index).ok())
            .map(|(hash, index)| Head { index, hash });
    }

    fn keep(&mut self, fault: Fault) {
        self.fault_count += 1;
        if self.faults.len() < MAX_FAULTS {
            self.faults.push(fault);
        }
    }
}

fn check_pairing(entry: &StoredEntry, record: &Record) -> Result<(), Reason> {
    if entry.seq != record.seq {
        return Err(Reason::SeqMismatch { record: record.seq });
    }
    if entry.xid != record.xid {
        return Err(Reason::XidMismatch {
            entry: entry.xid,
            record: record.xid,
        });
    }
    Ok(())
}

fn check_columns(record: &Record, leaf: &[u8]) -> Result<(), Reason> {
    if canonical_bytes(&record.columns) == record.canonical {
        return Ok(());
    }
    let columns = differing_columns(&record.columns, &record.canonical);
    if columns.is_empty() {
        return Err(Reason::NotCanonical);
    }
    let canonical_matches_leaf = leaf == leaf_hash(&record.canonical);
    Err(Reason::ColumnsDiffer {
        columns,
        canonical_matches_leaf,
    })
}

fn locate(row: &StoredRow, reason: Reason) -> Fault {
    let entry = row.entry.as_ref();
    let record = row.record.as_ref();
    Fault {
        index: entry.map(|e| e.index),
        seq: entry.map(|e| e.seq).or(record.map(|r| r.seq)),
        call_id: record.map(|r| r.columns.call_id.clone()),
        reason,
    }
}
