//! The patterns are written for RE2, which reads two things otherwise than the engine
//! used here.

use std::iter::Peekable;
use std::str::Chars;

/// The same pattern for this engine. A brace that opens no repetition and a bracket
/// inside a class are literal in RE2, and must be escaped here.
pub(super) fn from_re2(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                out.push(c);
                out.extend(rest.next());
            }
            '[' => class(&mut rest, &mut out),
            '{' if !opens_repetition(rest.clone()) => out.push_str("\\{"),
            _ => out.push(c),
        }
    }
    out
}

/// A class whose opening bracket was read, up to its closing one.
fn class(rest: &mut Peekable<Chars<'_>>, out: &mut String) {
    out.push('[');
    out.extend(rest.next_if_eq(&'^'));
    // First in a class, a closing bracket is itself.
    if rest.next_if_eq(&']').is_some() {
        out.push_str("\\]");
    }
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                out.push(c);
                out.extend(rest.next());
            }
            '[' if rest.peek() == Some(&':') => {
                out.push(c);
                out.extend(rest.by_ref().take_while(|c| *c != ']'));
                out.push(']');
            }
            // Doubled, the last three are operators of this engine.
            '[' | '&' | '~' => out.extend(['\\', c]),
            '-' if rest.peek() == Some(&'-') => out.push_str("\\-"),
            _ => out.push(c),
        }
        if c == ']' {
            return;
        }
    }
}

/// Whether what follows a brace is `n}`, `n,}` or `n,m}`.
fn opens_repetition(rest: Peekable<Chars<'_>>) -> bool {
    let inside: String = rest.take_while(|c| *c != '}').collect();
    let mut bounds = inside.splitn(2, ',');
    let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let least = bounds.next().is_some_and(number);
    least
        && bounds
            .next()
            .is_none_or(|most| most.is_empty() || number(most))
}

#[cfg(test)]
mod tests {
    use super::from_re2;

    #[test]
    fn what_re2_takes_literally_is_escaped_and_the_rest_is_left() {
        for (re2, here) in [
            ("a{3}b{1,}c{1,2}", "a{3}b{1,}c{1,2}"),
            ("{{x}}", "\\{\\{x}}"),
            ("{\\d+}", "\\{\\d+}"),
            ("{,3}", "\\{,3}"),
            ("[{]", "[{]"),
            ("[^[]", "[^\\[]"),
            ("[]a]", "[\\]a]"),
            ("[[:alnum:]_]x", "[[:alnum:]_]x"),
            ("[a&&b]", "[a\\&\\&b]"),
            ("\\[{2}\\{", "\\[{2}\\{"),
        ] {
            assert_eq!(from_re2(re2), here);
        }
    }
}
