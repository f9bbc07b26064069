//! Min-max normalising of the scores of one lane.

/// Maps the scores onto [0, 1], the lowest to 0 and the highest to 1, in their order.
///
/// When all are equal they become 1 if they are above zero, else 0: a lane with a single
/// hit has found something, a lane of zeros has not. A score that is not finite becomes 0
/// and takes no part. The result is never NaN.
#[must_use]
pub fn min_max(scores: &[f64]) -> Vec<f64> {
    let finite = || scores.iter().copied().filter(|score| score.is_finite());
    let low = finite().fold(f64::INFINITY, f64::min);
    let high = finite().fold(f64::NEG_INFINITY, f64::max);
    scores
        .iter()
        .map(|score| within(*score, low, high))
        .collect()
}

fn within(score: f64, low: f64, high: f64) -> f64 {
    if !score.is_finite() {
        return 0.0;
    }
    if low == high {
        return if score > 0.0 { 1.0 } else { 0.0 };
    }
    let range = high - low;
    if range.is_finite() {
        (score - low) / range
    } else {
        // The extremes lie further apart than a number can say; half of that can be said.
        (score / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_ends_become_zero_and_one() {
        assert_eq!(min_max(&[3.0, 1.0, 2.0]), [1.0, 0.0, 0.5]);
        assert_eq!(min_max(&[-1.0, 1.0]), [0.0, 1.0]);
    }

    #[test]
    fn equal_scores_are_one_if_they_found_anything() {
        assert_eq!(min_max(&[0.7, 0.7]), [1.0, 1.0]);
        assert_eq!(min_max(&[0.0, 0.0]), [0.0, 0.0]);
        assert_eq!(min_max(&[-0.5]), [0.0]);
        assert!(min_max(&[]).is_empty());
    }

    #[test]
    fn what_is_not_finite_counts_for_nothing() {
        assert_eq!(
            min_max(&[f64::NAN, 2.0, f64::INFINITY, 4.0]),
            [0.0, 0.0, 0.0, 1.0]
        );
        assert_eq!(min_max(&[f64::NAN]), [0.0]);
    }

    proptest! {
        #[test]
        fn the_result_is_within_bounds_and_keeps_the_order(scores in prop::collection::vec(any::<f64>(), 0..20)) {
            let normal = min_max(&scores);
            prop_assert!(normal.iter().all(|score| (0.0..=1.0).contains(score)));
            for (a, x) in scores.iter().zip(&normal) {
                for (b, y) in scores.iter().zip(&normal) {
                    prop_assert!(!(a.is_finite() && b.is_finite() && a < b) || x <= y);
                }
            }
        }
    }
}
