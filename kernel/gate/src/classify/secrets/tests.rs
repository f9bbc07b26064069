//! The vendored rules as they are read: which are applied, that every pattern of
//! theirs compiles, and that it is read as the engine they are written for reads it.

use sha2::{Digest, Sha256};

use super::*;

/// Rules that have a path and no pattern, so that no text can break them.
const WITHOUT_PATTERN: [&str; 1] = ["pkcs12-file"];
/// Rules for one kind of file, which are held against every text.
const FOR_ONE_KIND_OF_FILE: [&str; 4] = [
    "freemius-secret-key",
    "hashicorp-tf-password",
    "kubernetes-secret-yaml",
    "nuget-config-password",
];
/// Rules with an allow list that is not applied, since it wants a path.
const ALLOWED_BY_PATH: [&str; 3] = ["generic-api-key", "github-app-token", "github-pat"];

#[test]
fn the_rules_are_the_release_that_the_notice_names() {
    let digest = hex::encode(Sha256::digest(CONFIG));
    let notice = include_str!("../rules/README.md");
    assert!(notice.contains(&digest), "{digest}");
    assert!(include_str!("../rules/LICENSE-gitleaks").starts_with("MIT License"));
}

#[test]
fn every_pattern_compiles_in_this_engine() {
    let mut broken = Vec::new();
    let mut compiled = 0;
    for rule in rules() {
        let allowed = lists(&rule).flat_map(|list| texts(&list, "regexes"));
        for re2 in texts(&rule, "regex").into_iter().chain(allowed) {
            compiled += 1;
            if let Err(error) = rule::compile(&re2) {
                broken.push(format!("{}: {error}", id(&rule)));
            }
        }
    }
    assert_eq!(broken, [""; 0]);
    assert!(compiled > 221, "{compiled}");
}

#[test]
fn the_allow_list_for_all_rules_compiles_and_names_no_line() {
    let (_, everywhere) = rule::read(CONFIG);
    assert!(everywhere.lets_pass(b"${TOKEN}", b""));
    assert!(everywhere.lets_pass(b"{{ secrets.token }}", b""));
    assert!(everywhere.lets_pass(b"0xABCDEFGHIJKLMNOPQRSTUVWXYZ", b""));
    assert!(!everywhere.lets_pass(b"TOKEN", b""));
    assert!(!everywhere.lets_line_pass(b"${TOKEN}"));
}

#[test]
fn what_is_not_applied_as_it_is_in_a_repository_is_named_here() {
    let rules = rules();
    let ids = |wanted: &dyn Fn(&toml::Table) -> bool| -> Vec<String> {
        let wanted = rules.iter().filter(|rule| wanted(rule));
        wanted.map(id).collect()
    };
    let patterned = |rule: &toml::Table| rule.contains_key("regex");
    assert_eq!(ids(&|rule| !patterned(rule)), WITHOUT_PATTERN);
    let by_path = |rule: &toml::Table| patterned(rule) && rule.contains_key("path");
    assert_eq!(ids(&by_path), FOR_ONE_KIND_OF_FILE);
    let allowed = |rule: &toml::Table| lists(rule).any(|list| list.contains_key("paths"));
    assert_eq!(ids(&allowed), ALLOWED_BY_PATH);
    let own = rule::read(OWN_CONFIG).0.len();
    let applied = RULES.rules.len() - own;
    assert_eq!(applied + WITHOUT_PATTERN.len(), rules.len());
}

#[test]
fn every_field_of_a_rule_and_of_an_allow_list_is_one_that_is_read() {
    let known =
        |table: &toml::Table, names: &[&str]| table.keys().all(|key| names.contains(&key.as_str()));
    // A description is for people, and a path is never asked.
    let of_rule = [
        "id",
        "description",
        "regex",
        "path",
        "entropy",
        "secretGroup",
        "keywords",
        "allowlists",
    ];
    let of_list = [
        "description",
        "condition",
        "regexTarget",
        "regexes",
        "stopwords",
        "paths",
    ];
    for rule in rules() {
        assert!(known(&rule, &of_rule), "{}", id(&rule));
        assert!(
            lists(&rule).all(|list| known(&list, &of_list)),
            "{}",
            id(&rule)
        );
    }
}

#[test]
fn entropy_is_in_bits_a_byte() {
    for (text, bits) in [("", 0.0), ("aaaa", 0.0), ("abab", 1.0), ("abcd", 2.0)] {
        let found = rule::entropy(text.as_bytes());
        assert!((found - bits).abs() < 1e-9, "{text}: {found}");
    }
}

fn rules() -> Vec<toml::Table> {
    let config: toml::Table = toml::from_str(CONFIG).expect("a configuration");
    tables(&config, "rules")
}

fn lists(rule: &toml::Table) -> impl Iterator<Item = toml::Table> {
    tables(rule, "allowlists").into_iter()
}

fn tables(table: &toml::Table, name: &str) -> Vec<toml::Table> {
    let entries = table.get(name).and_then(toml::Value::as_array);
    let entries = entries.into_iter().flatten().cloned();
    entries
        .map(|entry| entry.try_into().expect("a table"))
        .collect()
}

/// A text, or each of a list of them.
fn texts(table: &toml::Table, name: &str) -> Vec<String> {
    match table.get(name) {
        Some(toml::Value::String(text)) => vec![text.clone()],
        Some(toml::Value::Array(list)) => {
            let texts = list.iter().filter_map(toml::Value::as_str);
            texts.map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

fn id(rule: &toml::Table) -> String {
    rule["id"].as_str().expect("every rule has one").to_owned()
}
