//! Cosine similarity. Sums run in `f64` and in a fixed order, so the bits are the same
//! on every target.

/// The cosine of two vectors, in [-1, 1]. 0 when either has no direction (all zeros, or
/// not finite). Of vectors of unequal length, the longer is cut.
#[must_use]
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let (mut dot, mut aa, mut bb) = (0.0_f64, 0.0_f64, 0.0_f64);
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (f64::from(*x), f64::from(*y));
        dot += x * y;
        aa += x * x;
        bb += y * y;
    }
    let cosine = dot / (aa.sqrt() * bb.sqrt());
    if cosine.is_finite() {
        cosine.clamp(-1.0, 1.0)
    } else {
        0.0
    }
}

/// Scales `vector` to length 1. Left as it is, answering false, when it has no direction.
pub fn l2_normalize(vector: &mut [f32]) -> bool {
    let square: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    let length = square.sqrt();
    let directed = length.is_finite() && length > 0.0;
    if directed {
        vector
            .iter_mut()
            .for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
    directed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_vector_without_direction_is_like_nothing() {
        assert_eq!(cosine(&[0.0, 0.0], &[1.0, 2.0]), 0.0);
        assert_eq!(cosine(&[f32::NAN], &[1.0]), 0.0);
        assert!(!l2_normalize(&mut [0.0, 0.0]));
        assert!(!l2_normalize(&mut [f32::INFINITY, 0.0]));
    }

    #[test]
    fn opposite_vectors_score_minus_one() {
        assert!((cosine(&[1.0, -2.0], &[-2.0, 4.0]) + 1.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn it_stays_in_range_and_ignores_scale(
            pairs in prop::collection::vec((-1e3_f32..1e3, -1e3_f32..1e3), 1..32),
        ) {
            let (mut a, b): (Vec<_>, Vec<_>) = pairs.into_iter().unzip();
            let before = cosine(&a, &b);
            prop_assert!((-1.0..=1.0).contains(&before));
            if l2_normalize(&mut a) {
                prop_assert!((cosine(&a, &b) - before).abs() < 1e-5);
            }
        }
    }
}
