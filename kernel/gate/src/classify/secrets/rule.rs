//! One rule of the gitleaks configuration: its pattern, the least entropy of what it
//! finds, and what it lets pass.

use std::sync::LazyLock;

use regex::bytes::{Captures, Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use serde::Deserialize;

use super::allow::{AllowEntry, Allowed, Lines};
use super::dialect;

/// The most memory that a compiled pattern takes, in bytes.
const MAX_PATTERN_BYTES: usize = 4 << 20;
/// The most memory that one search of one pattern takes for its states, in bytes.
const MAX_STATE_BYTES: usize = 256 << 10;

#[derive(Deserialize)]
struct Config {
    allowlist: AllowEntry,
    rules: Vec<RuleEntry>,
}

/// One `[[rules]]`. Its path is not read: a memory has none.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RuleEntry {
    id: String,
    regex: Option<String>,
    entropy: Option<f64>,
    secret_group: Option<usize>,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    allowlists: Vec<AllowEntry>,
}

/// The rules and the allow lists that hold for all of them.
pub(super) fn read(config: &str) -> (Vec<Rule>, Allowed) {
    let config: Config = toml::from_str(config).expect("a test reads the vendored file");
    let rules = config.rules.into_iter().filter_map(Rule::new).collect();
    (rules, Allowed::new(vec![config.allowlist]))
}

/// As RE2 reads them: classes are ASCII, and any byte is a character.
pub(super) fn compile(re2: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&dialect::from_re2(re2))
        .unicode(false)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_STATE_BYTES)
        .build()
}

pub(super) fn compile_set(re2: &[String]) -> Result<RegexSet, regex::Error> {
    RegexSetBuilder::new(re2.iter().map(|re2| dialect::from_re2(re2)))
        .unicode(false)
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_STATE_BYTES)
        .build()
}

/// What is compiled when it is first needed: a process meets few of the rules.
pub(super) type Late<T> = LazyLock<T, Box<dyn FnOnce() -> T + Send>>;

pub(super) fn late<T>(compiled: impl FnOnce() -> T + Send + 'static) -> Late<T> {
    LazyLock::new(Box::new(compiled))
}

/// One rule that has a pattern.
pub(super) struct Rule {
    pub(super) id: String,
    pub(super) keywords: Vec<String>,
    pattern: Late<Regex>,
    /// In bits a character; what is not above it is no secret.
    entropy: Option<f64>,
    /// Which group holds the secret. Without one, the first that took part.
    group: Option<usize>,
    allowed: Allowed,
}

impl Rule {
    fn new(entry: RuleEntry) -> Option<Self> {
        let re2 = entry.regex?;
        Some(Self {
            pattern: late(move || compile(&re2).expect("a test compiles every pattern")),
            id: entry.id,
            keywords: entry.keywords,
            entropy: entry.entropy,
            group: entry.secret_group,
            allowed: Allowed::new(entry.allowlists),
        })
    }

    /// Whether the text holds a secret of this kind.
    pub(super) fn finds(&self, text: &[u8], everywhere: &Allowed) -> bool {
        let mut lines = Lines::of(text);
        let mut found = self.pattern.captures_iter(text);
        found.any(|captures| {
            let whole = captures.get_match();
            let secret = self.secret(&captures);
            let lists = [everywhere, &self.allowed];
            let passes = |list: &&Allowed| list.lets_pass(secret, whole.as_bytes());
            let line_passes = |line: &[u8]| lists.iter().any(|list| list.lets_line_pass(line));
            self.entropy.is_none_or(|least| entropy(secret) > least)
                && !lists.iter().any(passes)
                && !lines.let_pass(&whole.range(), line_passes)
        })
    }

    fn secret<'t>(&self, captures: &Captures<'t>) -> &'t [u8] {
        let group = |at: usize| captures.get(at).map(|group| group.as_bytes());
        let taken = |text: &&[u8]| !text.is_empty();
        let chosen = match self.group {
            Some(at) => group(at),
            None => (1..captures.len()).filter_map(group).find(taken),
        };
        chosen.unwrap_or_else(|| trim_newlines(captures.get_match().as_bytes()))
    }
}

fn trim_newlines(mut text: &[u8]) -> &[u8] {
    while let [b'\n', rest @ ..] | [rest @ .., b'\n'] = text {
        text = rest;
    }
    text
}

/// Shannon's, in bits a byte.
pub(super) fn entropy(text: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in text {
        counts[usize::from(*byte)] += 1;
    }
    let length = text.len() as f64;
    let present = counts.into_iter().filter(|count| *count > 0);
    let shares = present.map(|count| f64::from(count) / length);
    -shares.map(|share| share * share.log2()).sum::<f64>()
}
