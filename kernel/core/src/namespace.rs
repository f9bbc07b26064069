//! Namespace paths and the ancestor rule: who sees whose rows.
//!
//! Not here: SQL. The store binds [`Namespace::visible`] as one array, so that
//! the base rule needs no pattern matching and cannot be attacked through one.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Invalid;

const MAX_BYTES: usize = 512;
const MAX_SEGMENTS: usize = 16;

/// A path such as `acme/eng/platform`: 1 to 16 segments, at most 512 bytes.
///
/// Any printable character may stand in a segment, `_`, `%` and `\` included:
/// nothing downstream treats a namespace as a pattern.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// Reads a path.
    ///
    /// # Errors
    /// Names the rule that the path breaks.
    pub fn parse(path: &str) -> Result<Self, Invalid> {
        let refuse = |problem: &str| Err(Invalid::new("namespace", problem));
        if path.is_empty() {
            return refuse("is empty; give a path such as acme/eng");
        }
        if path.len() > MAX_BYTES {
            return refuse("is longer than 512 bytes");
        }
        if path.split('/').count() > MAX_SEGMENTS {
            return refuse("has more than 16 segments");
        }
        for segment in path.split('/') {
            check_segment(segment)?;
        }
        Ok(Self(path.into()))
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first segment: the tenant.
    pub fn root(&self) -> &str {
        self.0.split('/').next().unwrap_or(&self.0)
    }

    /// Every namespace whose rows a caller in this one sees, root first: its
    /// `/`-split prefixes and itself.
    pub fn visible(&self) -> Vec<String> {
        let ends = self.0.match_indices('/').map(|(at, _)| at);
        ends.chain([self.0.len()])
            .map(|end| self.0[..end].to_owned())
            .collect()
    }

    /// The ancestor rule for one row: the same namespace, or a prefix that ends
    /// at a segment boundary.
    pub fn sees(&self, row: &Self) -> bool {
        row.contains(self)
    }

    /// Whether `other` is this namespace or lies below it.
    pub fn contains(&self, other: &Self) -> bool {
        match other.0.strip_prefix(&*self.0) {
            Some(rest) => rest.is_empty() || rest.starts_with('/'),
            None => false,
        }
    }
}

fn check_segment(segment: &str) -> Result<(), Invalid> {
    let refuse = |problem: &str| Err(Invalid::new("namespace", problem));
    if segment.is_empty() {
        return refuse("has an empty segment; write a/b without doubled or outer slashes");
    }
    if segment == "." || segment == ".." {
        return refuse("has the segment `.` or `..`, which is not a name");
    }
    if segment
        .chars()
        .any(|c| c.is_control() || c.is_whitespace() || is_invisible(c))
    {
        return refuse("holds white space, a control or an invisible character");
    }
    Ok(())
}

/// Characters that print as nothing, with which two distinct namespaces look the same.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Namespace {
    type Error = Invalid;

    fn try_from(path: String) -> Result<Self, Invalid> {
        Self::parse(&path)
    }
}

impl From<Namespace> for String {
    fn from(namespace: Namespace) -> Self {
        namespace.0.to_string()
    }
}

impl std::str::FromStr for Namespace {
    type Err = Invalid;

    fn from_str(path: &str) -> Result<Self, Invalid> {
        Self::parse(path)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ns(path: &str) -> Namespace {
        Namespace::parse(path).expect("a valid path")
    }

    #[test]
    fn a_caller_sees_itself_and_its_ancestors_only() {
        let caller = ns("acme/eng/platform");
        assert_eq!(caller.visible(), ["acme", "acme/eng", "acme/eng/platform"]);
        for hidden in [
            "acme/eng/platform/db",
            "acme/sales",
            "acme/engineering",
            "acmecorp",
        ] {
            assert!(!caller.sees(&ns(hidden)), "{hidden} must be hidden");
        }
    }

    #[test]
    fn pattern_characters_are_only_characters() {
        for (caller, row) in [
            ("aXb", "a_b"),
            ("a_b", "aXb"),
            ("ab", "a%"),
            ("a\\b", "a\\"),
            ("acme-corp", "acme"),
        ] {
            assert!(!ns(caller).sees(&ns(row)), "{caller} must not see {row}");
            assert!(!ns(row).contains(&ns(caller)));
        }
        assert!(ns("a_b").contains(&ns("a_b/c")));
    }

    #[test]
    fn unprintable_or_ambiguous_paths_are_refused() {
        for path in [
            "",
            "/",
            "a/",
            "/a",
            "a//b",
            "a\0b",
            "a b",
            "a/..",
            ".",
            "a\u{200b}",
            "a\n",
        ] {
            assert!(Namespace::parse(path).is_err(), "{path:?} must be refused");
        }
        assert!(Namespace::parse(&"x".repeat(513)).is_err());
        assert!(Namespace::parse(&vec!["x"; 17].join("/")).is_err());
    }

    proptest! {
        #[test]
        fn the_array_and_the_predicate_agree(
            caller in "[a_%\\\\]{1,2}(/[ab_%]{1,2}){0,3}",
            row in "[a_%\\\\]{1,2}(/[ab_%]{1,2}){0,3}",
        ) {
            let (caller, row) = (ns(&caller), ns(&row));
            prop_assert_eq!(caller.visible().contains(&row.to_string()), caller.sees(&row));
        }
    }
}
