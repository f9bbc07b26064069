//! Which English words carry no meaning of their own: the list of NLTK, 198 words. A short
//! list of thirty or so costs about five points of recall. It stands here and does not
//! come from a crate because those carry every language into each cartridge.

use std::collections::HashSet;
use std::sync::OnceLock;

use crate::fnv::BuildFnv;

/// NLTK, corpus `stopwords`, `english`.
const ENGLISH: &str = "\
    a about above after again against ain all am an and any are aren aren't as at be \
    because been before being below between both but by can couldn couldn't d did didn \
    didn't do does doesn doesn't doing don don't down during each few for from further \
    had hadn hadn't has hasn hasn't have haven haven't having he he'd he'll her here \
    hers herself he's him himself his how i i'd if i'll i'm in into is isn isn't it it'd \
    it'll it's its itself i've just ll m ma me mightn mightn't more most mustn mustn't \
    my myself needn needn't no nor not now o of off on once only or other our ours \
    ourselves out over own re s same shan shan't she she'd she'll she's should shouldn \
    shouldn't should've so some such t than that that'll the their theirs them \
    themselves then there these they they'd they'll they're they've this those through \
    to too under until up ve very was wasn wasn't we we'd we'll we're were weren weren't \
    we've what when where which while who whom why will with won won't wouldn wouldn't y \
    you you'd you'll your you're yours yourself yourselves you've";

/// On the list only as halves of "don't", "haven't" and "won't". Alone they are a name,
/// a place and a victory.
const HALVES: [&str; 3] = ["don", "haven", "won"];

/// No word on the list is longer, in bytes.
const LONGEST: usize = 10;

/// Whether the lower-case `word` is a stop word; `negated` when "'t" follows it.
pub(crate) fn is_stop_word(word: &str, negated: bool) -> bool {
    static WORDS: OnceLock<HashSet<&'static str, BuildFnv>> = OnceLock::new();
    let words = || ENGLISH.split(' ').collect();
    word.len() <= LONGEST
        && WORDS.get_or_init(words).contains(word)
        && (negated || !HALVES.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_the_long_one() {
        let list: HashSet<&str> = ENGLISH.split(' ').collect();
        assert_eq!(list.len(), 198);
        assert!(list.iter().all(|word| (1..=LONGEST).contains(&word.len())));
        assert!(
            ["a", "o", "you've", "yourselves"]
                .iter()
                .all(|word| list.contains(word))
        );
    }

    #[test]
    fn half_of_a_negation_is_a_word_when_it_stands_alone() {
        assert!(is_stop_word("won", true));
        assert!(!is_stop_word("won", false));
        assert!(is_stop_word("the", false));
    }
}
