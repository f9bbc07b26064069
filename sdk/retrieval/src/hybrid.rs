//! Merging the vector lane and the lexical lane into one ranking. Refs are whatever the
//! caller ranks by; only their order matters, as the last tie-break.

use std::cmp::Ordering;

use crate::normalize::min_max;

/// What the vector lane weighs in [`hybrid_merge`].
pub const VECTOR_WEIGHT: f64 = 0.5;
/// What the lexical lane weighs in [`hybrid_merge`].
pub const LEXICAL_WEIGHT: f64 = 0.5;
/// The least that a cosine can be, and what the vector lane is normalised from.
pub const COSINE_FLOOR: f64 = -1.0;
/// The least that a BM25 score can be, and what the lexical lane is normalised from.
pub const BM25_FLOOR: f64 = 0.0;

/// How many hits to fetch in each lane for an answer of `k`: max(2k, 10).
#[must_use]
pub const fn lane_k(k: usize) -> usize {
    let double = k.saturating_mul(2);
    if double > 10 { double } else { 10 }
}

/// How many rows each lane hands out for an answer of `k`: max(8 · lane, 128). Both lanes
/// hand out as many, so that few refs of the one are unknown to the other.
#[must_use]
pub const fn pool_size(k: usize) -> usize {
    let pool = lane_k(k).saturating_mul(8);
    if pool > 128 { pool } else { 128 }
}

/// Merges the cosines of the nearest with BM25 scores, half and half: one entry a ref,
/// score in [0, 1] descending, then ref ascending, at most `k`.
///
/// Each lane is min-max normalised from the least that its measure can be to the best that
/// was found. From the least that was found, the spread of a handful of near equals would
/// be blown up to weigh as much as all that separates the best BM25 from nothing.
///
/// A ref that the vector lane lacks counts as the farthest in it: a nearest-neighbour
/// search leaves out what is no nearer. One that the lexical lane lacks counts 0. A ref
/// repeated within a lane counts its best score.
#[must_use]
pub fn hybrid_merge<R: Ord + Clone>(
    vector: &[(R, f64)],
    lexical: &[(R, f64)],
    k: usize,
) -> Vec<(R, f64)> {
    let near = best_of_each(vector, Some(COSINE_FLOOR));
    let words = best_of_each(lexical, Some(BM25_FLOOR));
    let farthest = near.iter().map(|(_, cosine)| *cosine).fold(1.0, f64::min);
    let beyond = if near.is_empty() { 0.0 } else { farthest };
    let merged = joined(&near, &words).map(|(found, cosine, bm25)| {
        let (cosine, bm25) = (cosine.unwrap_or(beyond), bm25.unwrap_or(0.0));
        let score = VECTOR_WEIGHT * cosine + LEXICAL_WEIGHT * bm25;
        (found.clone(), score)
    });
    top(merged.collect(), k)
}

/// Merges any number of weighted lanes whose measures are not known: each min-max
/// normalised from the least that was found, in the order of [`hybrid_merge`]. A lane in
/// which a ref is missing adds nothing to it; one in which it is repeated counts its best.
#[must_use]
pub fn weighted_merge<R: Ord + Clone>(lanes: &[(f64, &[(R, f64)])], k: usize) -> Vec<(R, f64)> {
    let mut merged: Vec<(R, f64)> = Vec::new();
    for (weight, lane) in lanes {
        let scored = best_of_each(lane, None).into_iter();
        merged.extend(scored.map(|(found, score)| (found.clone(), weight * score)));
    }
    // Stable, so that a ref's parts are summed in the order of the lanes.
    merged.sort_by(|(a, _), (b, _)| a.cmp(b));
    merged.dedup_by(|(found, part), (kept, sum)| {
        let same = found == kept;
        *sum += if same { *part } else { 0.0 };
        same
    });
    top(merged, k)
}

/// A score that does not depend on what else was found, in [-0.6, 1):
/// 0.6 · cosine + 0.4 · b / (b + 1), for a BM25 score `b` >= 0.
#[must_use]
pub fn absolute_score(cosine: f64, bm25: f64) -> f64 {
    0.6 * cosine + 0.4 * (bm25 / (bm25 + 1.0))
}

/// The lane normalised, from `floor` if there is one, else from the least in it: the best
/// score of each ref, by ref.
fn best_of_each<R: Ord>(lane: &[(R, f64)], floor: Option<f64>) -> Vec<(&R, f64)> {
    let scores: Vec<f64> = lane.iter().map(|(_, score)| *score).chain(floor).collect();
    let refs = lane.iter().map(|(found, _)| found);
    let mut best: Vec<(&R, f64)> = refs.zip(min_max(&scores)).collect();
    best.sort_unstable_by(|(a, x), (b, y)| a.cmp(b).then_with(|| y.total_cmp(x)));
    best.dedup_by(|(found, _), (kept, _)| found == kept);
    best
}

/// Two lanes by ref, side by side.
fn joined<'r, R: Ord>(
    first: &[(&'r R, f64)],
    second: &[(&'r R, f64)],
) -> impl Iterator<Item = (&'r R, Option<f64>, Option<f64>)> {
    let mut first = first.iter().copied().peekable();
    let mut second = second.iter().copied().peekable();
    std::iter::from_fn(move || {
        let order = match (first.peek(), second.peek()) {
            (Some((a, _)), Some((b, _))) => a.cmp(b),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        let a = first.next_if(|_| order.is_le());
        let b = second.next_if(|_| order.is_ge());
        let (found, _) = a.or(b)?;
        Some((found, a.map(|(_, score)| score), b.map(|(_, score)| score)))
    })
}

fn top<R: Ord>(mut hits: Vec<(R, f64)>, k: usize) -> Vec<(R, f64)> {
    hits.sort_unstable_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
    hits.truncate(k);
    hits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lanes_over_fetch() {
        assert_eq!([lane_k(0), lane_k(5), lane_k(10)], [10, 10, 20]);
        assert_eq!(
            [pool_size(1), pool_size(10), pool_size(100)],
            [128, 160, 1600]
        );
    }

    #[test]
    fn a_ref_in_both_lanes_rises_above_the_best_of_one() {
        let vector = [("a", 0.9), ("b", 0.8), ("c", 0.1)];
        let lexical = [("b", 7.0), ("d", 2.0)];
        let merged = hybrid_merge(&vector, &lexical, 10);
        let order: Vec<_> = merged.iter().map(|(found, _)| *found).collect();
        assert_eq!(order, ["b", "a", "d", "c"]);
        assert_eq!(merged[1].1, 0.5);
    }

    #[test]
    fn a_small_spread_of_cosines_stays_small() {
        let vector = [("a", 0.51), ("b", 0.5), ("c", 0.49)];
        let lexical = [("b", 4.0), ("c", 5.0)];
        let merged = hybrid_merge(&vector, &lexical, 10);
        let order: Vec<_> = merged.iter().map(|(found, _)| *found).collect();
        assert_eq!(order, ["c", "b", "a"]);
    }

    #[test]
    fn what_the_vector_lane_lacks_counts_as_its_farthest() {
        let vector = [("a", 1.0), ("b", 0.0)];
        let merged = hybrid_merge(&vector, &[("c", 3.0), ("d", 0.0)], 10);
        assert_eq!(merged, [("c", 0.75), ("a", 0.5), ("b", 0.25), ("d", 0.25)]);
        let words_only = hybrid_merge(&[], &[("c", 3.0), ("d", 0.0)], 10);
        assert_eq!(words_only, [("c", 0.5), ("d", 0.0)]);
    }

    #[test]
    fn lanes_of_unknown_measure_are_normalised_from_their_least() {
        let first = [("a", 9.0), ("b", 8.0), ("c", 7.0)];
        let second = [("d", 5.0), ("b", 1.0)];
        let merged = weighted_merge(&[(1.0, &first), (0.25, &second)], 3);
        assert_eq!(merged, [("a", 1.0), ("b", 0.5), ("d", 0.25)]);
    }

    #[test]
    fn ties_go_to_the_smaller_ref_and_repeats_count_once() {
        let merged = hybrid_merge(&[(2, 1.0), (1, 1.0), (2, 1.0)], &[], 10);
        assert_eq!(merged, [(1, 0.5), (2, 0.5)]);
    }

    proptest! {
        #[test]
        fn the_order_of_a_lane_does_not_matter(
            mut vector in prop::collection::vec((0_u8..20, -1.0_f64..1.0), 0..20),
            lexical in prop::collection::vec((0_u8..20, 0.0_f64..9.0), 0..20),
            k in 0_usize..12,
        ) {
            let merged = hybrid_merge(&vector, &lexical, k);
            vector.reverse();
            prop_assert_eq!(&merged, &hybrid_merge(&vector, &lexical, k));
            prop_assert!(merged.len() <= k);
            prop_assert!(merged.iter().all(|(_, score)| (0.0..=1.0).contains(score)));
            for pair in merged.windows(2) {
                prop_assert!((pair[1].1, pair[0].0) < (pair[0].1, pair[1].0));
            }
        }
    }
}
