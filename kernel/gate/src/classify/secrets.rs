//! Finds secrets by the vendored gitleaks rules, in the order of their cost: one pass
//! for the keywords of all rules, then the pattern, entropy and allow lists of those
//! whose keyword is there.
//!
//! Not here: how a rule is read and compiled.

mod allow;
mod dialect;
mod rule;

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use unicode_normalization::UnicodeNormalization as _;

use allow::Allowed;
use rule::Rule;

use crate::unseen::takes_no_place;

/// gitleaks 8.30.1; `rules/README.md` says how it got here.
const CONFIG: &str = include_str!("rules/gitleaks.toml.vendored");
/// What it does not know.
const OWN_CONFIG: &str = include_str!("rules/kernel.toml");

static RULES: LazyLock<RuleSet> = LazyLock::new(|| RuleSet::read(CONFIG, OWN_CONFIG));

/// The ids of the rules that find a secret in the text, in order. Time is linear in
/// the length of the text: the engine does not backtrack.
pub(super) fn find(text: &str) -> Vec<&'static str> {
    let mut found = RULES.find(text);
    if let Some(plain) = in_plain_letters(text) {
        found.extend(RULES.find(&plain));
        found.sort_unstable();
        found.dedup();
    }
    found
}

/// The text as the rules are written for it, if it has other letters: full width becomes
/// plain, and what takes no place is left out.
fn in_plain_letters(text: &str) -> Option<String> {
    if text.is_ascii() {
        return None;
    }
    let seen = text.chars().filter(|c| !takes_no_place(*c));
    let plain: String = seen.nfkc().collect();
    (plain != text).then_some(plain)
}

struct RuleSet {
    /// In the order of their ids.
    rules: Vec<Rule>,
    allowed: Allowed,
    keywords: AhoCorasick,
    /// The rule of each keyword.
    owners: Vec<usize>,
}

impl RuleSet {
    /// The allow list is that of `config`.
    fn read(config: &str, own: &str) -> Self {
        let (mut rules, allowed) = rule::read(config);
        rules.extend(rule::read(own).0);
        rules.sort_by(|a, b| a.id.cmp(&b.id));
        let owned = rules.iter().enumerate();
        let (owners, keywords): (Vec<usize>, Vec<&str>) = owned
            .flat_map(|(at, rule)| rule.keywords.iter().map(move |word| (at, word.as_str())))
            .unzip();
        let keywords = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::Standard)
            .build(keywords)
            .expect("a few hundred short words fit");
        Self {
            rules,
            allowed,
            keywords,
            owners,
        }
    }

    fn find(&self, text: &str) -> Vec<&str> {
        let mut asked = vec![false; self.rules.len()];
        for word in self.keywords.find_overlapping_iter(text) {
            asked[self.owners[word.pattern().as_usize()]] = true;
        }
        let rules = self.rules.iter().zip(asked);
        rules
            .filter(|(rule, asked)| *asked || rule.keywords.is_empty())
            .filter(|(rule, _)| rule.finds(text.as_bytes(), &self.allowed))
            .map(|(rule, _)| rule.id.as_str())
            .collect()
    }
}

#[cfg(test)]
mod tests;
