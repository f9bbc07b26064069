//! Which English words carry no meaning of their own: the list of NLTK, 198 words. A short
//! list of thirty or so costs about five points of recall. It stands here and does not
//! come from a crate because those carry every language into each cartridge.

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

/// The words by [`slot`], with open addressing: the next free slot after its own. Made
/// when this crate is compiled: a cartridge starts afresh for each call and could not
/// afford to make it then. Sparse, so that most words that are not listed meet nothing.
const TABLE: [&str; SLOTS] = table();
const SLOTS: usize = 1024;

const fn table() -> [&'static str; SLOTS] {
    let mut table = [""; SLOTS];
    let mut rest = ENGLISH;
    while !rest.is_empty() {
        let mut end = 0;
        while end < rest.len() && rest.as_bytes()[end] != b' ' {
            end += 1;
        }
        let (word, after) = rest.split_at(end);
        let mut at = slot(word.as_bytes());
        while !table[at].is_empty() {
            at = (at + 1) % SLOTS;
        }
        table[at] = word;
        rest = if after.is_empty() {
            after
        } else {
            after.split_at(1).1
        };
    }
    table
}

/// From the length and three bytes of a word that is not empty: a hash that reads all of
/// them would cost more than it saves.
const fn slot(word: &[u8]) -> usize {
    let (first, middle, last) = (word[0], word[word.len() / 2], word[word.len() - 1]);
    let key = u32::from_le_bytes([first, middle, last, word.len() as u8]);
    // The fractional part of the golden ratio; the high bits are the mixed ones.
    (key.wrapping_mul(0x9e37_79b1) >> (u32::BITS - SLOTS.ilog2())) as usize
}

/// Whether the lower-case `word` is a stop word; `negated` when "'t" follows it.
pub(crate) fn is_stop_word(word: &str, negated: bool) -> bool {
    if word.is_empty() {
        return false;
    }
    let mut at = slot(word.as_bytes());
    while !TABLE[at].is_empty() {
        if same(TABLE[at], word) {
            return negated || !HALVES.contains(&word);
        }
        at = (at + 1) % SLOTS;
    }
    false
}

/// In place, since a call costs more than the few bytes of a stop word.
fn same(listed: &str, word: &str) -> bool {
    listed.len() == word.len() && listed.bytes().zip(word.bytes()).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_list_is_the_long_one() {
        let list: HashSet<&str> = ENGLISH.split(' ').collect();
        assert_eq!(list.len(), 198);
        assert!(list.iter().all(|word| is_stop_word(word, true)));
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
