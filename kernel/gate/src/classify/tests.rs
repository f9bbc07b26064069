//! What is labelled how, in what time, and that nothing found is shown.
//!
//! Not here: the texts.

mod samples;

use std::time::{Duration, Instant};

use halofy_core::{PiiKind, Provider};
use proptest::prelude::*;

use samples::{LOWER, drawn, harmless, hostile, personal, secrets};

use super::*;

fn label(text: &str) -> Classification {
    classify(text, Asked::default(), PolicyRules::default())
}

#[test]
fn a_secret_is_found_by_its_rule_and_goes_to_no_external_inference() {
    for (rule, text) in secrets() {
        for text in [
            text.clone(),
            format!("Note for later: {text}\nDo not lose it."),
        ] {
            let label = label(&text);
            let found = label.secrets.iter().any(|found| found == rule);
            assert!(found, "{rule}: {:?}", label.secrets);
            assert_eq!(label.sensitivity, Sensitivity::Restricted, "{rule}");
            assert_eq!(label.destinations, [Destination::CanonicalL2], "{rule}");
        }
    }
}

#[test]
fn what_the_vendored_rules_do_not_know_is_found_too() {
    let key = format!("hm_{}", "0123456789abcdef".repeat(4));
    for (rule, text) in [
        ("halofy-key", format!("The key is {key} for now.")),
        (
            "url-password",
            "See postgres://bob:S3cr3tPw9zz@db.internal/x".to_owned(),
        ),
    ] {
        assert_eq!(label(&text).secrets, [rule], "{text}");
        assert!(holds_secret(&text));
    }
    for text in [
        "See https://example.org:8443/a@b and mailto:bob@example.org",
        "hm_short",
        "at 10:30 meet@the gate",
    ] {
        assert_eq!(label(text).secrets, [""; 0], "{text}");
    }
}

#[test]
fn a_secret_in_other_letters_or_with_unseen_ones_between_is_found() {
    let key = format!("hm_{}", "0123456789abcdef".repeat(4));
    let wide: String = key
        .chars()
        .map(|c| char::from_u32(u32::from(c) + 0xfee0).expect("full width"))
        .collect();
    let parted = key.replacen("hm_", "hm_\u{200b}", 1);
    for text in [format!("Key {wide} here"), format!("Key {parted} here")] {
        assert_eq!(label(&text).secrets, ["halofy-key"], "{text}");
    }
}

#[test]
fn the_labels_own_text_says_nothing_of_what_was_found() {
    for (rule, text) in secrets() {
        let printed = format!("{:?}", label(&text));
        // Six characters in a row of the drawn part, from anywhere in it.
        let tail = &text.trim_end_matches(['"', '\n', '-'])[text.len() / 2..];
        let pieces = tail
            .as_bytes()
            .windows(8)
            .map(|piece| str::from_utf8(piece).expect("ASCII"));
        for piece in pieces.filter(|piece| piece.bytes().any(|byte| byte.is_ascii_digit())) {
            assert!(!printed.contains(piece), "{rule}");
        }
    }
}

#[test]
fn personal_data_is_found_where_its_check_holds_and_only_there() {
    for (kind, text, broken) in personal() {
        assert_eq!(label(text).pii, [kind], "{text}");
        assert_eq!(label(text).sensitivity, Sensitivity::Confidential, "{text}");
        assert_eq!(label(text).destinations, Destination::ALL, "{text}");
        assert_eq!(label(broken).pii, [], "{broken}");
    }
}

#[test]
fn what_only_looks_like_a_secret_or_personal_data_is_internal() {
    for text in harmless() {
        assert_eq!(
            label(&text),
            Classification::of(Sensitivity::Internal),
            "{text}"
        );
    }
}

#[test]
fn what_the_writer_and_the_policy_ask_for_is_in_the_label() {
    let plain = "The kettle is in the kitchen.";
    let sensitive = Asked {
        sensitive: true,
        local_only: false,
    };
    let label = classify(plain, sensitive, PolicyRules::default());
    assert_eq!(label, Classification::of(Sensitivity::Confidential));

    let local_only = Asked {
        sensitive: false,
        local_only: true,
    };
    let eu = PolicyRules {
        data_region: Some("eu"),
    };
    let label = classify(plain, local_only, eu);
    assert_eq!(label.sensitivity, Sensitivity::Internal);
    assert_eq!(label.destinations, [Destination::CanonicalL2]);
    assert_eq!(label.regions, ["eu"]);
}

#[test]
fn a_comment_that_asks_scanners_to_look_away_is_not_heeded() {
    let (rule, text) = &secrets()[0];
    let text = format!("{text} # gitleaks:allow");
    assert_eq!(label(&text).secrets, [*rule]);
}

/// A pattern that backtracks, or one pass over the text for each match, would take
/// minutes.
#[test]
fn the_longest_hostile_text_takes_time_linear_in_its_length() {
    for text in hostile() {
        let start = Instant::now();
        label(&text);
        let took = start.elapsed();
        assert!(took < Duration::from_secs(30), "{took:?}: {}", &text[..8]);
    }
}

#[test]
fn facts_are_labelled_alike_every_time_and_what_one_costs_is_printed() {
    let fact = |at: usize| {
        let name = drawn(LOWER, 5 + at % 7);
        format!(
            "{name} keeps the access token for project {at} in the vault and prefers that any \
             password is rotated in May; the contact is {name}@example.com, +49 30 12345{at}, \
             and the last review of it was on 2024-05-0{}.",
            at % 9 + 1
        )
    };
    let facts: Vec<String> = (0..500).map(fact).collect();
    let first: Vec<Classification> = facts.iter().map(|fact| label(fact)).collect();
    let start = Instant::now();
    let again: Vec<Classification> = facts.iter().map(|fact| label(fact)).collect();
    let each = start.elapsed() / 500;
    eprintln!("{each:?} a fact of {} characters", facts[0].len());
    assert_eq!(first, again);
    let personal = |label: &Classification| label.pii == [PiiKind::Email, PiiKind::Phone];
    assert!(first.iter().all(personal));
}

/// What was found decides the sensitivity, and both decide where it may go.
fn holds_together(label: &Classification) -> Result<(), TestCaseError> {
    let least = match (label.secrets.is_empty(), label.pii.is_empty()) {
        (false, _) => Sensitivity::Restricted,
        (true, false) => Sensitivity::Confidential,
        (true, true) => Sensitivity::Internal,
    };
    prop_assert_eq!(label.sensitivity, least);
    for destination in Destination::ALL.into_iter().filter(|to| to.is_inference()) {
        let allowed = label.allows(destination, &Provider::external(None));
        prop_assert_eq!(allowed.is_ok(), label.secrets.is_empty());
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_text_is_labelled(text in "\\PC{0,200}") {
        holds_together(&label(&text))?;
    }

    #[test]
    fn any_text_of_what_the_checks_look_at_is_labelled(
        text in "([0-9@+.:/ ()é-]|key|=|\"|ghp_|eyJ|GB|ssn ){0,80}"
    ) {
        holds_together(&label(&text))?;
    }

    /// What stands around a secret must not hide it.
    #[test]
    fn a_secret_is_found_wherever_it_stands(before in "[ -~\n]{0,60}", after in "[ -~\n]{0,60}") {
        let (rule, secret) = &secrets()[0];
        let text = format!("{before}\n{secret}\n{after}");
        prop_assert!(label(&text).secrets.iter().any(|found| found == rule));
    }
}
