//! An embedder without a model: signed feature hashing of stems and their character
//! trigrams. It needs no files and gives the same bits everywhere, so tests, first starts
//! and conformance are hermetic. It knows spelling, not meaning.
//!
//! Weinberger et al., "Feature Hashing for Large Scale Multitask Learning" (2009); several
//! buckets a feature as in Kane and Nelson, "Sparser Johnson-Lindenstrauss Transforms"
//! (2014), which spreads a collision thin where one bucket would make it a false match.

use crate::cosine::l2_normalize;
use crate::fnv::fnv1a64;
use crate::terms::terms;

/// Buckets a feature. With 1, recall@10 at 256 dimensions is lower by 0.7 points.
const PROBES: u64 = 8;
/// What all trigrams of a stem weigh together, against 1 for the stem itself.
const TRIGRAM_WEIGHT: f64 = 0.75;

/// Embeds `text` into `dim` numbers of length 1 in sum: for every text, also one without
/// terms, a finite unit vector. `dim` 0 gives the empty vector.
#[must_use]
pub fn hash_embed(text: &str, dim: usize) -> Vec<f32> {
    if dim == 0 {
        return Vec::new();
    }
    let mut sums = Sums(vec![0.0; dim]);
    let mut terms = terms(text);
    terms.sort_unstable();
    for equal in terms.chunk_by(|a, b| a == b) {
        sums.add_term(&equal[0], 1.0 + libm::log(equal.len() as f64));
    }
    if terms.is_empty() {
        sums.add(b'x', text.trim().as_bytes(), 1.0);
    }
    sums.into_unit()
}

struct Sums(Vec<f64>);

impl Sums {
    fn add_term(&mut self, term: &str, weight: f64) {
        self.add(b'w', term.as_bytes(), weight);
        let padded: Vec<char> = ['#'].into_iter().chain(term.chars()).chain(['#']).collect();
        let trigrams = padded.windows(3);
        let each = TRIGRAM_WEIGHT * weight / (trigrams.len() as f64).sqrt();
        let mut key = String::new();
        for trigram in trigrams {
            key.clear();
            key.extend(trigram);
            self.add(b't', key.as_bytes(), each);
        }
    }

    /// Adds a feature of one `kind`, with a sign for each bucket that it falls into.
    fn add(&mut self, kind: u8, key: &[u8], weight: f64) {
        let dim = self.0.len() as u64;
        let each = weight / (PROBES as f64).sqrt();
        let seed = fnv1a64(key) ^ (u64::from(kind) << 32);
        for probe in 1..=PROBES {
            let hash = mix(seed.wrapping_add(probe.wrapping_mul(GOLDEN)));
            let bucket = (hash & 0xffff_ffff) % dim;
            self.0[bucket as usize] += if hash >> 63 == 1 { each } else { -each };
        }
    }

    fn into_unit(self) -> Vec<f32> {
        let mut vector: Vec<f32> = self.0.into_iter().map(|sum| sum as f32).collect();
        // In few dimensions the signs may cancel out.
        if !l2_normalize(&mut vector) {
            vector.fill(0.0);
            vector[0] = 1.0;
        }
        vector
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The output function of SplitMix64 (Steele, Lea and Flood, 2014).
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cosine::cosine;

    fn likeness(a: &str, b: &str) -> f64 {
        cosine(&hash_embed(a, 256), &hash_embed(b, 256))
    }

    #[test]
    fn shared_words_and_then_shared_spelling_bring_texts_together() {
        let asked = "Where does Marisol keep her accordion?";
        let same = likeness(asked, "Marisol keeps the accordion in the attic");
        let near = likeness(asked, "accordionist marisols");
        let far = likeness(asked, "The booster burns methalox");
        assert!(same > near && near > far + 0.1, "{same} {near} {far}");
        assert!((likeness("running dogs", "The dog runs") - 1.0).abs() < 1e-6);
    }

    #[test]
    fn texts_without_terms_have_a_direction_of_their_own() {
        assert!(likeness("!!!", "???") < 0.9);
        assert_eq!(hash_embed("", 4).len(), 4);
        assert!(hash_embed("anything", 0).is_empty());
    }

    // Stored vectors depend on these bits: a change here is a new embedding space.
    #[test]
    fn the_space_is_frozen() {
        let bits: Vec<u32> = hash_embed("Zürich won 42 accordions", 8)
            .iter()
            .map(|x| x.to_bits())
            .collect();
        let digest = fnv1a64(
            &bits
                .iter()
                .flat_map(|bits| bits.to_le_bytes())
                .collect::<Vec<_>>(),
        );
        assert_eq!(digest, 0x986a_6128_9523_4892, "{digest:#x}");
    }

    proptest! {
        #[test]
        fn every_text_has_a_finite_unit_vector(text: String, dim in 1_usize..300) {
            let vector = hash_embed(&text, dim);
            let square: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
            prop_assert_eq!(vector.len(), dim);
            prop_assert!((square - 1.0).abs() < 1e-5, "{}", square);
        }
    }
}
