//! From text to terms: NFKC, lower case, Unicode word boundaries, the English stop list,
//! Snowball stemming. What must not live here: any notion of a corpus.

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};
use unicode_normalization::UnicodeNormalization as _;
use unicode_segmentation::UnicodeSegmentation as _;

use crate::stop::is_stop_word;

/// Terms are cut to this many bytes, as index structures bound their keys.
pub const MAX_TERM_BYTES: usize = 255;

/// Longer words are kept as they are: nothing of that length inflects, and the stemmer
/// copies a word for each letter that it changes.
const MAX_STEMMED_BYTES: usize = 48;

/// The terms of `text`, in order and with repetitions. Linear in the length of the text.
///
/// Words are compared after NFKC and lower-casing. Numbers are terms. Apostrophes part a
/// word, and what they leave of a contraction or a possessive ("'s", "n't") is on the
/// stop list. Words of ASCII letters are stemmed (Snowball English); others are kept.
#[must_use]
pub fn terms(text: &str) -> Vec<String> {
    let mut terms = Vec::new();
    each_term(text, |term| terms.push(term.to_owned()));
    terms
}

/// Calls `each` with every term of `text`, as [`terms`] lists them.
pub fn each_term(text: &str, mut each: impl FnMut(&str)) {
    let stemmer = EnglishStemmer::default();
    each_word(text, |word| each(&stemmer.stem(word)));
}

/// Calls `each` with every word of `text` that is no stop word: normalised, unstemmed.
pub(crate) fn each_word(text: &str, mut each: impl FnMut(&str)) {
    let mut keep = |word: &str, negated| {
        if !is_stop_word(word, negated) {
            each(cut(word));
        }
    };
    if text.is_ascii() {
        each_ascii_word(text, &mut keep);
    } else {
        each_unicode_word(text, &mut keep);
    }
}

/// The English stemmer, for words as [`each_word`] gives them.
pub(crate) struct EnglishStemmer(Stemmer);

impl Default for EnglishStemmer {
    fn default() -> Self {
        Self(Stemmer::create(Algorithm::English))
    }
}

impl EnglishStemmer {
    pub(crate) fn stem<'w>(&self, word: &'w str) -> Cow<'w, str> {
        let inflects =
            word.len() <= MAX_STEMMED_BYTES && word.bytes().all(|b| b.is_ascii_lowercase());
        if inflects {
            self.0.stem(word)
        } else {
            Cow::Borrowed(word)
        }
    }
}

/// False only if the stem of `word` is not `stem`. Snowball rewrites the end of a word, and
/// at most the last two bytes of a stem are not those of the word ("dying" to "die").
pub(crate) fn may_stem_to(word: &str, stem: &str) -> bool {
    let common = stem.len().saturating_sub(2).max(1).min(stem.len());
    // Byte by byte: nearly all differ in the first few, and a call costs more than those.
    let mut bytes = word.bytes().zip(stem.bytes()).take(common);
    word.len() >= common && bytes.all(|(a, b)| a == b)
}

/// What a byte of ASCII text is to a word: nothing, a part, or a capital letter.
const BETWEEN: u8 = 0;
const SMALL: u8 = 1;
const CAPITAL: u8 = 2;
const CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut classes = [BETWEEN; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        classes[byte as usize] = match byte {
            b'A'..=b'Z' => CAPITAL,
            b'a'..=b'z' | b'0'..=b'9' => SMALL,
            _ => BETWEEN,
        };
        byte += 1;
    }
    classes
}

/// What [`each_unicode_word`] would find, at a fraction of the cost.
fn each_ascii_word(text: &str, keep: &mut impl FnMut(&str, bool)) {
    let bytes = text.as_bytes();
    let mut lower = String::new();
    // Of the word at hand, if any: where it began, and what it is made of.
    let (mut start, mut made_of) = (0, BETWEEN);
    for (at, byte) in bytes.iter().chain(b" ").enumerate() {
        let class = CLASS[usize::from(*byte)];
        if class != BETWEEN {
            made_of |= class;
            continue;
        }
        if made_of != BETWEEN {
            let word = &text[start..at];
            // A digit and an apostrophe are not of one word, says UAX #29.
            let apostrophe = *byte == b'\'' && !bytes[at - 1].is_ascii_digit();
            let negated = apostrophe && followed_by_t(&text[at..]);
            if made_of & CAPITAL != 0 {
                lower.clear();
                lower.push_str(word);
                lower.make_ascii_lowercase();
                keep(&lower, negated);
            } else {
                keep(word, negated);
            }
        }
        (start, made_of) = (at + 1, BETWEEN);
    }
}

fn each_unicode_word(text: &str, keep: &mut impl FnMut(&str, bool)) {
    let visible = text.chars().filter(|c| *c != SOFT_HYPHEN);
    let normal: String = visible.nfkc().flat_map(char::to_lowercase).collect();
    for word in normal.unicode_words() {
        let mut rest = word;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.find(is_joiner).unwrap_or(rest.len()));
            if !piece.is_empty() {
                keep(piece, followed_by_t(after));
            }
            let mut after = after.chars();
            after.next();
            rest = after.as_str();
        }
    }
}

const SOFT_HYPHEN: char = '\u{ad}';

/// What UAX #29 leaves inside a word, and we do not: "Ann's", "3,000", "snake_case".
fn is_joiner(c: char) -> bool {
    c.is_ascii_punctuation() || matches!(c, '’' | '‘' | '·' | '‿' | '⁀' | '⁔')
}

fn followed_by_t(after: &str) -> bool {
    let mut chars = after.chars();
    matches!(chars.next(), Some('\'' | '’'))
        && matches!(chars.next(), Some('t' | 'T'))
        && !chars.next().is_some_and(char::is_alphanumeric)
}

fn cut(word: &str) -> &str {
    &word[..word.floor_char_boundary(MAX_TERM_BYTES)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unicode_words(text: &str) -> Vec<(String, bool)> {
        let mut words = Vec::new();
        each_unicode_word(text, &mut |word: &str, negated| {
            words.push((word.to_owned(), negated))
        });
        words
    }

    fn ascii_words(text: &str) -> Vec<(String, bool)> {
        let mut words = Vec::new();
        each_ascii_word(text, &mut |word: &str, negated| {
            words.push((word.to_owned(), negated))
        });
        words
    }

    #[test]
    fn words_are_stemmed_and_stop_words_dropped() {
        assert_eq!(
            terms("The cats were running, and 42 dogs ran."),
            ["cat", "run", "42", "dog", "ran"]
        );
    }

    #[test]
    fn contractions_and_possessives_leave_no_junk() {
        assert_eq!(
            terms("Ann's dogs' bowls aren't O'Brien's"),
            ["ann", "dog", "bowl", "brien"]
        );
        assert_eq!(
            terms("Ann’s dogs’ bowls aren’t O’Brien’s"),
            ["ann", "dog", "bowl", "brien"]
        );
        assert!(terms("I've won't don't haven't she'll they'd we're it's y'all").is_empty());
        assert!(terms("I’ve won’t don’t haven’t SHE’LL they’d we’re it’s").is_empty());
    }

    #[test]
    fn irregular_stems_begin_as_their_words_do() {
        for word in [
            "dying", "lying", "tying", "skies", "skis", "idly", "early", "news", "ugly", "hoping",
        ] {
            let stem = EnglishStemmer::default().stem(word).into_owned();
            assert!(may_stem_to(word, &stem), "{word} to {stem}");
        }
    }

    #[test]
    fn a_victory_is_no_contraction() {
        assert_eq!(
            terms("Don won in New Haven"),
            ["don", "won", "new", "haven"]
        );
    }

    #[test]
    fn compatible_and_composed_forms_are_one_term() {
        assert_eq!(terms("ﬁle Ｃａｆé"), terms("file café"));
        assert_eq!(terms("cafe\u{301}"), terms("café"));
        assert_eq!(terms("STRASSE Ünal"), ["strass", "ünal"]);
        assert_eq!(terms("co\u{ad}author é"), ["coauthor", "é"]);
    }

    #[test]
    fn scripts_without_spaces_are_parted_and_signs_are_not_terms() {
        assert_eq!(terms("東京 🎉 — हिन्दी"), ["東", "京", "हिन्दी"]);
        assert!(terms("!!! … 🎉🎉 -- ").is_empty());
    }

    #[test]
    fn an_endless_word_is_cut_on_a_character() {
        assert_eq!(terms(&"y".repeat(1 << 20)), ["y".repeat(MAX_TERM_BYTES)]);
        let accents = terms(&"é".repeat(1 << 19));
        assert_eq!(accents, ["é".repeat(MAX_TERM_BYTES / 2)]);
        assert_eq!(terms(&"a\u{301}\u{323}".repeat(1 << 18)).len(), 1);
    }

    proptest! {
        #[test]
        fn both_paths_agree_on_apostrophes(text in "([a0_]|don|'|'t|T|'s|[ .:-]){0,9}") {
            prop_assert_eq!(ascii_words(&text), unicode_words(&text));
        }

        #[test]
        fn both_paths_see_the_same_words_in_ascii(text in "[ -~\\n\\t]{0,80}") {
            prop_assert_eq!(ascii_words(&text), unicode_words(&text));
        }

        #[test]
        fn any_text_gives_terms_within_bounds(text in any::<String>()) {
            for term in terms(&text) {
                prop_assert!(!term.is_empty() && term.len() <= MAX_TERM_BYTES);
            }
        }

        #[test]
        fn a_stem_begins_as_its_word_does(word in "[a-z]{1,14}(s|ed|ing|ies|ly|ation|ability|ization|iveness)?") {
            let stem = EnglishStemmer::default().stem(&word).into_owned();
            prop_assert!(may_stem_to(&word, &stem), "{} to {}", word, stem);
        }
    }
}
