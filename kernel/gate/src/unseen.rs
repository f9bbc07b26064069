//! Characters that a reader does not see, and that must not hide what a text says.

/// Whether the character takes no place at all: joiners, marks of direction, selectors.
pub(crate) fn takes_no_place(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}
