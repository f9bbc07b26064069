//! Keeping a lease while its job runs.

use std::sync::Arc;
use std::time::Duration;

use halofy_store::{Lease, Store, StoreError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a lease holds unless it is prolonged: as long as a job of a kernel that was
/// killed waits for another.
pub(crate) const LEASE: Duration = Duration::from_secs(15);
/// Three chances to prolong a lease before it runs out.
const BEAT: Duration = Duration::from_secs(5);
/// A try that takes longer loses its lease: it would keep its place for ever.
const LONGEST: Duration = Duration::from_secs(15 * 60);

/// Prolongs a lease until `over`. Cancels `give_up` when it is lost, or has been kept for
/// too long.
///
/// `over` is looked at between statements only: a query that is dropped half-way costs its
/// connection.
pub(super) async fn keep(
    store: Arc<Store>,
    lease: Lease,
    over: CancellationToken,
    give_up: CancellationToken,
) {
    let since = Instant::now();
    loop {
        tokio::select! {
            () = tokio::time::sleep(BEAT) => {}
            () = over.cancelled() => return,
        }
        if since.elapsed() > LONGEST {
            tracing::warn!(job = %lease.job, "a job takes too long and loses its lease");
            return give_up.cancel();
        }
        match store.job_extend(&lease, LEASE).await {
            Ok(()) => {}
            Err(StoreError::LeaseLost) => return give_up.cancel(),
            Err(error) => tracing::warn!(job = %lease.job, %error, "a lease is not prolonged"),
        }
    }
}
