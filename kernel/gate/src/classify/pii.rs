//! Finds kinds of personal data. Each kind is checked, by its digits or its parts,
//! and not only by its shape.
//!
//! Not here: names, places, and whatever else takes a model to see.

mod account;
mod address;
mod digits;
mod national;
mod phone;

use std::borrow::Cow;

use halofy_core::PiiKind;

/// The kinds of personal data in the text, in order. Time is linear in its length.
pub(super) fn find(text: &str) -> Vec<PiiKind> {
    let text = &*plain(text);
    let mut found = Vec::new();
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    let mut note = |kind, is_there: bool| {
        if is_there {
            found.push(kind);
        }
    };
    note(PiiKind::Email, address::has_email(text));
    if has_digit {
        let numbers = digits::read(text);
        note(PiiKind::Phone, phone::is_in(&numbers));
        note(PiiKind::CreditCard, account::has_card(&numbers));
        note(PiiKind::Iban, account::has_iban(text));
        note(PiiKind::NationalId, national::is_in(text, &numbers));
    }
    note(PiiKind::IpAddress, address::has_ip(text));
    found
}

/// The text with the digits, spaces and hyphens that people, phones and models write
/// in the place of the ASCII ones.
fn plain(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    text.chars().filter_map(plain_char).collect()
}

fn plain_char(c: char) -> Option<char> {
    let digit = |zero: char| char::from_digit(u32::from(c) - u32::from(zero), 10);
    match c {
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{3000}' => Some(' '),
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{ff0d}' => Some('-'),
        // Fullwidth, Arabic-Indic, its eastern form, Devanagari.
        '\u{ff10}'..='\u{ff19}' => digit('\u{ff10}'),
        '\u{660}'..='\u{669}' => digit('\u{660}'),
        '\u{6f0}'..='\u{6f9}' => digit('\u{6f0}'),
        '\u{966}'..='\u{96f}' => digit('\u{966}'),
        '\u{ff0b}' => Some('+'),
        '\u{ff20}' => Some('@'),
        // They part what is read as one.
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}' => None,
        _ => Some(c),
    }
}
