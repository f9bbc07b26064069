//! When a driver is taken out by itself: too many faults of its own in a window. What the
//! kernel failed at never counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::breaker::{Figures, Machine, jitter};

/// Faults are counted over this long.
const WINDOW: Duration = Duration::from_secs(60);
/// Fewer faults than this in a window say nothing.
const MIN_FAULTS: u32 = 10;
/// A driver is taken out when one of so many calls failed.
const ONE_IN: u32 = 5;
const QUARANTINED: &str = "quarantined";
const RESTING: &str = "sidecar_resting";
/// When a sidecar is left alone. Its callers are served by the baseline meanwhile, so it
/// is tried again soon, however often that failed.
const SIDECAR: Figures = Figures {
    failures: 3,
    cool_down: Duration::from_secs(10),
    longest: Duration::from_secs(10),
    lease: Duration::from_secs(10),
};

/// The recent calls of one driver on this kernel.
#[derive(Debug)]
pub(crate) struct Faults {
    rule: Mutex<Rule>,
    /// The most linear memory that a call held, in bytes.
    memory: AtomicU64,
}

#[derive(Debug)]
enum Rule {
    /// Out until an operator lets it back.
    Quarantine(Window),
    /// Out for a moment, then tried with one call.
    Rest(Machine),
}

#[derive(Debug)]
struct Window {
    since: Instant,
    calls: u32,
    faults: u32,
    out: bool,
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
        Self::new(Rule::Quarantine(Window::new()))
    }

    pub(crate) fn of_sidecar() -> Self {
        Self::new(Rule::Rest(Machine::new(SIDECAR)))
    }

    fn new(rule: Rule) -> Self {
        Self {
            rule: Mutex::new(rule),
            memory: AtomicU64::new(0),
        }
    }

    /// Lets a call through.
    ///
    /// # Errors
    /// Why the driver must not be called now, as a stable word.
    pub(crate) fn ask(&self) -> Result<(), &'static str> {
        match &mut *self.rule() {
            Rule::Quarantine(window) if window.out => Err(QUARANTINED),
            Rule::Quarantine(_) => Ok(()),
            // This caller may be the one that tries; the others wait for what it finds.
            Rule::Rest(machine) => machine.ask(Instant::now()).map(drop).map_err(|_| RESTING),
        }
    }

    /// Why a call would not be let through now. Changes nothing.
    pub(crate) fn out(&self) -> Option<&'static str> {
        match &*self.rule() {
            Rule::Quarantine(window) => window.out.then_some(QUARANTINED),
            Rule::Rest(machine) => machine.refuses(Instant::now()).map(|_| RESTING),
        }
    }

    /// Counts a call. Something when this one takes the driver out for good.
    pub(crate) fn count(&self, faulty: bool) -> Option<Tripped> {
        match &mut *self.rule() {
            Rule::Quarantine(window) => window.count(faulty),
            Rule::Rest(machine) => {
                let ticket = machine.present();
                machine.record(ticket, !faulty, Instant::now(), jitter());
                None
            }
        }
    }

    /// Lets the driver back.
    pub(crate) fn forgive(&self) {
        match &mut *self.rule() {
            Rule::Quarantine(window) => *window = Window::new(),
            Rule::Rest(machine) => *machine = Machine::new(SIDECAR),
        }
    }

    fn rule(&self) -> MutexGuard<'_, Rule> {
        self.rule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes how much memory a call held and gives the most so far.
    pub(crate) fn high_water(&self, bytes: u64) -> u64 {
        self.memory.fetch_max(bytes, Ordering::Relaxed).max(bytes)
    }
}

impl Window {
    fn new() -> Self {
        Self {
            since: Instant::now(),
            calls: 0,
            faults: 0,
            out: false,
        }
    }

    fn count(&mut self, faulty: bool) -> Option<Tripped> {
        if self.since.elapsed() > WINDOW {
            (self.since, self.calls, self.faults) = (Instant::now(), 0, 0);
        }
        self.calls = self.calls.saturating_add(1);
        self.faults = self.faults.saturating_add(u32::from(faulty));
        let (calls, faults) = (self.calls, self.faults);
        let trips = faults >= MIN_FAULTS && faults.saturating_mul(ONE_IN) >= calls;
        if !faulty || !trips || self.out {
            return None;
        }
        self.out = true;
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
            assert_eq!(faults.ask(), Ok(()));
        }
        faults.count(true);
        assert_eq!(faults.out(), Some("sidecar_resting"));
        assert_eq!(faults.ask(), Err("sidecar_resting"));
        faults.count(false);
        assert_eq!(
            faults.out(),
            None,
            "the one that was on its way came back well"
        );
    }
}
