//! Whose turn it is at one worker: which namespace each kind goes on with, how many of a kind
//! run, and what is left alone for a while.
//!
//! Invariant: no kind takes all places, so none waits for another.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use halofy_core::{JobKind, Namespace};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Jobs that one kernel runs at once. Few: they share the store with calls.
const AT_ONCE: usize = 5;
/// Of them, jobs of one kind.
const OF_A_KIND: usize = AT_ONCE - 1;
/// The longest that a kind is left alone in a namespace before one of its jobs finds out
/// whether anything has changed.
const LONGEST: Duration = Duration::from_secs(10);

/// A job's place, until it is dropped.
pub(super) struct Place {
    _one: OwnedSemaphorePermit,
    _of_kind: OwnedSemaphorePermit,
}

pub(super) struct Turns {
    places: Arc<Semaphore>,
    of_kind: HashMap<JobKind, Arc<Semaphore>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    served: HashMap<JobKind, Namespace>,
    left_alone: HashMap<(JobKind, Namespace), Instant>,
}

impl Turns {
    pub(super) fn new() -> Self {
        let all = JobKind::ALL.into_iter();
        let of_kind = all.map(|kind| (kind, Arc::new(Semaphore::new(OF_A_KIND))));
        Self {
            places: Arc::new(Semaphore::new(AT_ONCE)),
            of_kind: of_kind.collect(),
            state: Mutex::default(),
        }
    }

    /// How many jobs of a kind could begin.
    pub(super) fn free(&self, kind: JobKind) -> usize {
        let of_kind = self.of_kind[&kind].available_permits();
        of_kind.min(self.places.available_permits())
    }

    /// A place for a job of a kind. Nobody but the worker takes places, so there is one as
    /// long as there are [`Turns::free`] ones.
    pub(super) fn take(&self, kind: JobKind) -> Option<Place> {
        Some(Place {
            _one: self.places.clone().try_acquire_owned().ok()?,
            _of_kind: self.of_kind[&kind].clone().try_acquire_owned().ok()?,
        })
    }

    /// Who of a kind was served last.
    pub(super) fn served(&self, kind: JobKind) -> Option<Namespace> {
        self.state().served.get(&kind).cloned()
    }

    pub(super) fn serve(&self, kind: JobKind, namespace: Namespace) {
        self.state().served.insert(kind, namespace);
    }

    /// Leaves a kind alone in a namespace for so long, or for a while if that is shorter.
    pub(super) fn leave_alone(&self, kind: JobKind, namespace: &Namespace, wait: Duration) {
        let until = Instant::now() + wait.min(LONGEST);
        let what = (kind, namespace.clone());
        self.state().left_alone.insert(what, until);
    }

    /// Where a kind is left alone now.
    pub(super) fn left_alone(&self, kind: JobKind) -> Vec<Namespace> {
        let mut state = self.state();
        let now = Instant::now();
        state.left_alone.retain(|_, until| *until > now);
        let all = state.left_alone.keys();
        let of_kind = all.filter(|(of, _)| *of == kind);
        of_kind.map(|(_, namespace)| namespace.clone()).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
