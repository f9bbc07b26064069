//! When a driver is taken out by itself: too many faults of its own in a window. What the
//! kernel failed at never counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Faults are counted over this long.
const WINDOW: Duration = Duration::from_secs(60);
/// Fewer faults than this in a window say nothing.
const MIN_FAULTS: u32 = 10;
/// A driver is taken out when one of so many calls failed.
const ONE_IN: u32 = 5;
/// How long a sidecar that failed is left alone before it is tried again.
const REST: Duration = Duration::from_secs(10);
/// Failures in a row after which a sidecar is left alone.
const SIDECAR_FAILURES: u32 = 3;

/// The recent calls of one driver on this kernel.
#[derive(Debug)]
pub(crate) struct Faults {
    rule: Rule,
    state: Mutex<State>,
    /// The most linear memory that a call held, in bytes.
    memory: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Out until an operator lets it back.
    Quarantine,
    /// Out for a moment, then tried with one call.
    Rest,
}

#[derive(Debug)]
struct State {
    since: Instant,
    calls: u32,
    faults: u32,
    out: Option<Instant>,
}

/// What one call's outcome led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tripped {
    /// Faults in the window.
    pub(crate) faults: u32,
    /// Calls in the window.
    pub(crate) calls: u32,
}

impl Faults {
    pub(crate) fn of_cartridge() -> Self {
        Self::new(Rule::Quarantine)
    }

    pub(crate) fn of_sidecar() -> Self {
        Self::new(Rule::Rest)
    }

    fn new(rule: Rule) -> Self {
        let state = State {
            since: Instant::now(),
            calls: 0,
            faults: 0,
            out: None,
        };
        Self {
            rule,
            state: Mutex::new(state),
            memory: AtomicU64::new(0),
        }
    }

    /// Why the driver must not be called now, as a stable word.
    pub(crate) fn out(&self) -> Option<&'static str> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match (self.rule, state.out) {
            (_, None) => None,
            (Rule::Quarantine, Some(_)) => Some("quarantined"),
            (Rule::Rest, Some(since)) if since.elapsed() < REST => Some("sidecar_resting"),
            (Rule::Rest, Some(_)) => {
                // This caller tries; the others wait for what it finds.
                state.out = Some(Instant::now());
                None
            }
        }
    }

    /// Counts a call. Something when this one takes the driver out.
    pub(crate) fn count(&self, faulty: bool) -> Option<Tripped> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match self.rule {
            Rule::Rest => {
                state.faults = if faulty { state.faults + 1 } else { 0 };
                let rests = state.faults >= SIDECAR_FAILURES;
                state.out = rests.then(Instant::now);
                None
            }
            Rule::Quarantine => state.count(faulty),
        }
    }

    /// Lets the driver back.
    pub(crate) fn forgive(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.calls, state.faults, state.out) = (0, 0, None);
    }

    /// Notes how much memory a call held and gives the most so far.
    pub(crate) fn high_water(&self, bytes: u64) -> u64 {
        self.memory.fetch_max(bytes, Ordering::Relaxed).max(bytes)
    }
}

impl State {
    fn count(&mut self, faulty: bool) -> Option<Tripped> {
        if self.since.elapsed() > WINDOW {
            (self.since, self.calls, self.faults) = (Instant::now(), 0, 0);
        }
        self.calls = self.calls.saturating_add(1);
        self.faults = self.faults.saturating_add(u32::from(faulty));
        let (calls, faults) = (self.calls, self.faults);
        let trips = faults >= MIN_FAULTS && faults.saturating_mul(ONE_IN) >= calls;
        if !faulty || !trips || self.out.is_some() {
            return None;
        }
        self.out = Some(Instant::now());
        Some(Tripped { faults, calls })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_faults_among_few_calls_take_a_cartridge_out_once_and_forgiving_lets_it_back() {
        let faults = Faults::of_cartridge();
        for _ in 0..9 {
            assert_eq!(faults.count(true), None);
        }
        assert_eq!(faults.out(), None);
        let tripped = Tripped {
            faults: 10,
            calls: 10,
        };
        assert_eq!(faults.count(true), Some(tripped));
        assert_eq!(faults.out(), Some("quarantined"));
        assert_eq!(faults.count(true), None, "it is out already");
        faults.forgive();
        assert_eq!(faults.out(), None);
    }

    #[test]
    fn rare_faults_among_many_calls_do_not_take_a_cartridge_out() {
        let faults = Faults::of_cartridge();
        for _ in 0..200 {
            faults.count(false);
        }
        for _ in 0..30 {
            assert_eq!(faults.count(true), None);
        }
        assert_eq!(faults.out(), None);
    }

    #[test]
    fn a_sidecar_rests_after_three_failures_in_a_row() {
        let faults = Faults::of_sidecar();
        for outcome in [true, true, false, true, true] {
            faults.count(outcome);
            assert_eq!(faults.out(), None);
        }
        faults.count(true);
        assert_eq!(faults.out(), Some("sidecar_resting"));
        faults.count(false);
        assert_eq!(
            faults.out(),
            None,
            "the one that was on its way came back well"
        );
    }
}
