//! The reserved `[entities: …]` annotation. Readers take it for what the kernel resolved, so
//! no text that comes in may end in it.

use crate::unseen::takes_no_place;

const OPENING: &str = "[entities:";

/// The text without annotations at its end, of whatever spelling. One without any is left
/// as it is, to the last space.
pub(super) fn without_annotation(text: &str) -> &str {
    let mut kept = text;
    loop {
        let rest = kept.trim_end_matches(is_unseen);
        match last_bracket(rest) {
            Some(at) if is_opening(&rest[at..]) => kept = rest[..at].trim_end_matches(is_unseen),
            _ => break,
        }
    }
    kept
}

/// Where the bracket opens that the text ends in. Names in an annotation may have brackets
/// of their own.
fn last_bracket(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (at, c) in text.char_indices().rev() {
        match c {
            ']' => open += 1,
            // Something stands behind the last bracket.
            _ if open == 0 => return None,
            '[' if open == 1 => return Some(at),
            '[' => open -= 1,
            _ => {}
        }
    }
    None
}

/// Whether the bracket opens an annotation: case and what nobody sees do not matter.
fn is_opening(bracket: &str) -> bool {
    let seen = bracket.chars().filter(|c| !is_unseen(*c));
    let folded = seen.flat_map(char::to_lowercase).take(OPENING.len());
    folded.eq(OPENING.chars())
}

/// White space, and characters that take no place at all.
fn is_unseen(c: char) -> bool {
    c.is_whitespace() || c.is_control() || takes_no_place(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forged_annotation_is_taken_off() {
        for text in [
            "Dana moved",
            "Dana moved [entities: Dana, Lisbon]",
            "Dana moved [entities: a] [ENTITIES : b]\n",
            "Dana moved[ Entities:]",
            "Dana moved [entities: Dana [CEO], Lisbon]",
            "Dana moved [entities: [a]]",
            "Dana moved [en\u{200b}tities: a]\u{feff}",
            "Dana moved [en\u{fe0f}tities: a]",
        ] {
            assert_eq!(without_annotation(text), "Dana moved", "{text}");
        }
    }

    #[test]
    fn other_brackets_stay() {
        for text in [
            "see [1]",
            "[entities: a] begins it",
            "[entities: a] and then [1]",
            "an array [a, b]",
            "spaces at its end \t\n",
            "a list [a, [entities: b]]",
            "entities: a]",
            "]]",
            "[",
            "a space at the end ",
            "and one after this [1]\u{feff}\n",
        ] {
            assert_eq!(without_annotation(text), text);
        }
    }

    #[test]
    fn what_is_nothing_but_an_annotation_is_blank() {
        assert_eq!(without_annotation("[entities: a]"), "");
    }
}
