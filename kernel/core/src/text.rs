//! Text that came from outside, checked once and then carried in a type.

use std::sync::Arc;

use crate::Invalid;

/// The longest memory, in bytes of UTF-8.
pub const MAX_CONTENT_BYTES: usize = 64 * 1024;
/// The longest query, in bytes of UTF-8.
pub const MAX_QUERY_BYTES: usize = 8 * 1024;

macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $field:literal, $max:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks the text.
            ///
            /// # Errors
            /// When it is blank, too long, or holds U+0000, which no text column can store.
            pub fn parse(text: &str) -> Result<Self, Invalid> {
                check($field, text, $max)?;
                Ok(Self(text.into()))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
    };
}

checked_text!(
    /// What a memory says, verbatim: not blank, at most [`MAX_CONTENT_BYTES`].
    Content,
    "content",
    MAX_CONTENT_BYTES
);
checked_text!(
    /// What a search asks: not blank, at most [`MAX_QUERY_BYTES`].
    QueryText,
    "query",
    MAX_QUERY_BYTES
);

fn check(field: &str, text: &str, max: usize) -> Result<(), Invalid> {
    if text.chars().all(|c| c.is_whitespace() || c.is_control()) {
        return Err(Invalid::new(field, "is empty"));
    }
    if text.len() > max {
        let problem = format!("is {} bytes; at most {max} are allowed", text.len());
        return Err(Invalid::new(field, problem));
    }
    if text.contains('\0') {
        return Err(Invalid::new(field, "holds the character U+0000"));
    }
    Ok(())
}

/// The form in which two texts count as the same fact: lower case, each run of
/// white space one space, none at the ends.
pub fn normalize_for_dedupe(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.extend(word.chars().flat_map(char::to_lowercase));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_long_and_nul_texts_are_refused() {
        for text in ["", "  \n", "\0", "a\0b"] {
            assert!(Content::parse(text).is_err(), "{text:?}");
        }
        assert!(Content::parse(&"x".repeat(MAX_CONTENT_BYTES)).is_ok());
        let long = Content::parse(&"x".repeat(MAX_CONTENT_BYTES + 1));
        assert_eq!(long.map_err(|e| e.field), Err("content".to_owned()));
    }

    #[test]
    fn spacing_and_case_do_not_make_a_new_fact() {
        let same = normalize_for_dedupe("  The  Office\tis in BERN ");
        assert_eq!(same, "the office is in bern");
        assert_ne!(same, normalize_for_dedupe("the office is in Basel"));
    }
}
