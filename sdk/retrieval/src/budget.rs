//! Token budgets. The estimate is deliberately cheap and bound to no tokenizer: a budget
//! is a guard-rail, not an account.

/// ceil(characters / 4), where a character is a Unicode scalar value.
#[must_use]
pub fn estimate_tokens(text: &str) -> u64 {
    text.chars().count().div_ceil(4) as u64
}

/// Which of the ranked results fit into `budget`, given the tokens of each, best first:
/// their positions, ascending. The first is always kept, even if it alone exceeds the
/// budget; after it, one that does not fit is passed over and the next is tried.
#[must_use]
pub fn fit_budget(estimates: &[u64], budget: u64) -> Vec<usize> {
    let mut total = 0_u64;
    let mut fits = |at: usize, tokens: u64| {
        let sum = total.saturating_add(tokens);
        let kept = at == 0 || sum <= budget;
        if kept {
            total = sum;
        }
        kept
    };
    (0..estimates.len())
        .filter(|at| fits(*at, estimates[*at]))
        .collect()
}

/// Trims the ranked `hits` to `budget` in place, as [`fit_budget`] does.
pub fn trim_to_budget<T>(hits: &mut Vec<T>, budget: u64, tokens: impl Fn(&T) -> u64) {
    let estimates: Vec<u64> = hits.iter().map(tokens).collect();
    let mut kept = fit_budget(&estimates, budget).into_iter().peekable();
    let mut at = 0;
    hits.retain(|_| {
        let keep = kept.next_if_eq(&at).is_some();
        at += 1;
        keep
    });
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_token_is_four_characters_begun() {
        for (text, tokens) in [
            ("", 0),
            ("a", 1),
            ("abcd", 1),
            ("abcde", 2),
            ("日本語日本", 2),
        ] {
            assert_eq!(estimate_tokens(text), tokens, "{text:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_passed_over() {
        assert_eq!(fit_budget(&[5, 9, 3, 2, 1], 10), [0, 2, 3]);
    }

    #[test]
    fn the_top_hit_stays_even_alone() {
        assert_eq!(fit_budget(&[50, 1], 10), [0]);
        assert_eq!(fit_budget(&[1], 0), [0]);
        assert!(fit_budget(&[], 10).is_empty());
    }

    proptest! {
        #[test]
        fn the_rest_never_overruns(estimates: Vec<u64>, budget: u64) {
            let kept = fit_budget(&estimates, budget);
            let total = kept.iter().try_fold(0_u64, |sum, at| sum.checked_add(estimates[*at]));
            prop_assert!(kept.len() <= 1 || total.is_some_and(|total| total <= budget));
            prop_assert_eq!(kept.first().copied(), (!estimates.is_empty()).then_some(0));
            let mut hits = estimates.clone();
            trim_to_budget(&mut hits, budget, |tokens| *tokens);
            prop_assert_eq!(hits, kept.iter().map(|at| estimates[*at]).collect::<Vec<_>>());
        }
    }
}
