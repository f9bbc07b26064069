//! A circuit breaker: leaves a service alone that failed several times in a row, then
//! tries it with one call at a time. The state machine is pure: it is told the time and
//! the jitter. What counts as a failure is the caller's to say.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::outbound::Misconfigured;

/// An hour: beyond it a service that is back stays unused for no reason that anyone sees.
const LONGEST_MS: u64 = 3_600_000;

/// When a service is left alone, and for how long. A missing key has its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BreakerConfig {
    /// Failures in a row after which it is left alone; 5 unless given.
    pub failures: u32,
    /// Milliseconds of the first rest, which doubles with each probe that fails; 5,000
    /// unless given. What is waited is between half of the figure and the whole of it.
    pub cool_down_ms: u64,
    /// Milliseconds that no rest exceeds; 300,000 unless given.
    pub longest_cool_down_ms: u64,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            failures: 5,
            cool_down_ms: 5_000,
            longest_cool_down_ms: 300_000,
        }
    }
}

impl BreakerConfig {
    /// The figures, with the time after which a probe that never came back counts as lost.
    pub(crate) fn figures(&self, lease: Duration) -> Result<Figures, Misconfigured> {
        let wrong = if self.failures == 0 {
            "breaker.failures must be at least 1"
        } else if !(1..=LONGEST_MS).contains(&self.cool_down_ms) {
            "breaker.cool_down_ms must be 1 to 3600000"
        } else if !(self.cool_down_ms..=LONGEST_MS).contains(&self.longest_cool_down_ms) {
            "breaker.longest_cool_down_ms must be cool_down_ms to 3600000"
        } else {
            return Ok(Figures {
                failures: self.failures,
                cool_down: Duration::from_millis(self.cool_down_ms),
                longest: Duration::from_millis(self.longest_cool_down_ms),
                lease,
            });
        };
        Err(Misconfigured::new(wrong))
    }
}

/// What a [`Machine`] goes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    pub(crate) failures: u32,
    pub(crate) cool_down: Duration,
    pub(crate) longest: Duration,
    /// A probe older than this is lost, and another may go.
    pub(crate) lease: Duration,
}

impl Figures {
    fn rest(&self, round: u32, jitter: f64) -> Duration {
        let doubled = self.cool_down.saturating_mul(1 << round.min(30));
        let whole = doubled.min(self.longest);
        whole / 2 + (whole / 2).mul_f64(jitter.clamp(0.0, 1.0))
    }
}

/// What a breaker is seen in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Every call goes through.
    Closed,
    /// One call is on its way to find out.
    HalfOpen,
    /// None goes through.
    Open,
}

/// Stands for one call that went through. Whose time has passed, it counts no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

#[derive(Debug, Clone, Copy)]
enum Phase {
    Closed { failures: u32 },
    Open { until: Instant, round: u32 },
    HalfOpen { lost: Instant, round: u32 },
}

/// The state machine.
#[derive(Debug)]
pub(crate) struct Machine {
    figures: Figures,
    phase: Phase,
    // Counts the phases, so that a ticket of an earlier one is known. A half-open phase
    // gives out one ticket: the next probe is of the next phase.
    generation: u64,
}

impl Machine {
    pub(crate) fn new(figures: Figures) -> Self {
        Self {
            figures,
            phase: Phase::Closed { failures: 0 },
            generation: 0,
        }
    }

    pub(crate) fn state(&self) -> State {
        match self.phase {
            Phase::Closed { .. } => State::Closed,
            Phase::Open { .. } => State::Open,
            Phase::HalfOpen { .. } => State::HalfOpen,
        }
    }

    /// How long a call would have to wait, if it may not go now. Changes nothing.
    pub(crate) fn refuses(&self, now: Instant) -> Option<Duration> {
        let end = match self.phase {
            Phase::Closed { .. } => return None,
            Phase::Open { until, .. } => until,
            Phase::HalfOpen { lost, .. } => lost,
        };
        let left = end.saturating_duration_since(now);
        (!left.is_zero()).then_some(match self.phase {
            // The probe is back long before it is given up for lost.
            Phase::HalfOpen { .. } => left.min(self.figures.cool_down),
            _ => left,
        })
    }

    /// Lets a call through, as the probe if it is time for one.
    ///
    /// # Errors
    /// How long to wait.
    pub(crate) fn ask(&mut self, now: Instant) -> Result<Ticket, Duration> {
        if let Some(wait) = self.refuses(now) {
            return Err(wait);
        }
        if let Phase::Open { round, .. } | Phase::HalfOpen { round, .. } = self.phase {
            let lost = now + self.figures.lease;
            self.enter(Phase::HalfOpen { lost, round });
        }
        Ok(Ticket(self.generation))
    }

    /// The ticket of a caller that does not know when its call began.
    pub(crate) fn present(&self) -> Ticket {
        Ticket(self.generation)
    }

    /// Counts what a call came to. `jitter`, from 0 to 1, spreads the rest that may follow.
    pub(crate) fn record(&mut self, ticket: Ticket, ok: bool, now: Instant, jitter: f64) {
        if ticket != self.present() {
            return;
        }
        match (self.phase, ok) {
            // Calls that went through while it was closed keep their tickets.
            (Phase::Closed { .. }, true) => self.phase = Phase::Closed { failures: 0 },
            (Phase::Closed { failures }, false) if failures + 1 < self.figures.failures => {
                let failures = failures + 1;
                self.phase = Phase::Closed { failures };
            }
            (Phase::Closed { .. }, false) => self.open(0, now, jitter),
            (Phase::HalfOpen { round, .. }, false) => {
                self.open(round.saturating_add(1), now, jitter);
            }
            (_, true) => self.enter(Phase::Closed { failures: 0 }),
            (Phase::Open { .. }, false) => {}
        }
    }

    /// A call ended without having shown anything: if it was the probe, the next one may go.
    pub(crate) fn abandon(&mut self, ticket: Ticket, now: Instant) {
        if let Phase::HalfOpen { round, .. } = self.phase
            && ticket == self.present()
        {
            self.enter(Phase::Open { until: now, round });
        }
    }

    fn open(&mut self, round: u32, now: Instant, jitter: f64) {
        let until = now + self.figures.rest(round, jitter);
        self.enter(Phase::Open { until, round });
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.generation += 1;
    }
}

/// A [`Machine`] that calls at the same time share, on the clock of the process.
#[derive(Debug)]
pub(crate) struct Breaker(Mutex<Machine>);

impl Breaker {
    pub(crate) fn new(figures: Figures) -> Self {
        Self(Mutex::new(Machine::new(figures)))
    }

    pub(crate) fn state(&self) -> State {
        self.machine().state()
    }

    /// How long a call would have to wait, if it may not go now.
    pub(crate) fn refuses(&self) -> Option<Duration> {
        self.machine().refuses(Instant::now())
    }

    /// Lets a call through.
    ///
    /// # Errors
    /// How long to wait.
    pub(crate) fn ask(&self) -> Result<Permit<'_>, Duration> {
        let ticket = self.machine().ask(Instant::now())?;
        Ok(Permit {
            breaker: self,
            ticket: Some(ticket),
        })
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that went through. Dropped without an outcome, as when its caller hung up, it
/// counts neither way and makes room for the next probe.
#[derive(Debug)]
pub(crate) struct Permit<'a> {
    breaker: &'a Breaker,
    ticket: Option<Ticket>,
}

impl Permit<'_> {
    /// Says what the call came to.
    pub(crate) fn record(mut self, ok: bool) {
        if let Some(ticket) = self.ticket.take() {
            let mut machine = self.breaker.machine();
            machine.record(ticket, ok, Instant::now(), jitter());
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.breaker.machine().abandon(ticket, Instant::now());
        }
    }
}

/// From 0 to 1 at random, so that the kernels of a fleet do not all probe at once.
pub(crate) fn jitter() -> f64 {
    // Without randomness the rest is the longest it may be.
    getrandom::u32().map_or(1.0, |bits| f64::from(bits) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn figures(failures: u32) -> Figures {
        Figures {
            failures,
            cool_down: Duration::from_secs(4),
            longest: Duration::from_secs(20),
            lease: LEASE,
        }
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn failures_in_a_row_open_it_and_a_success_between_them_does_not() {
        let (mut machine, now) = (Machine::new(figures(3)), Instant::now());
        for (ok, state) in [
            (false, State::Closed),
            (false, State::Closed),
            (true, State::Closed),
            (false, State::Closed),
            (false, State::Closed),
            (false, State::Open),
        ] {
            let ticket = machine.ask(now).expect("closed");
            machine.record(ticket, ok, now, 1.0);
            assert_eq!(machine.state(), state);
        }
        assert_eq!(machine.ask(now), Err(secs(4)));
    }

    #[test]
    fn one_probe_goes_and_its_failures_lengthen_the_rest_up_to_the_longest() {
        let (mut machine, mut now) = (Machine::new(figures(1)), Instant::now());
        let ticket = machine.ask(now).expect("closed");
        machine.record(ticket, false, now, 1.0);
        for rest in [4, 8, 16, 20, 20, 20] {
            assert_eq!(machine.ask(now), Err(secs(rest)));
            now += secs(rest);
            let probe = machine.ask(now).expect("time for a probe");
            assert_eq!(machine.state(), State::HalfOpen);
            assert_eq!(machine.ask(now), Err(secs(4)), "the others wait for it");
            machine.record(probe, false, now, 1.0);
        }
        now += secs(20);
        let probe = machine.ask(now).expect("time for a probe");
        machine.record(probe, true, now, 1.0);
        assert_eq!(machine.state(), State::Closed);
        let ticket = machine.ask(now).expect("closed");
        machine.record(ticket, false, now, 0.0);
        assert_eq!(machine.ask(now), Err(secs(2)), "the first rest again, half");
    }

    #[test]
    fn a_probe_that_was_given_up_or_lost_makes_room_for_the_next() {
        let (mut machine, mut now) = (Machine::new(figures(1)), Instant::now());
        let ticket = machine.ask(now).expect("closed");
        machine.record(ticket, false, now, 1.0);
        now += secs(4);
        let given_up = machine.ask(now).expect("a probe");
        machine.abandon(given_up, now);
        let lost = machine.ask(now).expect("the next probe");
        now += LEASE;
        let third = machine.ask(now).expect("the one after a lost one");
        machine.record(lost, true, now, 1.0);
        assert_eq!(machine.state(), State::HalfOpen, "its time has passed");
        machine.record(third, true, now, 1.0);
        assert_eq!(machine.state(), State::Closed);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Ask,
        Record(usize, bool),
        Abandon(usize),
        Wait(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            4 => Just(Step::Ask),
            4 => (any::<usize>(), any::<bool>()).prop_map(|(at, ok)| Step::Record(at, ok)),
            1 => any::<usize>().prop_map(Step::Abandon),
            3 => (0_u64..40).prop_map(Step::Wait),
        ];
        prop::collection::vec(step, 1..200)
    }

    proptest! {
        #[test]
        fn no_order_of_events_lets_two_probes_through_or_shuts_a_service_out_for_good(
            steps in steps(), jitter in 0.0..=1.0_f64,
        ) {
            let (mut machine, mut now) = (Machine::new(figures(3)), Instant::now());
            // Those on their way, and since when each probe among them.
            let mut calls: Vec<(Ticket, Option<Instant>)> = Vec::new();
            // Since when nobody was let through, for what the phase is.
            let mut since = now;
            let mut failures = 0;
            for step in steps {
                let before = machine.state();
                match step {
                    Step::Wait(seconds) => now += secs(seconds),
                    Step::Ask => match machine.ask(now) {
                        Ok(ticket) if before == State::Closed => calls.push((ticket, None)),
                        Ok(ticket) => {
                            let alone = calls.iter().all(|(_, sent)| {
                                sent.is_none_or(|sent| now >= sent + LEASE)
                            });
                            prop_assert!(alone, "a second probe");
                            calls.push((ticket, Some(now)));
                            since = now;
                        }
                        Err(wait) => {
                            prop_assert!(before != State::Closed && !wait.is_zero());
                            // The longest rest is shorter.
                            prop_assert!(now < since + LEASE);
                        }
                    },
                    Step::Record(at, ok) if !calls.is_empty() => {
                        let (ticket, _) = calls.swap_remove(at % calls.len());
                        let counts = ticket == machine.present();
                        machine.record(ticket, ok, now, jitter);
                        if before == State::Closed && counts {
                            failures = if ok { 0 } else { failures + 1 };
                            prop_assert_eq!(machine.state() == State::Open, failures == 3);
                        }
                        if before == State::HalfOpen && counts {
                            failures = 0;
                            let after = if ok { State::Closed } else { State::Open };
                            prop_assert_eq!(machine.state(), after);
                        }
                        prop_assert!(counts || machine.state() == before);
                    }
                    Step::Abandon(at) if !calls.is_empty() => {
                        let (ticket, _) = calls.swap_remove(at % calls.len());
                        machine.abandon(ticket, now);
                    }
                    _ => {}
                }
                if machine.state() == State::Open && before != State::Open {
                    (failures, since) = (0, now);
                    if !matches!(step, Step::Abandon(_)) {
                        prop_assert!(machine.refuses(now) >= Some(secs(2)));
                    }
                }
            }
        }
    }
}
