//! Numbers of payment cards and of bank accounts.

use card_validate::Validate;
use iban::Iban;

use super::digits::{Number, Numbers};

/// The most characters of an IBAN.
const MAX_IBAN: usize = 34;

/// A number of a known issuer, of its length, whose Luhn check digit is right.
pub(super) fn has_card(numbers: &Numbers<'_>) -> bool {
    numbers.any(|gap| matches!(gap, b" " | b"-"), is_card)
}

/// Written in one, or in three to five groups of which the first has four digits.
fn is_card(number: &Number<'_>) -> bool {
    let grouped = match number.group_count() {
        1 => true,
        3..=5 => number.shape()[0] == 4,
        _ => false,
    };
    let digits = number.ascii();
    grouped
        && (12..=19).contains(&digits.len())
        && str::from_utf8(digits).is_ok_and(|digits| Validate::from(digits).is_ok())
}

/// An account number in its country's form, whose check digits are right (ISO 7064,
/// mod 97-10), with or without spaces.
pub(super) fn has_iban(text: &str) -> bool {
    let bytes = text.as_bytes();
    let starts = bytes.windows(4).enumerate().filter(|(at, head)| {
        let follows_word = *at > 0 && bytes[at - 1].is_ascii_alphanumeric();
        let [a, b, c, d] = head else { return false };
        let letters = a.is_ascii_alphabetic() && b.is_ascii_alphabetic();
        !follows_word && letters && c.is_ascii_digit() && d.is_ascii_digit()
    });
    let mut starts = starts.map(|(at, _)| at);
    starts.any(|at| starts_iban(&bytes[at..]))
}

fn starts_iban(text: &[u8]) -> bool {
    let mut compact = String::with_capacity(MAX_IBAN);
    let mut rest = text.iter().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            _ if byte.is_ascii_alphanumeric() && compact.len() < MAX_IBAN => {
                compact.push(char::from(byte.to_ascii_uppercase()));
            }
            b' ' if rest.peek().is_some_and(|next| next.is_ascii_alphanumeric()) => {}
            _ => return false,
        }
        let ends = rest.peek().is_none_or(|next| !next.is_ascii_alphanumeric());
        if ends && *byte != b' ' && compact.parse::<Iban>().is_ok() {
            return true;
        }
    }
    false
}
