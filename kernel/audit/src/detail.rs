//! The detail line of an audit row, made in this one place: `returned=2 tokens=60 driver=baseline`.
//!
//! Must not live here: which fields a syscall reports.

use std::fmt::{self, Display, Write};

/// Longest value, in characters before escaping; a longer one is cut and ends in a bare `…`.
pub const MAX_VALUE_CHARS: usize = 200;

/// `key=value` fields, separated by single spaces, in the order given.
///
/// Values can come from a cartridge's author or a failed peer. Everything in them but ASCII graphic
/// characters and non-ASCII letters and digits, and also `=` and `%`, is percent-encoded as UTF-8
/// octets (RFC 3986 section 2.1). So a space or `=` in the line is always one that the kernel wrote:
/// no value can forge a field, even for a reader that merely splits or searches the line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Detail(String);

impl Detail {
    /// A detail without fields; it is stored as absent.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one field.
    #[must_use]
    pub fn field(mut self, key: &'static str, value: impl Display) -> Self {
        if !self.0.is_empty() {
            self.0.push(' ');
        }
        self.push_escaped(key);
        self.0.push('=');
        self.push_escaped(&value.to_string());
        self
    }

    /// Whether no field was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The line.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn push_escaped(&mut self, text: &str) {
        let mut chars = text.chars();
        for c in chars.by_ref().take(MAX_VALUE_CHARS) {
            self.push_char(c);
        }
        if chars.next().is_some() {
            self.0.push('…');
        }
    }

    fn push_char(&mut self, c: char) {
        let plain = match c {
            '%' | '=' => false,
            _ if c.is_ascii() => c.is_ascii_graphic(),
            _ => c.is_alphanumeric(),
        };
        if plain {
            self.0.push(c);
            return;
        }
        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
            // Writing to a String cannot fail.
            let _ = write!(self.0, "%{byte:02X}");
        }
    }
}

impl Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Detail> for String {
    fn from(detail: Detail) -> Self {
        detail.0
    }
}
