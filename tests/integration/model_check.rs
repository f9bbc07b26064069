//! Writes, supersedence, disputes, undo and `asOf` against a model of them in memory:
//! random sequences of calls, each compared in its answer and in all that the store holds
//! then; and calls at once, which must come to what some order of them comes to.
//!
//! 10,000 calls are compared on a server; 6,000 on the embedded database, whose one connection
//! would take two minutes for all. `HALOFY_TEST_INTERLEAVINGS` sets how many instead;
//! `HALOFY_TEST_SEED` starts from other random numbers.
//!
//! The crate proptest-state-machine is not used: it generates calls from the model's state,
//! one case after the other; here a call means something in any state, and cases that run
//! side by side on one kernel are part of what is tested.

mod changes;
mod invariants;
mod operation;
mod player;
mod reference;
mod serial;
mod settling;
mod stage;

use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use tokio::runtime::{Builder, Runtime};

use invariants::Closings;
use operation::{Operation, Review, What};
use player::Known;
use reference::{Outcome, Reference};
use serial::AtOnce;
use stage::{Case, Stage, State, now};

/// Calls that are compared on a server, unless told otherwise.
const CALLS: usize = 10_000;
/// The same on the embedded database.
const CALLS_EMBEDDED: usize = 6_000;
/// Of these so many in a hundred are made one after the other.
const IN_SEQUENCE: usize = 85;
/// Cases that run side by side.
const LANES: u64 = 4;

/// What was compared.
#[derive(Debug, Default)]
struct Tally {
    cases: AtomicUsize,
    calls: AtomicUsize,
    wanted: usize,
}

impl Tally {
    fn compared(&self, calls: usize) {
        self.calls.fetch_add(calls, Ordering::Relaxed);
    }

    fn is_reached(&self) -> bool {
        self.calls.load(Ordering::Relaxed) >= self.wanted
    }
}

#[test]
fn random_sequences_of_calls_come_to_what_a_model_of_them_comes_to() {
    let wanted = wanted() * IN_SEQUENCE / 100;
    let tally = in_lanes(
        wanted,
        operation::sequences,
        |stage, tally, (review, calls)| {
            Box::pin(async move {
                let case = stage.case(*review);
                let mut play = Play::new(&case, *review);
                for call in calls {
                    play.step(*call)
                        .await
                        .map_err(|fault| format!("{call:?}: {fault}"))?;
                    tally.compared(1);
                }
                play.ends().await
            })
        },
    );
    eprintln!(
        "{} calls in {} sequences were compared with the model",
        tally.1, tally.0
    );
}

#[test]
fn calls_at_once_come_to_what_some_order_of_them_comes_to() {
    let wanted = wanted() * (100 - IN_SEQUENCE) / 100;
    let tally = in_lanes(
        wanted,
        operation::histories,
        |stage, tally, (review, before, calls)| {
            Box::pin(async move {
                let case = stage.case(*review);
                let mut play = Play::new(&case, *review);
                for call in before {
                    play.step(*call)
                        .await
                        .map_err(|fault| format!("{call:?}: {fault}"))?;
                }
                play.at_once(calls).await?;
                tally.compared(calls.len());
                Ok(())
            })
        },
    );
    eprintln!(
        "{} calls at once in {} histories have an order",
        tally.1, tally.0
    );
}

/// A case under way: the kernel, and the model beside it.
struct Play<'a> {
    case: &'a Case<'a>,
    review: Review,
    reference: Reference,
    known: Known,
    closings: Closings,
}

impl<'a> Play<'a> {
    fn new(case: &'a Case<'a>, review: Review) -> Self {
        Self {
            case,
            review,
            reference: Reference::default(),
            known: Known::default(),
            closings: Closings::default(),
        }
    }

    /// Makes one call, waits for what follows from it, and compares.
    async fn step(&mut self, operation: Operation) -> Result<(), String> {
        let cue = self.known.cue(operation, &self.reference);
        let started = now();
        let answer = cue.play(self.case).await;
        let after = match operation.what.changes() {
            true => self.case.settled().await?,
            false => State(self.reference.clone()),
        };
        let ended = now();
        let actual = cue.outcome(&answer, &after)?;
        let expected = cue.expect(&mut self.reference, &actual, &after);
        if let Outcome::Stored { id, .. } = &expected
            && self.review != Review::Off
        {
            self.reference.check(id, self.review, &after);
        }
        if actual != expected {
            return Err(format!("answered {actual:?}, and should {expected:?}"));
        }
        same(&after.0, &self.reference)?;
        let known = |id: &String| self.known.rows.contains(id);
        let new = after.0.rows.iter().filter(|row| !known(&row.id));
        for row in new {
            if !(started..=ended).contains(&row.told_at) {
                return Err(format!("told between {started} and {ended}: {row:?}"));
            }
        }
        self.look(&after.0)
    }

    /// Looks whether the calls that only read left everything as it was.
    async fn ends(&self) -> Result<(), String> {
        same(&self.case.settled().await?.0, &self.reference)
    }

    /// Makes calls at once, and looks for an order of them.
    async fn at_once(&mut self, operations: &[Operation]) -> Result<(), String> {
        // An erasure takes decisions with it, so that it cannot be told what they did.
        let decides = self.review != Review::Off;
        let kept = |one: &&Operation| !(decides && matches!(one.what, What::Forget(_)));
        let operations = operations.iter().filter(kept);
        let cues: Vec<_> = operations
            .map(|one| self.known.cue(*one, &self.reference))
            .collect();
        let answers = join_all(cues.iter().map(|cue| cue.play(self.case))).await;
        let after = self.case.settled().await?;
        self.look(&after.0)?;
        let mut calls = Vec::with_capacity(cues.len());
        for (cue, answer) in cues.into_iter().zip(&answers) {
            let outcome = cue
                .outcome(answer, &after)
                .map_err(|fault| format!("{cue:?}: {fault}"))?;
            calls.push((cue, outcome));
        }
        let (review, calls, after) = (self.review, &calls[..], &after);
        let at_once = AtOnce {
            review,
            calls,
            after,
        };
        if !at_once.has_an_order(&self.reference) {
            let before = &self.reference;
            return Err(format!("no order: {before:#?}\n{calls:#?}\n{:#?}", after.0));
        }
        at_once.overlooked().map_or(Ok(()), Err)
    }

    fn look(&mut self, state: &Reference) -> Result<(), String> {
        self.known.learn(state);
        self.closings.watch(state)?;
        invariants::check(state)
    }
}

/// Says which rows and decisions differ.
fn same(actual: &Reference, expected: &Reference) -> Result<(), String> {
    if actual == expected {
        return Ok(());
    }
    let rows = differing(&actual.rows, &expected.rows);
    let decisions = differing(&actual.decisions, &expected.decisions);
    Err(format!(
        "the store has, and should have:\n{rows}{decisions}"
    ))
}

fn differing<T: Debug + PartialEq>(actual: &[T], expected: &[T]) -> String {
    let lines = |sign, some: &[T], others: &[T]| {
        let only = some.iter().filter(|one| !others.contains(one));
        only.map(|one| format!("{sign} {one:?}\n"))
            .collect::<String>()
    };
    lines('+', actual, expected) + &lines('-', expected, actual)
}

type Playing<'a> = std::pin::Pin<Box<dyn Future<Output = Result<(), String>> + 'a>>;

/// Plays random cases on one kernel until `wanted` calls are compared, in lanes that each
/// have their own random numbers. Gives cases and calls.
fn in_lanes<S>(
    wanted: usize,
    cases: impl Fn() -> S + Sync,
    play: impl for<'a> Fn(&'a Stage, &'a Tally, &'a S::Value) -> Playing<'a> + Sync,
) -> (usize, usize)
where
    S: Strategy,
{
    let runtime = Runtime::new().expect("a runtime");
    let stage = runtime.block_on(Stage::build());
    let tally = Tally {
        wanted,
        ..Tally::default()
    };
    std::thread::scope(|scope| {
        for lane in 0..LANES {
            let (stage, tally, cases, play) = (&stage, &tally, &cases, &play);
            scope.spawn(move || {
                let runtime = Builder::new_current_thread().enable_all().build();
                let runtime = runtime.expect("a runtime");
                let mut number = 0;
                while !tally.is_reached() {
                    number += 1;
                    let played = runner(lane, number).run(&cases(), |case| {
                        let played = runtime.block_on(play(stage, tally, &case));
                        played.map_err(TestCaseError::fail)
                    });
                    if let Err(TestError::Fail(why, case)) = played {
                        tally.calls.store(usize::MAX / 2, Ordering::Relaxed);
                        panic!("the least case that fails: {case:#?}\n{why}");
                    }
                    tally.cases.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    (tally.cases.into_inner(), tally.calls.into_inner())
}

/// For one case, so that the lanes end together.
fn runner(lane: u64, case: u64) -> TestRunner {
    let config = Config {
        cases: 1,
        failure_persistence: None,
        max_shrink_iters: 400,
        ..Config::default()
    };
    let mut seed = [0; 32];
    let parts = [number("HALOFY_TEST_SEED").unwrap_or(1), lane, case];
    for (place, part) in seed.chunks_exact_mut(8).zip(parts) {
        place.copy_from_slice(&part.to_le_bytes());
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    TestRunner::new_with_rng(config, rng)
}

fn wanted() -> usize {
    let calls = match std::env::var_os(halofy_tests::DATABASE_URL) {
        Some(_) => CALLS,
        None => CALLS_EMBEDDED,
    };
    let told = number("HALOFY_TEST_INTERLEAVINGS");
    told.map_or(calls, |told| usize::try_from(told).unwrap_or(calls))
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is no number: {text}")),
    )
}
