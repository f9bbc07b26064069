//! The property the whole format exists for: alter anything anywhere, and verification fails at that row.
//!
//! The places to alter are taken from a row's own JSON, so a column added later is covered the day it is
//! added.

use halofy_audit::{StoredRow, Verifier};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

use crate::support::{any_rows, entry, record};

/// The position of the first row that fails.
fn first_failure(rows: &[StoredRow]) -> Option<usize> {
    let mut verifier = Verifier::new();
    rows.iter().position(|row| verifier.push(row).is_err())
}

fn leaves(value: &Value, pointer: String, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                leaves(member, format!("{pointer}/{name}"), found);
            }
        }
        _ => found.push(pointer),
    }
}

/// Another value of a kind that stands in such a place: text with one character replaced, removed or
/// added, another number, text for null, null for text.
fn altered(value: &Value, at: Index, with: char, how: u8) -> Value {
    match value {
        Value::Null => Value::from(with.to_string()),
        Value::Number(n) => (n.as_i64().expect("all numbers are i64") ^ (1 << (how % 63))).into(),
        Value::String(_) if how.is_multiple_of(8) => Value::Null,
        Value::String(text) => {
            let mut chars: Vec<_> = text.chars().collect();
            let at = at.index(chars.len() + 1);
            match how % 8 {
                1 if at < chars.len() => drop(chars.remove(at)),
                2..6 if at < chars.len() => chars[at] = with,
                _ => chars.insert(at, with),
            }
            chars.into_iter().collect::<String>().into()
        }
        other => unreachable!("no {other} in a row"),
    }
}

#[test]
fn the_places_to_alter_are_all_columns_of_both_tables() {
    let row = crate::support::rows(1).remove(0);
    let mut places = Vec::new();
    leaves(
        &serde_json::to_value(row).expect("a row serialises"),
        String::new(),
        &mut places,
    );
    assert_eq!(places.len(), 5 + 2 + 1 + 11, "{places:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    #[test]
    fn an_altered_value_fails_at_its_row(
        rows in any_rows(),
        target in any::<Index>(),
        place in any::<Index>(),
        at in any::<Index>(),
        with in prop_oneof![any::<char>(), prop::char::range('0', '9'), prop::char::range('a', 'f')],
        how in any::<u8>(),
    ) {
        let target = target.index(rows.len());
        let mut json = serde_json::to_value(&rows[target]).expect("a row serialises");
        let mut places = Vec::new();
        leaves(&json, String::new(), &mut places);
        let place = json.pointer_mut(&places[place.index(places.len())]).expect("the place is the row's own");
        let new = altered(place, at, with, how);
        prop_assume!(new != *place);
        *place = new;
        // A spelling that cannot be read is refused before the verifier sees it.
        if let Ok(altered_row) = serde_json::from_value::<StoredRow>(json) {
            let mut altered_rows = rows;
            altered_rows[target] = altered_row;
            prop_assert_eq!(first_failure(&altered_rows), Some(target));
        }
    }

    #[test]
    fn a_flipped_byte_fails_at_its_row(
        rows in any_rows(), target in any::<Index>(), which in 0..3, at in any::<Index>(), flip in 1_u8..,
    ) {
        let target = target.index(rows.len());
        let mut rows = rows;
        let row = &mut rows[target];
        let bytes = match which {
            0 => &mut record(row).canonical,
            1 => &mut entry(row).leaf,
            _ => &mut entry(row).hash,
        };
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert_eq!(first_failure(&rows), Some(target));
    }

    #[test]
    fn an_untouched_trail_never_fails(rows in any_rows()) {
        prop_assert_eq!(first_failure(&rows), None);
    }

    #[test]
    fn a_removed_row_fails_at_the_next(rows in any_rows(), target in any::<Index>()) {
        prop_assume!(rows.len() > 1);
        let mut rows = rows;
        let target = target.index(rows.len() - 1);
        rows.remove(target);
        prop_assert_eq!(first_failure(&rows), Some(target));
    }
}
