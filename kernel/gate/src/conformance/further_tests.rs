//! Verdicts of the further checks over calls that were never made.

use super::super::checks::tests::{answered, failed, with_stats};
use super::super::fixture::HOME;
use super::*;

#[test]
fn use_beyond_a_limit_or_beyond_k_is_found() {
    let limits = Limits::default();
    let good = limits_respected(&[with_stats(|stats| stats.rows = 700)], &limits);
    assert!(
        good.passed && good.detail.contains("700/50000 rows"),
        "{good:?}"
    );
    for bad in [
        with_stats(|stats| stats.over_k = 1),
        with_stats(|stats| stats.rows = 50_001),
        failed(),
    ] {
        assert!(!limits_respected(&[bad], &limits).passed);
    }
}

#[test]
fn one_repeated_ref_is_found() {
    let good = [answered(&["a"], HOME)];
    assert!(no_duplicate_refs(good.iter()).passed);
    let bad = [with_stats(|stats| stats.dropped_duplicate = 1)];
    assert!(!no_duplicate_refs(good.iter().chain(&bad)).passed);
}

#[test]
fn an_answer_out_of_nothing_is_found() {
    assert!(empty_corpus(&[answered(&[], HOME)]).passed);
    assert!(!empty_corpus(&[answered(&["a"], HOME)]).passed);
    let forged = || {
        let mut call = with_stats(|stats| stats.dropped_unknown = 1);
        if let Ok(plan) = &mut call.outcome {
            plan.hits.clear();
        }
        call
    };
    assert!(!empty_corpus(&[forged()]).passed);
    assert!(!empty_corpus(&[failed()]).passed);
}

#[test]
fn six_of_eight_scripts_are_enough_and_five_are_not() {
    let found = |count: usize| {
        let calls: Vec<Call> = SCRIPTS
            .iter()
            .enumerate()
            .map(|(at, text)| match at < count {
                true => answered(&[*text], HOME),
                false => answered(&[], HOME),
            })
            .collect();
        unicode(&calls).passed
    };
    assert!(found(6));
    assert!(!found(5));
}

#[test]
fn capabilities_are_held_against_what_was_seen() {
    let declared = |graph, streaming| Ok(Capabilities { graph, streaming });
    for (graph, streaming, graph_calls, honest) in [
        (false, false, 0, true),
        (true, false, 3, true),
        (true, false, 0, false),
        (false, false, 1, false),
        (false, true, 0, false),
    ] {
        let check = honest_capabilities(&declared(graph, streaming), graph_calls, 40);
        assert_eq!(check.passed, honest, "{check:?}");
    }
    let trapped = Err(PlanFailure::Trap("unreachable".to_owned()));
    assert!(!honest_capabilities(&trapped, 0, 40).passed);
}
