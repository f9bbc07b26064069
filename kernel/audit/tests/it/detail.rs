//! The detail line, and that no value can forge a field in it.

use halofy_audit::{Detail, MAX_VALUE_CHARS};
use proptest::prelude::*;

#[test]
fn fields_stand_in_the_order_given() {
    let detail = Detail::new()
        .field("returned", 2)
        .field("tokens", 60)
        .field("driver", "baseline");
    assert_eq!(detail.as_str(), "returned=2 tokens=60 driver=baseline");
}

#[test]
fn ordinary_names_are_not_escaped() {
    let detail = Detail::new()
        .field("driver_fallback", "mem0->baseline")
        .field("driver", "bm25-degraded");
    assert_eq!(
        detail.as_str(),
        "driver_fallback=mem0->baseline driver=bm25-degraded"
    );
    assert_eq!(
        Detail::new().field("name", "größe/検索").as_str(),
        "name=größe/検索"
    );
}

#[test]
fn a_value_cannot_forge_a_field_or_a_line() {
    let detail = Detail::new()
        .field("reason", "x driver=baseline\nok")
        .field("driver", "evil");
    assert_eq!(
        detail.as_str(),
        "reason=x%20driver%3Dbaseline%0Aok driver=evil"
    );
    // Look-alikes: no-break space, full-width equals sign, right-to-left override, line separator.
    let detail = Detail::new().field("r", "a\u{a0}b\u{ff1d}c\u{202e}d\u{2028}%20\0");
    assert_eq!(
        detail.as_str(),
        "r=a%C2%A0b%EF%BC%9Dc%E2%80%AEd%E2%80%A8%2520%00"
    );
}

#[test]
fn a_long_value_is_cut_and_says_so() {
    let exact = "é".repeat(MAX_VALUE_CHARS);
    assert_eq!(
        Detail::new().field("r", &exact).as_str(),
        format!("r={exact}")
    );
    assert_eq!(
        Detail::new().field("r", format!("{exact}é")).as_str(),
        format!("r={exact}…")
    );
    // The mark cannot come from a value.
    assert_eq!(Detail::new().field("r", "…").as_str(), "r=%E2%80%A6");
}

/// All characters, control characters and separators among them.
fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![any::<char>(), Just(' '), Just('='), Just('%')],
        0..30,
    )
    .prop_map(String::from_iter)
}

proptest! {
    #[test]
    fn splitting_the_line_gives_exactly_the_fields(values in proptest::collection::vec(text(), 1..5)) {
        let detail = values.iter().fold(Detail::new(), |d, v| d.field("k", v));
        let fields: Vec<_> = detail.as_str().split(' ').map(|f| f.split('=').collect::<Vec<_>>()).collect();
        prop_assert_eq!(fields.len(), values.len());
        for field in fields {
            prop_assert_eq!(field.len(), 2);
            prop_assert_eq!(field[0], "k");
            prop_assert!(!field[1].chars().any(|c| c.is_whitespace() || c.is_control()));
        }
    }

    #[test]
    fn different_values_give_different_lines(a in text(), b in text()) {
        prop_assume!(a != b);
        prop_assert_ne!(Detail::new().field("k", a), Detail::new().field("k", b));
    }
}
