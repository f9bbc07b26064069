//! The house rules that a compiler does not check: what each file opens with, how
//! long it may be, what must not stand in it, and what the top level holds.
//!
//! Not here: rules that rustfmt or clippy keep.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Everything that may stand at the top, dot-files and what git ignores aside.
const TOP_LEVEL: [&str; 11] = [
    "Cargo.toml",
    "Cargo.lock",
    "README.md",
    "rust-toolchain.toml",
    "deny.toml",
    "kernel",
    "wit",
    "drivers",
    "sdk",
    "migrations",
    "tests",
];

/// The most lines of code in a source file. Blank lines, comments and a unit-test
/// module at the end of a file do not count.
const MAX_CODE_LINES: usize = 400;
const MAX_LINE_CHARS: usize = 120;

/// Kinds of file that are text written by hand.
const TEXT: [&str; 10] = [
    "rs", "sql", "toml", "wit", "sh", "md", "py", "js", "mjs", "c",
];

/// Taken apart, so that this file passes its own rules.
const UNFINISHED: [&str; 6] = [
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("d", "bg!("),
    concat!("#[ig", "nore"),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
];
const MACHINE_PATHS: [&str; 4] = [
    concat!("/ro", "ot/"),
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
];
const REGISTRY_HOSTS: [&str; 4] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("npmjs", ".com"),
    concat!("npmjs", ".org"),
];

#[test]
fn the_top_level_holds_what_the_layout_names_and_nothing_else() {
    let found: BTreeSet<String> = std::fs::read_dir(root())
        .expect("the repository")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| !name.starts_with('.') && name != "target")
        .collect();
    assert_eq!(found, BTreeSet::from(TOP_LEVEL.map(str::to_owned)));
}

#[test]
fn every_source_file_says_first_what_lives_in_it() {
    refuse(&["rs"], |text| {
        (!text.starts_with("//!")).then(|| (1, "does not open with `//!`".to_owned()))
    });
}

#[test]
fn no_source_file_has_more_than_400_lines_of_code() {
    refuse(&["rs"], |text| {
        let lines = code_lines(text);
        (lines > MAX_CODE_LINES).then(|| (1, format!("has {lines} lines of code")))
    });
}

#[test]
fn nothing_is_left_unfinished_or_switched_off() {
    refuse(&TEXT, |text| find_any(text, &UNFINISHED));
}

#[test]
fn no_file_knows_a_machine_or_a_registry() {
    refuse(&TEXT, |text| {
        find_any(text, &MACHINE_PATHS).or_else(|| find_any(text, &REGISTRY_HOSTS))
    });
}

#[test]
fn lines_have_no_tab_no_trailing_space_and_end_with_a_newline() {
    refuse(&TEXT, |text| {
        let ragged = |line: &str| line.contains('\t') || line.ends_with([' ', '\r']);
        let found = find_line(text, ragged);
        found.or_else(|| (!text.ends_with('\n')).then_some((0, "has no newline at its end".into())))
    });
}

#[test]
fn no_line_of_code_is_longer_than_120_characters() {
    refuse(&["rs", "sql", "wit", "sh"], |text| {
        find_line(text, |line| line.chars().count() > MAX_LINE_CHARS)
    });
}

#[test]
fn every_switched_off_lint_gives_its_reason() {
    refuse(&["rs"], unreasoned_allow);
}

#[test]
fn every_migration_opens_with_a_comment_and_names_its_constraints() {
    assert!(!files(&["sql"]).is_empty(), "there are migrations");
    refuse(&["sql"], |text| {
        let silent =
            (!text.starts_with("--")).then(|| (1, "does not open with a comment".to_owned()));
        silent.or_else(|| unnamed_constraint(text))
    });
}

#[test]
fn the_rules_find_what_they_are_for() {
    let allow = concat!("#[all", "ow(clippy::x)]\n");
    assert!(unreasoned_allow(allow).is_some());
    assert!(
        unreasoned_allow(concat!(
            "#[all",
            "ow(\n  clippy::x,\n  reason = \"y\"\n)]\n"
        ))
        .is_none()
    );
    assert!(unreasoned_allow("self.allow(allowed)\n").is_none());

    for bad in [
        "create table a (b text unique);",
        "create table a (b text check (b <> ''));",
        "create table a (b text references c (d));",
        "alter table a add unique (b);",
    ] {
        assert!(unnamed_constraint(bad).is_some(), "{bad}");
    }
    for good in [
        "create unique index a on b (c);",
        "create table a (b text constraint a_b check (b <> '') -- unique\n);",
        "create table a (b text constraint a_b unique constraint a_c references c (d));",
        "create table a (b text, constraint a_b foreign key (b) references c (d));",
        "create function f() returns text language sql as $$ select 'unique check' $$;",
    ] {
        assert_eq!(unnamed_constraint(good), None, "{good}");
    }

    assert_eq!(
        code_lines("//! doc\n\n// why\nfn a() {}\n#[cfg(test)]\nmod tests {\n}\n"),
        1
    );
    assert!(find_any("a\nb /tmp\n", &["/tmp"]).is_some_and(|(line, _)| line == 2));
}

/// Fails with every file of these kinds for which `rule` gives a line and a fault.
fn refuse(kinds: &[&str], rule: impl Fn(&str) -> Option<(usize, String)>) {
    let files = files(kinds);
    assert!(files.len() > 1, "only {} files were found", files.len());
    let mut faults = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a text file in UTF-8");
        if let Some((line, fault)) = rule(&text) {
            let path = path
                .strip_prefix(root())
                .unwrap_or(&path)
                .display()
                .to_string();
            faults.push(format!("{path}:{line}: {fault}"));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this package is a folder of the workspace")
}

/// The files of these kinds, in order, without what is built or fetched. Scripts
/// without an extension in `.ci` count as shell.
fn files(kinds: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let hidden = name.starts_with('.') && name != ".ci";
            if path.is_dir() {
                if !hidden && !["target", "node_modules", "__pycache__"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if kinds.contains(&kind(&path)) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn kind(path: &Path) -> &str {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some(extension) => extension,
        None if path
            .parent()
            .is_some_and(|folder| folder.file_name().is_some_and(|name| name == ".ci")) =>
        {
            "sh"
        }
        None => "",
    }
}

fn find_line(text: &str, bad: impl Fn(&str) -> bool) -> Option<(usize, String)> {
    let at = text.split('\n').position(bad)?;
    Some((
        at + 1,
        text.split('\n').nth(at).unwrap_or_default().to_owned(),
    ))
}

fn find_any(text: &str, needles: &[&str]) -> Option<(usize, String)> {
    find_line(text, |line| {
        needles.iter().any(|needle| line.contains(needle))
    })
}

fn code_lines(text: &str) -> usize {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or(text);
    let counts = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("//");
    code.lines().filter(counts).count()
}

/// An `allow` or `expect` of a lint, up to its closing bracket, without `reason`.
fn unreasoned_allow(text: &str) -> Option<(usize, String)> {
    // An attribute of its own, of the file, or under `cfg_attr`.
    let lints = [concat!("all", "ow("), concat!("exp", "ect(")];
    let openings = lints.map(|lint| ["#[", "#![", ", "].map(|before| format!("{before}{lint}")));
    openings.as_flattened().iter().find_map(|opening| {
        text.match_indices(opening.as_str()).find_map(|(at, _)| {
            let attribute = &text[at..at + text[at..].find(")]")?];
            let line = text[..at].matches('\n').count() + 1;
            (!attribute.contains("reason =")).then(|| (line, attribute.to_owned()))
        })
    })
}

/// A `check`, `unique` or `references` without a name of its own. Primary keys are
/// left to the name that Postgres gives them.
fn unnamed_constraint(sql: &str) -> Option<(usize, String)> {
    let words = sql_words(sql);
    let mut named_foreign_key = false;
    for (at, (line, word)) in words.iter().enumerate() {
        let before = |n: usize| at.checked_sub(n).map_or("", |at| words[at].1.as_str());
        let named = before(2) == "constraint";
        match word.as_str() {
            "foreign" => named_foreign_key = named,
            "check" if !named => return Some((*line, word.clone())),
            "unique" if !named && before(1) != "create" => return Some((*line, word.clone())),
            "references" if !named && !named_foreign_key => return Some((*line, word.clone())),
            "references" => named_foreign_key = false,
            _ => {}
        }
    }
    None
}

/// The words of a statement in lower case with their lines; comments, literals and
/// bodies of functions are left out.
fn sql_words(sql: &str) -> Vec<(usize, String)> {
    let mut words = Vec::new();
    let mut in_body = false;
    for (at, line) in sql.lines().enumerate() {
        let code = line.split("--").next().unwrap_or_default();
        for (part, code) in code.split("$$").enumerate() {
            in_body ^= part > 0;
            if in_body {
                continue;
            }
            // Every other piece is inside a literal.
            for code in code.split('\'').step_by(2) {
                let names = code.split(|c: char| !c.is_alphanumeric() && c != '_');
                let names = names.filter(|name| !name.is_empty());
                words.extend(names.map(|name| (at + 1, name.to_lowercase())));
            }
        }
    }
    words
}
