//! What a rule lets pass: placeholders, examples, words that are no secrets.

use std::ops::Range;

use aho_corasick::AhoCorasick;
use regex::bytes::RegexSet;
use serde::Deserialize;

use super::rule::{Late, compile_set, late};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AllowEntry {
    #[serde(default)]
    condition: Condition,
    #[serde(default)]
    regex_target: Target,
    #[serde(default)]
    regexes: Vec<String>,
    #[serde(default)]
    stopwords: Vec<String>,
    #[serde(default)]
    paths: Vec<String>,
}

/// Whether one of the criteria of an allow list is enough.
#[derive(Deserialize, Default, PartialEq)]
enum Condition {
    #[default]
    #[serde(rename = "OR")]
    Any,
    #[serde(rename = "AND")]
    All,
}

/// What the patterns of an allow list are held against.
#[derive(Deserialize, Default, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Target {
    #[default]
    Secret,
    Match,
    Line,
}

impl AllowEntry {
    /// Whether it is applied. A criterion on a path never holds, since a memory has
    /// none, and then neither does a list that wants it and another one.
    fn is_applied(&self) -> bool {
        let criteria = [&self.regexes, &self.stopwords, &self.paths];
        let asked = criteria.into_iter().filter(|list| !list.is_empty()).count();
        let readable = !self.regexes.is_empty() || !self.stopwords.is_empty();
        readable && (self.condition == Condition::Any || asked == 1)
    }
}

/// The allow lists of one rule, or those of all rules.
pub(super) struct Allowed {
    secret: Option<Late<RegexSet>>,
    whole: Option<Late<RegexSet>>,
    line: Option<Late<RegexSet>>,
    stopwords: Option<Late<AhoCorasick>>,
}

impl Allowed {
    pub(super) fn new(entries: Vec<AllowEntry>) -> Self {
        let lists: Vec<_> = entries.into_iter().filter(AllowEntry::is_applied).collect();
        let patterns = |target| {
            let lists = lists.iter().filter(|list| list.regex_target == target);
            let re2: Vec<String> = lists.flat_map(|list| list.regexes.clone()).collect();
            let compiled = |re2: Vec<String>| compile_set(&re2).expect("a test compiles it");
            (!re2.is_empty()).then(|| late(move || compiled(re2)))
        };
        let words = lists.iter().flat_map(|list| list.stopwords.clone());
        let words: Vec<String> = words.collect();
        Self {
            secret: patterns(Target::Secret),
            whole: patterns(Target::Match),
            line: patterns(Target::Line),
            stopwords: (!words.is_empty()).then(|| late(move || stopwords(&words))),
        }
    }

    /// Whether a candidate is no secret after all, by itself and by the match that
    /// it is in.
    pub(super) fn lets_pass(&self, secret: &[u8], whole: &[u8]) -> bool {
        let holds =
            |set: &Option<Late<RegexSet>>, text| set.as_ref().is_some_and(|set| set.is_match(text));
        let stopped = self.stopwords.as_ref();
        holds(&self.secret, secret)
            || holds(&self.whole, whole)
            || stopped.is_some_and(|words| words.is_match(secret))
    }

    /// Whether what stands on these lines is no secret.
    pub(super) fn lets_line_pass(&self, line: &[u8]) -> bool {
        self.line.as_ref().is_some_and(|set| set.is_match(line))
    }
}

fn stopwords(words: &[String]) -> AhoCorasick {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .build(words)
        .expect("a few thousand short words fit")
}

/// The lines on which a match stands, remembered from one match to the next, so that
/// many matches on one long line cost no more than the line.
pub(super) struct Lines<'t> {
    text: &'t [u8],
    at: Range<usize>,
    passes: bool,
}

impl<'t> Lines<'t> {
    pub(super) fn of(text: &'t [u8]) -> Self {
        let (at, passes) = (0..0, false);
        Self { text, at, passes }
    }

    /// What `decide` says of the whole lines around a match.
    pub(super) fn let_pass(
        &mut self,
        whole: &Range<usize>,
        decide: impl Fn(&[u8]) -> bool,
    ) -> bool {
        let known = self.at.start <= whole.start && whole.end <= self.at.end;
        if !known || self.at.is_empty() {
            let (before, after) = (&self.text[..whole.start], &self.text[whole.end..]);
            let start = before
                .iter()
                .rposition(|byte| *byte == b'\n')
                .map_or(0, |at| at + 1);
            let rest = after.iter().position(|byte| *byte == b'\n');
            self.at = start..whole.end + rest.unwrap_or(after.len());
            self.passes = decide(&self.text[self.at.clone()]);
        }
        self.passes
    }
}
