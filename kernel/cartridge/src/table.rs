//! Which rows the view handed out in one call, and under which handles.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use crate::view::{Row, RowId};

/// Maps rows to handles in the order of first admission: 0, 1, 2, …
///
/// Invariant: a handle names a row only in the call whose table gave it out.
#[derive(Debug, Default)]
pub(crate) struct AdmissionTable {
    rows: Vec<Row>,
    /// The ids are the kernel's own, so that nobody can aim at the hash.
    handles: HashMap<RowId, u32, FxBuildHasher>,
}

impl AdmissionTable {
    /// The handle of `row`: the one it has, or the next one.
    pub(crate) fn admit(&mut self, row: Row) -> u32 {
        // A call admits at most `Limits::rows` rows, far below `u32::MAX`.
        let next = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        let handle = *self.handles.entry(row.id.clone()).or_insert(next);
        if handle == next {
            self.rows.push(row);
        }
        handle
    }

    /// The row behind `handle`, if this call handed it out.
    pub(crate) fn row(&self, handle: u32) -> Option<&Row> {
        self.rows.get(handle as usize)
    }

    /// Makes room for `more` rows.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.rows.reserve(more);
        self.handles.reserve(more);
    }
}
