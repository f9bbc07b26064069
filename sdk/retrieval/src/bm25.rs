//! BM25 over a handed-in set of texts: the set is its own corpus. What must not live
//! here: an index that outlives the call.
//!
//! Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond"
//! (2009), with Lucene's idf, which is never negative.

use std::collections::HashMap;

use crate::fnv::BuildFnv;
use crate::terms::{EnglishStemmer, each_word, may_stem_to, terms};

/// How soon repetitions of a term stop counting.
pub const K1: f64 = 1.2;
/// How much a long text is held to account for its length.
pub const B: f64 = 0.75;

/// The BM25 score of each text in `docs` for `query`, in their order: finite, and 0 where
/// no term is shared. A term repeated in the query counts once.
#[must_use]
pub fn bm25_scores<S: AsRef<str>>(query: &str, docs: &[S]) -> Vec<f64> {
    let mut matcher = Matcher::new(query);
    let width = matcher.stems.len();
    if width == 0 {
        return vec![0.0; docs.len()];
    }
    let mut counts = vec![0_u32; docs.len() * width];
    let rows = docs.iter().zip(counts.chunks_exact_mut(width));
    let lengths: Vec<u32> = rows
        .map(|(doc, row)| matcher.count(doc.as_ref(), row))
        .collect();
    let weights = idf_of_columns(&counts, width, docs.len());
    let total: u64 = lengths.iter().copied().map(u64::from).sum();
    let average = total as f64 / docs.len().max(1) as f64;
    let rows = counts.chunks_exact(width).zip(&lengths);
    rows.map(|(row, length)| score(row, &weights, f64::from(*length) / average))
        .collect()
}

/// ln(1 + (N − n + 0.5) / (n + 0.5)) for a term in `n` of `total` texts, `n` <= `total`.
#[must_use]
pub fn idf(n: usize, total: usize) -> f64 {
    let (n, total) = (n as f64, total as f64);
    // The platform's logarithm differs in the last bit between targets.
    libm::log(1.0 + (total - n + 0.5) / (n + 0.5))
}

/// `relative_length` is that of the text over the average. It is only looked at where a
/// term occurs, and there the average is above zero.
fn score(counts: &[u32], weights: &[f64], relative_length: f64) -> f64 {
    let mut sum = 0.0;
    for (count, weight) in counts.iter().zip(weights) {
        if *count > 0 {
            let tf = f64::from(*count);
            sum += weight * tf * (K1 + 1.0) / (tf + K1 * (1.0 - B + B * relative_length));
        }
    }
    sum
}

fn idf_of_columns(counts: &[u32], width: usize, docs: usize) -> Vec<f64> {
    let mut holders = vec![0_usize; width];
    for row in counts.chunks_exact(width) {
        for (holder, count) in holders.iter_mut().zip(row) {
            *holder += usize::from(*count > 0);
        }
    }
    holders.into_iter().map(|n| idf(n, docs)).collect()
}

/// Counts the terms of one query in many texts. It stems a word once however often it is
/// met, and only when a term of the query begins as it does: stemming is the dear part.
struct Matcher {
    stemmer: EnglishStemmer,
    /// The distinct terms of the query, in order of appearance.
    stems: Vec<String>,
    /// The first bytes of `stems`.
    begins: [bool; 256],
    /// Which of `stems` a word has, if any, for words that looked like having one.
    known: HashMap<Box<str>, Option<usize>, BuildFnv>,
}

impl Matcher {
    fn new(query: &str) -> Self {
        let mut stems = terms(query);
        let mut begins = [false; 256];
        let mut seen: HashMap<String, (), BuildFnv> = HashMap::default();
        stems.retain(|stem| seen.insert(stem.clone(), ()).is_none());
        for stem in &stems {
            stem.bytes()
                .take(1)
                .for_each(|first| begins[usize::from(first)] = true);
        }
        Self {
            stemmer: EnglishStemmer::default(),
            stems,
            begins,
            known: HashMap::default(),
        }
    }

    /// Adds the occurrences of each term in `doc` to `row`; answers its length in terms.
    fn count(&mut self, doc: &str, row: &mut [u32]) -> u32 {
        let mut length = 0_u32;
        each_word(doc, |word| {
            length = length.saturating_add(1);
            if self.may_match(word)
                && let Some(column) = self.column(word)
            {
                row[column] = row[column].saturating_add(1);
            }
        });
        length
    }

    fn may_match(&self, word: &str) -> bool {
        word.bytes()
            .next()
            .is_some_and(|first| self.begins[usize::from(first)])
            && self.stems.iter().any(|stem| may_stem_to(word, stem))
    }

    fn column(&mut self, word: &str) -> Option<usize> {
        if let Some(known) = self.known.get(word) {
            return *known;
        }
        let stem = self.stemmer.stem(word);
        let column = self.stems.iter().position(|other| *other == *stem);
        self.known.insert(word.into(), column);
        column
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, term by term, without any of the shortcuts.
    fn naive(query: &str, docs: &[String]) -> Vec<f64> {
        let docs: Vec<Vec<String>> = docs.iter().map(|doc| terms(doc)).collect();
        let average = docs.iter().map(Vec::len).sum::<usize>() as f64 / docs.len().max(1) as f64;
        let mut asked = Vec::new();
        for term in terms(query) {
            if !asked.contains(&term) {
                asked.push(term);
            }
        }
        let one = |doc: &Vec<String>, term: &String| {
            let tf = doc.iter().filter(|other| *other == term).count() as f64;
            let n = docs.iter().filter(|doc| doc.contains(term)).count();
            let norm = K1 * (1.0 - B + B * (doc.len() as f64 / average));
            if tf > 0.0 {
                idf(n, docs.len()) * tf * (K1 + 1.0) / (tf + norm)
            } else {
                0.0
            }
        };
        docs.iter()
            .map(|doc| asked.iter().fold(0.0, |sum, term| sum + one(doc, term)))
            .collect()
    }

    #[test]
    fn the_rarer_term_counts_more_and_inflections_match() {
        let docs = ["the dog barked", "a dog and a walrus", "cats meowing"];
        let scores = bm25_scores("walruses and dogs", &docs);
        assert!(scores[1] > scores[0] && scores[0] > 0.0, "{scores:?}");
        assert_eq!(scores[2], 0.0);
    }

    #[test]
    fn a_worked_example_has_the_textbook_value() {
        // N = 2, n = 1, tf = 1, both lengths 2: ln(1 + 1.5 / 1.5) * 2.2 / 2.2 = ln 2.
        let scores = bm25_scores("walrus", &["walrus tusk", "dog bone"]);
        assert_eq!(scores, [std::f64::consts::LN_2, 0.0]);
    }

    #[test]
    fn nothing_asked_or_nothing_there_scores_nothing() {
        assert_eq!(bm25_scores("the of and", &["anything"]), [0.0]);
        assert_eq!(bm25_scores("walrus", &["", "?!"]), [0.0, 0.0]);
        assert!(bm25_scores::<&str>("walrus", &[]).is_empty());
    }

    proptest! {
        #[test]
        fn the_fast_way_computes_the_definition(
            query in "((dog|dogs|running|ran|don't|the|é|Zürich|42) ){0,6}",
            docs in prop::collection::vec("((dog's|Dogs|run|runs|the|é|Zürich|42|x) ?){0,9}", 0..9),
        ) {
            prop_assert_eq!(bm25_scores(&query, &docs), naive(&query, &docs));
        }

        #[test]
        fn scores_are_finite_and_never_negative(query: String, docs: Vec<String>) {
            for score in bm25_scores(&query, &docs) {
                prop_assert!(score.is_finite() && score >= 0.0);
            }
        }
    }
}
