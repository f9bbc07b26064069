//! What a store carries during one call: the view, the admission table, what has
//! been used so far, and how much memory the guest holds.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::{ResourceLimiter, UpdateDeadline};

use crate::call_limits::{CallLimits, Import};
use crate::error::{GUEST, Stop};
use crate::table::AdmissionTable;
use crate::view::View;
use crate::wire::ViewError;

/// The state of one call. Dropped with its store.
pub(crate) struct CallState {
    pub(crate) view: Arc<dyn View>,
    pub(crate) limits: Arc<CallLimits>,
    pub(crate) table: AdmissionTable,
    pub(crate) used: Used,
    pub(crate) memory: MemoryLimiter,
    pub(crate) deadline: Instant,
    lanes: Arc<Semaphore>,
    /// Held while this call computes after its first tick. Behind a lock because
    /// the future that waits for it cannot reach into the store.
    lane: Option<Arc<Mutex<Option<OwnedSemaphorePermit>>>>,
}

/// What a call has used of its quotas.
#[derive(Debug, Default)]
pub(crate) struct Used {
    pub(crate) host_calls: u64,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    pub(crate) embed_bytes: u64,
    pub(crate) view_time: Duration,
    /// Since when the view has been asked, while it has not answered.
    pub(crate) asked: Option<Instant>,
}

impl Used {
    /// All time spent waiting for the view, also by a question that was given up.
    pub(crate) fn waited(&self) -> Duration {
        self.view_time + self.asked.map_or(Duration::ZERO, |asked| asked.elapsed())
    }
}

impl CallState {
    pub(crate) fn new(
        view: Arc<dyn View>,
        limits: Arc<CallLimits>,
        table_elements: usize,
        lanes: Arc<Semaphore>,
        deadline: Instant,
    ) -> Self {
        let memory = MemoryLimiter {
            limit: limits.memory,
            table_elements,
            held: 0,
            refused: false,
        };
        Self {
            view,
            limits,
            table: AdmissionTable::default(),
            used: Used::default(),
            memory,
            deadline,
            lanes,
            lane: None,
        }
    }

    /// Counts one call of the view and says how long it may take.
    pub(crate) fn begin_import(&mut self, import: Import) -> Result<Duration, Stop> {
        let left = self.count_import()?;
        Ok(left.min(self.limits.time_of(import)))
    }

    /// Counts one call of the view and says how long the call still has.
    pub(crate) fn count_import(&mut self) -> Result<Duration, Stop> {
        self.used.host_calls += 1;
        if self.used.host_calls > self.limits.host_calls {
            return Err(Stop::HostCalls);
        }
        // Waiting for the view must not keep another long call from computing.
        self.leave_lane();
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Stop::Timeout(GUEST));
        }
        Ok(left)
    }

    /// Who ran out of time when `import` did not answer within `time`: a guest
    /// that came to the view with its own time used up, or the view.
    pub(crate) fn blame(&self, import: Import, time: Duration) -> Stop {
        let guest_took_most = self.used.view_time * 2 < self.limits.total_time;
        if time < self.limits.time_of(import) && guest_took_most {
            return Stop::Timeout(GUEST);
        }
        Stop::Timeout(import.as_str())
    }

    /// Takes `rows` rows with `bytes` bytes of text off the call's quota.
    pub(crate) fn charge(&mut self, rows: u64, bytes: u64) -> Result<(), ViewError> {
        let (rows, bytes) = (self.used.rows + rows, self.used.bytes + bytes);
        if rows > self.limits.rows || bytes > self.limits.row_bytes {
            return Err(ViewError::LimitExceeded(format!(
                "this call may read {} rows and {} bytes",
                self.limits.rows, self.limits.row_bytes
            )));
        }
        (self.used.rows, self.used.bytes) = (rows, bytes);
        Ok(())
    }

    /// Decides at a tick whether the guest goes on. It yields at every tick, and
    /// goes on only when one of the lanes for long calls is free, so that calls
    /// that compute for long never take all threads from those that do not.
    pub(crate) fn on_tick(&mut self) -> Result<UpdateDeadline, Stop> {
        if Instant::now() >= self.deadline {
            return Err(Stop::Timeout(GUEST));
        }
        self.leave_lane();
        let lane = Arc::clone(self.lane.get_or_insert_default());
        let lanes = Arc::clone(&self.lanes);
        let turn = Box::pin(async move {
            tokio::task::yield_now().await;
            // The semaphore is never closed; without a permit the call goes on.
            let permit = lanes.acquire_owned().await.ok();
            *lane.lock().unwrap_or_else(PoisonError::into_inner) = permit;
        });
        Ok(UpdateDeadline::YieldCustom(1, turn))
    }

    fn leave_lane(&self) {
        if let Some(lane) = &self.lane {
            *lane.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }
}

/// Bounds what all linear memories of one store hold together, and remembers a
/// refusal: a guest that is refused memory usually traps on `unreachable`, and
/// the trap alone would not say why.
#[derive(Debug)]
pub(crate) struct MemoryLimiter {
    limit: usize,
    table_elements: usize,
    held: usize,
    refused: bool,
}

impl MemoryLimiter {
    /// The most that the guest's memories held together: they never shrink.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Whether the guest was refused memory or table space.
    pub(crate) fn refused(&self) -> bool {
        self.refused
    }

    fn allow(&mut self, allowed: bool) -> wasmtime::Result<bool> {
        self.refused |= !allowed;
        Ok(allowed)
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let held = self.held.saturating_sub(current).saturating_add(desired);
        let allowed = held <= self.limit && maximum.is_none_or(|maximum| desired <= maximum);
        if allowed {
            self.held = held;
        }
        self.allow(allowed)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let allowed =
            desired <= self.table_elements && maximum.is_none_or(|maximum| desired <= maximum);
        self.allow(allowed)
    }
}
