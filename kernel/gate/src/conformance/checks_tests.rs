//! Verdicts over calls that were never made.

use halofy_cartridge::Row;

use super::*;

pub(in super::super) fn answered(contents: &[&str], namespace: &str) -> Call {
    let hit = |content: &&str| Hit {
        row: Row {
            id: RowId::Concept((*content).into()),
            content: (*content).into(),
            namespace: namespace.into(),
        },
        score: 1.0,
        token_estimate: 20,
    };
    let hits = contents.iter().map(hit).collect();
    let plan = Plan {
        hits,
        stats: CallStats::default(),
    };
    Call {
        outcome: Ok(plan),
        took: Duration::from_millis(1),
    }
}

pub(in super::super) fn with_stats(change: impl FnOnce(&mut CallStats)) -> Call {
    let mut call = answered(&["a"], HOME);
    if let Ok(plan) = &mut call.outcome {
        change(&mut plan.stats);
    }
    call
}

pub(in super::super) fn failed() -> Call {
    let outcome = Err(PlanFailure::Trap("unreachable".to_owned()));
    Call {
        outcome,
        took: Duration::ZERO,
    }
}

fn every_fact() -> Vec<Call> {
    FACTS
        .iter()
        .map(|(fact, _)| answered(&["x", "y", fact], HOME))
        .collect()
}

#[test]
fn the_percentile_is_the_nearest_rank() {
    let times = |count: u64| (1..=count).rev().map(Duration::from_millis).collect();
    assert_eq!(percentile(times(20), 95), Duration::from_millis(19));
    assert_eq!(percentile(times(21), 95), Duration::from_millis(20));
    assert_eq!(percentile(times(1), 95), Duration::from_millis(1));
    assert_eq!(percentile(times(0), 95), Duration::ZERO);
}

#[test]
fn eight_of_ten_facts_in_the_top_three_are_enough_and_seven_are_not() {
    let mut calls = every_fact();
    let missed = answered(&["x", "y", "z", "too late"], HOME);
    assert!(finds_planted_fact(&calls).passed);
    calls[0] = answered(&["x", "y", "z", FACTS[0].0], HOME);
    calls[1] = missed;
    let eight = finds_planted_fact(&calls);
    assert!(
        eight.passed && eight.detail.starts_with("8/10 "),
        "{eight:?}"
    );
    calls[2] = answered(&[], HOME);
    assert!(!finds_planted_fact(&calls).passed);
}

#[test]
fn one_row_of_a_sibling_or_one_forged_ref_is_a_violation() {
    assert!(respects_scoped_view(&every_fact()).passed);
    for bad in [
        answered(&["a"], "conf/b"),
        answered(&["a"], "conf/ab"),
        with_stats(|stats| stats.dropped_unknown = 1),
    ] {
        let mut calls = every_fact();
        calls.push(bad);
        let check = respects_scoped_view(&calls);
        assert!(
            !check.passed && check.detail.starts_with("1 violations"),
            "{check:?}"
        );
    }
}

#[test]
fn latency_is_judged_at_the_bound() {
    let slow = |millis| Call {
        took: Duration::from_millis(millis),
        ..answered(&[], HOME)
    };
    assert!(latency_envelope(&[slow(150)]).passed);
    assert!(!latency_envelope(&[slow(151)]).passed);
}

#[test]
fn the_budget_is_broken_by_what_the_host_had_to_leave_out() {
    assert!(budget_discipline(&[answered(&["a"; 6], HOME)]).passed);
    assert!(!budget_discipline(&[answered(&["a"; 7], HOME)]).passed);
    for bad in [
        with_stats(|stats| stats.over_budget = 1),
        with_stats(|stats| stats.over_k = 1),
        with_stats(|stats| stats.dropped_duplicate = 1),
        with_stats(|stats| stats.dropped_nonfinite = 1),
    ] {
        assert!(!budget_discipline(&[bad]).passed);
    }
}

#[test]
fn a_top_hit_alone_may_exceed_the_budget() {
    let mut call = answered(&["a"], HOME);
    if let Ok(plan) = &mut call.outcome {
        plan.hits[0].token_estimate = u64::from(TOKEN_BUDGET) + 1;
    }
    assert!(budget_discipline(&[call]).passed);
}

#[test]
fn only_the_order_of_the_first_three_must_repeat() {
    let run = |contents: &[&str]| vec![answered(contents, HOME)];
    let once = run(&["a", "b", "c", "d"]);
    assert!(deterministic_k(&once, &run(&["a", "b", "c", "e"])).passed);
    assert!(!deterministic_k(&once, &run(&["b", "a", "c", "d"])).passed);
    assert!(!deterministic_k(&once, &run(&["a", "b"])).passed);
}

#[test]
fn a_call_that_failed_fails_every_check_that_made_it() {
    let calls = [failed()];
    for check in [
        respects_scoped_view(&calls),
        latency_envelope(&calls),
        budget_discipline(&calls),
        deterministic_k(&calls, &calls),
    ] {
        assert!(!check.passed, "{check:?}");
        assert!(
            check.detail.contains("calls failed: the cartridge trapped"),
            "{check:?}"
        );
    }
}
