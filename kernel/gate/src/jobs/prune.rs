//! What becomes of jobs that went well or were stopped: they are deleted once nobody needs
//! them any more, each batch with an audit row. Dead ones stay until somebody retries them.

use std::time::Duration;

use halofy_audit::Detail;
use halofy_store::{Kept, Store, StoreError};

use crate::audit::{EVERYWHERE, Ending, Trail};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// A ticket answers for thirty days after its job ended, a check is seen for seven.
const KEPT: Kept = Kept {
    checks: DAY.saturating_mul(7),
    tickets: DAY.saturating_mul(30),
};
/// How many go in one transaction.
const BATCH: usize = 500;

/// Deletes a batch.
pub(super) async fn prune(store: &Store) -> Result<Pruning, StoreError> {
    let mut tx = store.begin().await?;
    let pruned = tx.jobs_prune(KEPT, BATCH).await?;
    let count = pruned.checks + pruned.tickets;
    if count == 0 {
        return Ok(Pruning::Nothing);
    }
    let detail = Detail::new()
        .field("checks", pruned.checks)
        .field("tickets", pruned.tickets);
    let row = Trail::kernel("job_prune", EVERYWHERE).seal(&Ending::ok(detail));
    tx.audit_insert(&row).await?;
    tx.commit().await?;
    Ok(match count < BATCH as u64 {
        true => Pruning::Last,
        false => Pruning::More,
    })
}

/// What a batch was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pruning {
    /// There was nothing to delete.
    Nothing,
    /// It was the last one.
    Last,
    /// There may be another.
    More,
}
