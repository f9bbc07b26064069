//! The task that chains committed audit rows. Any number of kernels may run one;
//! an advisory lock elects whose turn it is.

use std::sync::Arc;
use std::time::Duration;

use halofy_store::{Sequenced, Store, StoreError};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Rows gather for this long before they are chained together.
const GATHER: Duration = Duration::from_millis(100);
/// Rows of other kernels, and of slow transactions, are looked for this often.
const IDLE: Duration = Duration::from_secs(2);

/// Tells the sequencer that there are rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wake(Arc<Notify>);

impl Wake {
    pub(crate) fn notify(&self) {
        self.0.notify_one();
    }
}

pub(crate) fn start(store: Arc<Store>, wake: Wake, stop: CancellationToken) -> JoinHandle<()> {
    tokio::spawn(async move {
        while !stop.is_cancelled() {
            tokio::select! {
                () = wake.0.notified() => {
                    tokio::select! { () = tokio::time::sleep(GATHER) => {}, () = stop.cancelled() => {} }
                }
                () = tokio::time::sleep(IDLE) => {}
                () = stop.cancelled() => {}
            }
            if let Err(error) = drain(&store).await {
                tracing::warn!(%error, "audit rows wait to be chained");
            }
            if let Err(error) = store.maintain().await {
                tracing::warn!(%error, "a checkpoint waits");
            }
        }
    })
}

/// Chains everything that can be chained now.
///
/// # Errors
/// See [`StoreError`]; the rows stay as they are, and a later pass takes them.
pub(crate) async fn drain(store: &Store) -> Result<(), StoreError> {
    loop {
        let pass = store.audit_sequence().await?;
        if let Sequenced::Rows(rows) = pass {
            crate::metrics::audit_sequenced(rows);
        }
        if !pass.is_full() {
            return Ok(());
        }
    }
}
