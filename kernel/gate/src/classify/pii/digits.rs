//! The groups of digits in a text, and the numbers that neighbouring groups may form.

use std::ops::Range;

/// The most digits that a number looked for here has.
const MAX_DIGITS: usize = 19;
/// The most groups that one is written in.
const MAX_GROUPS: usize = 7;
/// How far before a number the word may end that says what it is, in bytes.
const WORD_REACH: usize = 32;

/// Every run of ASCII digits, in order.
pub(super) struct Numbers<'t> {
    text: &'t [u8],
    groups: Vec<Range<usize>>,
}

pub(super) fn read(text: &str) -> Numbers<'_> {
    let text = text.as_bytes();
    let mut groups = Vec::new();
    let mut start = None;
    for (at, byte) in text.iter().chain([&b' ']).enumerate() {
        match (start, byte.is_ascii_digit()) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                groups.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    Numbers { text, groups }
}

impl Numbers<'_> {
    /// Whether `wanted` holds of any number of at most 19 digits in seven groups that is
    /// no part of a longer word, and whose groups stand apart as `joined` accepts.
    pub(super) fn any(
        &self,
        joined: impl Fn(&[u8]) -> bool,
        wanted: impl Fn(&Number<'_>) -> bool,
    ) -> bool {
        let starts = 0..self.groups.len();
        starts
            .into_iter()
            .any(|first| self.any_from(first, &joined, &wanted))
    }

    fn any_from(
        &self,
        first: usize,
        joined: impl Fn(&[u8]) -> bool,
        wanted: impl Fn(&Number<'_>) -> bool,
    ) -> bool {
        if !starts_word(&self.text[..self.groups[first].start]) {
            return false;
        }
        let mut number = Number::empty(self.text);
        for (at, group) in self.groups.iter().enumerate().skip(first).take(MAX_GROUPS) {
            let apart = at == first || joined(&self.text[self.groups[at - 1].end..group.start]);
            if !apart || !number.extend(group, &self.groups[first..=at]) {
                return false;
            }
            if ends_word(&self.text[group.end..]) && wanted(&number) {
                return true;
            }
        }
        false
    }
}

/// One or more neighbouring groups, read as one number.
pub(super) struct Number<'n> {
    text: &'n [u8],
    groups: &'n [Range<usize>],
    digits: [u8; MAX_DIGITS],
    len: usize,
}

impl<'n> Number<'n> {
    fn empty(text: &'n [u8]) -> Self {
        let (groups, digits, len) = (&[][..], [0; MAX_DIGITS], 0);
        Self {
            text,
            groups,
            digits,
            len,
        }
    }

    fn extend(&mut self, group: &Range<usize>, groups: &'n [Range<usize>]) -> bool {
        let Some(free) = self.digits.get_mut(self.len..self.len + group.len()) else {
            return false;
        };
        free.copy_from_slice(&self.text[group.clone()]);
        self.len += group.len();
        self.groups = groups;
        true
    }

    /// Its digits, in ASCII.
    pub(super) fn ascii(&self) -> &[u8] {
        &self.digits[..self.len]
    }

    /// The values of its digits.
    pub(super) fn values(
        &self,
    ) -> impl DoubleEndedIterator<Item = u32> + ExactSizeIterator + Clone {
        self.ascii().iter().map(|digit| u32::from(digit - b'0'))
    }

    /// What its digits are in base ten.
    pub(super) fn value(&self) -> u64 {
        // 19 digits are below 2^64.
        self.values()
            .fold(0, |value, digit| value * 10 + u64::from(digit))
    }

    /// How many digits each group has; zero where there is none.
    pub(super) fn shape(&self) -> [usize; MAX_GROUPS] {
        let mut shape = [0; MAX_GROUPS];
        for (len, group) in shape.iter_mut().zip(self.groups) {
            *len = group.len();
        }
        shape
    }

    pub(super) fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// What stands between its groups.
    pub(super) fn gaps(&self) -> impl Iterator<Item = &'n [u8]> + Clone {
        let (text, groups) = (self.text, self.groups);
        groups
            .windows(2)
            .map(move |pair| &text[pair[0].end..pair[1].start])
    }

    /// The text before it.
    pub(super) fn before(&self) -> &'n [u8] {
        &self.text[..self.groups.first().map_or(0, |group| group.start)]
    }

    /// Whether one of the words, in lower case, stands shortly before it.
    pub(super) fn follows_any(&self, words: &[&str]) -> bool {
        let before = self.before();
        let near = &before[before.len().saturating_sub(WORD_REACH)..];
        let starts = |at: &usize| *at == 0 || !near[at - 1].is_ascii_alphanumeric();
        (0..near.len()).filter(starts).any(|at| {
            let fits = |word: &&str| {
                let found = near.get(at..at + word.len());
                found.is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
            };
            words.iter().any(fits)
        })
    }
}

/// Whether a number may start after this. A hyphen joins it to a word that has
/// digits, as in a UUID; to one of letters only it does not.
fn starts_word(before: &[u8]) -> bool {
    match before {
        [.., last] if is_word(*last) => false,
        [rest @ .., b'-' | b'.' | b'/' | b':'] => {
            let near = &rest[rest.len().saturating_sub(WORD_REACH)..];
            let word = near.iter().rev().take_while(|byte| is_word(**byte));
            !word.into_iter().any(u8::is_ascii_digit)
        }
        _ => true,
    }
}

/// Whether a number may end before this.
fn ends_word(after: &[u8]) -> bool {
    match after {
        [first, ..] if is_word(*first) => false,
        [b'-' | b'.' | b'/' | b':', next, ..] => !is_word(*next),
        _ => true,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
