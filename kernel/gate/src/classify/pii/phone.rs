//! Telephone numbers: international ones by their country code and length (E.164),
//! North American ones by the rules of their plan, others where a word says so.
//!
//! Not here: every country's own plan. The library that knows them brings a megabyte
//! of data, two parsers and an old copy of the regex engine.

use super::digits::{Number, Numbers};

/// Words after which a number is one to call, in lower case.
const WORDS: [&str; 10] = [
    "phone", "tel", "telefon", "mobile", "cell", "whatsapp", "fax", "sms", "móvil", "portable",
];

pub(super) fn is_in(numbers: &Numbers<'_>) -> bool {
    numbers.any(joined, |number| {
        is_international(number) || is_north_american(number) || is_said_to_be_one(number)
    })
}

fn joined(gap: &[u8]) -> bool {
    gap.len() <= 3 && gap.iter().all(|byte| b" -.()/".contains(byte))
}

/// After a plus sign: a country code that is in use, and eight to fifteen digits.
fn is_international(number: &Number<'_>) -> bool {
    let (len, before) = (number.ascii().len(), number.before());
    let [rest @ .., b'+'] = before else {
        return false;
    };
    let stands_alone = rest.last().is_none_or(|byte| !byte.is_ascii_alphanumeric());
    // A coordinate, rather than a country code and a dot.
    let is_decimal = number.gaps().eq([b"."]) && len < 10;
    if !stands_alone || is_decimal || !(8..=15).contains(&len) {
        return false;
    }
    match number.ascii() {
        [b'1', national @ ..] => is_in_nanp(national),
        _ => has_country_code(number),
    }
}

/// Country codes have one to three digits, and none begins another. These are the
/// three digits that begin with no code that the ITU has assigned.
fn has_country_code(number: &Number<'_>) -> bool {
    let first = number
        .values()
        .take(3)
        .fold(0, |value, digit| value * 10 + digit);
    !matches!(
        first,
        0..=99 | 210 | 214..=215 | 217 | 219 | 259 | 280..=289 | 292..=296 | 379 | 384 | 388
            | 422 | 424..=429 | 671 | 684 | 693..=699 | 801..=807 | 809 | 830..=839 | 851 | 854
            | 857..=859 | 871..=877 | 879 | 884..=885 | 887 | 889..=899 | 969 | 978 | 990..=991
            | 997 | 999
    )
}

/// `415-555-0132`, `(415) 555-0132`, with or without a leading 1. Groups that only
/// spaces part could be any three numbers.
fn is_north_american(number: &Number<'_>) -> bool {
    let national = match (number.shape(), number.ascii()) {
        ([3, 3, 4, 0, ..], national) => national,
        ([1, 3, 3, 4, 0, ..], [b'1', national @ ..]) => national,
        _ => return false,
    };
    let marked = number.gaps().any(|gap| gap != b" ") || number.before().ends_with(b"(");
    marked && is_in_nanp(national)
}

/// Area and exchange begin with 2 to 9, and the area is no service code (N11).
fn is_in_nanp(national: &[u8]) -> bool {
    match national {
        [b'2'..=b'9', b'1', b'1', ..] => false,
        [b'2'..=b'9', _, _, b'2'..=b'9', rest @ ..] => rest.len() == 6,
        _ => false,
    }
}

/// Seven to fifteen digits after a word for it, unless they read as a date.
fn is_said_to_be_one(number: &Number<'_>) -> bool {
    let date = matches!(
        number.shape(),
        [4, 2, 2, ..] | [4, 1 | 2, 1 | 2, ..] | [1 | 2, 1 | 2, 4, ..]
    );
    (7..=15).contains(&number.ascii().len()) && !date && number.follows_any(&WORDS)
}
