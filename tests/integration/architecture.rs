//! The crate map as a test: which workspace crate may use which, where the heavy
//! dependencies are quarantined, and under which licences anything may be used.
//!
//! The map stands here once. A new crate, or a new edge, is a change of this file
//! and so a decision that somebody reads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use cargo_metadata::{Dependency, DependencyKind, Metadata, MetadataCommand, Package, PackageId};
use spdx::{Expression, Licensee, ParseMode};

/// For each folder: the workspace crates that it may use, and those that its build
/// script may use. `tests` may use anything.
const MAP: [(&str, &[&str], &[&str]); 10] = [
    ("kernel/core", &["sdk/retrieval"], &[]),
    ("kernel/audit", &[], &[]),
    (
        "kernel/store",
        &["kernel/core", "kernel/audit", "sdk/retrieval"],
        &[],
    ),
    ("kernel/cartridge", &["kernel/core", "sdk/retrieval"], &[]),
    (
        "kernel/gate",
        &[
            "kernel/store",
            "kernel/cartridge",
            "kernel/audit",
            "kernel/core",
            "sdk/retrieval",
        ],
        &[],
    ),
    // The binary wires the others together, so it sees them all.
    (
        "kernel/server",
        &[
            "kernel/gate",
            "kernel/store",
            "kernel/cartridge",
            "kernel/audit",
            "kernel/core",
            "sdk/retrieval",
            // `halofy cartridge build` is for vendors; no request reaches it.
            "sdk/build",
        ],
        &["sdk/build"],
    ),
    ("sdk/retrieval", &[], &[]),
    ("sdk/build", &[], &[]),
    ("sdk/driver", &["sdk/retrieval"], &[]),
    // Stands for every folder below it: one folder is one cartridge.
    ("drivers", &["sdk/driver", "sdk/retrieval"], &[]),
];

/// Dependencies that one crate keeps from the others: by name, or by the part of
/// the name before `-` or `_`.
const QUARANTINE: [(&str, &str); 6] = [
    ("sqlx", "kernel/store"),
    ("pglite-oxide", "kernel/store"),
    ("wasmtime", "kernel/cartridge"),
    ("axum", "kernel/server"),
    ("rmcp", "kernel/server"),
    ("clap", "kernel/server"),
];

/// What the pure crates must not reach, not even through somebody else.
const IMPURE: [&str; 9] = [
    "tokio",
    "sqlx",
    "axum",
    "wasmtime",
    "reqwest",
    "hyper",
    "rustls",
    "pglite-oxide",
    "clap",
];

/// What reads a clock or randomness. `halofy-core` is given times and ids.
const UNREPEATABLE: [&str; 7] = [
    "SystemTime",
    "Instant::now",
    "now_utc",
    "now_local",
    "getrandom",
    "rand::",
    "Ulid::generate",
];

#[test]
fn workspace_crates_use_each_other_only_along_the_map() {
    let metadata = declared();
    let root = metadata.workspace_root.as_std_path();
    let mut forbidden = Vec::new();
    for (package, dependency) in declared_edges(&metadata) {
        let Some(to) = dependency.path.as_ref() else {
            continue;
        };
        let (from, to) = (folder(root, package), below(root, to.as_std_path()));
        if !may_use(&from, &to, dependency.kind) {
            forbidden.push(format!("{from} -> {to} ({} dependency)", dependency.kind));
        }
    }
    assert!(
        forbidden.is_empty(),
        "edges that the map does not have: {forbidden:#?}"
    );
}

#[test]
fn every_workspace_crate_is_on_the_map() {
    let metadata = declared();
    let root = metadata.workspace_root.as_std_path();
    let unknown: Vec<String> = metadata
        .workspace_packages()
        .into_iter()
        .map(|package| folder(root, package))
        .filter(|folder| folder != "tests" && rule(folder).is_none())
        .collect();
    assert!(
        unknown.is_empty(),
        "crates that the map does not know: {unknown:?}"
    );
}

#[test]
fn heavy_dependencies_stay_in_their_own_crate() {
    let metadata = declared();
    let root = metadata.workspace_root.as_std_path();
    let mut escaped = Vec::new();
    for (package, dependency) in declared_edges(&metadata) {
        let from = folder(root, package);
        match home_of(&dependency.name) {
            Some(home) if home != from && from != "tests" => {
                escaped.push(format!(
                    "{from} uses {}, which is {home}'s alone",
                    dependency.name
                ));
            }
            _ => {}
        }
    }
    assert!(escaped.is_empty(), "{escaped:#?}");
}

#[test]
fn each_quarantined_dependency_is_used_by_its_own_crate() {
    // Else a renamed dependency would leave the rule above without anything to find.
    let metadata = declared();
    let root = metadata.workspace_root.as_std_path();
    let used: BTreeSet<(String, &str)> = declared_edges(&metadata)
        .filter_map(|(package, dependency)| {
            Some((folder(root, package), home_of(&dependency.name)?))
        })
        .collect();
    for (name, home) in QUARANTINE.into_iter().filter(|(name, _)| *name != "rmcp") {
        assert!(
            used.contains(&(home.to_owned(), home)),
            "{home} does not use {name}"
        );
    }
}

#[test]
fn the_pure_crates_reach_no_runtime_database_or_network() {
    let metadata = resolved();
    for name in ["halofy-core", "halofy-audit", "halofy-retrieval"] {
        let reached = closure(&metadata, name);
        assert!(reached.contains(name), "{name} is a workspace crate");
        let impure: Vec<&str> = IMPURE
            .into_iter()
            .filter(|bad| reached.contains(bad))
            .collect();
        assert!(impure.is_empty(), "{name} reaches {impure:?}");
    }
}

#[test]
fn core_reads_neither_a_clock_nor_randomness() {
    let sources = workspace_root().join("kernel/core/src");
    let mut read = 0;
    for entry in std::fs::read_dir(sources).expect("the sources of core") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("a source file");
        for name in UNREPEATABLE {
            assert!(!text.contains(name), "{} uses {name}", path.display());
        }
        read += 1;
    }
    assert!(read > 3, "core has {read} files; did its folder move?");
}

#[test]
fn every_dependency_has_a_licence_that_deny_toml_allows() {
    let policy = LicencePolicy::read();
    let refused: BTreeSet<String> = resolved()
        .packages
        .iter()
        .filter(|package| !policy.allows(package))
        .map(|package| {
            format!(
                "{} {}: {:?}",
                package.name, package.version, package.license
            )
        })
        .collect();
    assert!(
        refused.is_empty(),
        "licences that deny.toml does not allow: {refused:#?}"
    );
}

#[test]
fn the_map_refuses_what_it_does_not_name() {
    use DependencyKind::{Build, Development, Normal};
    for (from, to, kind) in [
        ("kernel/core", "kernel/store", Normal),
        ("kernel/audit", "kernel/core", Development),
        ("kernel/store", "kernel/gate", Development),
        ("kernel/cartridge", "kernel/store", Normal),
        ("kernel/gate", "sdk/build", Normal),
        ("sdk/driver", "kernel/core", Normal),
        ("drivers/graph", "kernel/core", Normal),
        ("kernel/seventh", "kernel/core", Normal),
    ] {
        assert!(!may_use(from, to, kind), "{from} -> {to}");
    }
    assert!(may_use("kernel/server", "sdk/build", Build));
    assert!(may_use("drivers/graph", "sdk/driver", Normal));
    assert_eq!(home_of("sqlx-core"), Some("kernel/store"));
    assert_eq!(home_of("clap_builder"), Some("kernel/server"));
    assert_eq!(home_of("claptrap"), None);
}

#[test]
fn the_licence_policy_refuses_copyleft() {
    let policy = LicencePolicy::read();
    for (expression, allowed) in [
        ("MIT OR GPL-3.0-only", true),
        ("MIT/Apache-2.0", true),
        ("MIT AND GPL-3.0-only", false),
        ("AGPL-3.0-only", false),
        ("BUSL-1.1", false),
    ] {
        assert_eq!(
            policy.allows_expression(expression),
            allowed,
            "{expression}"
        );
    }
}

fn rule(folder: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    let folder = if folder.starts_with("drivers/") {
        "drivers"
    } else {
        folder
    };
    let found = MAP.into_iter().find(|(name, ..)| *name == folder)?;
    Some((found.1, found.2))
}

fn may_use(from: &str, to: &str, kind: DependencyKind) -> bool {
    if from == "tests" {
        return true;
    }
    let Some((uses, builds_with)) = rule(from) else {
        return false;
    };
    match kind {
        DependencyKind::Build => builds_with.contains(&to),
        _ => uses.contains(&to),
    }
}

fn home_of(name: &str) -> Option<&'static str> {
    let family = |heavy: &str| match name.strip_prefix(heavy) {
        Some(rest) => rest.is_empty() || rest.starts_with(['-', '_']),
        None => false,
    };
    QUARANTINE
        .into_iter()
        .find(|(heavy, _)| family(heavy))
        .map(|(_, home)| home)
}

/// The workspace's own packages and what they declare; needs no network.
fn declared() -> Metadata {
    metadata_command().no_deps().exec().expect("cargo metadata")
}

/// Every package of every platform, as `Cargo.lock` fixes them.
fn resolved() -> Metadata {
    let locked = metadata_command()
        .other_options(vec!["--locked".to_owned()])
        .exec();
    locked.expect("cargo metadata --locked")
}

fn metadata_command() -> MetadataCommand {
    let mut command = MetadataCommand::new();
    command.manifest_path(workspace_root().join("Cargo.toml"));
    command
}

fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("this package is a folder of the workspace")
}

fn declared_edges(metadata: &Metadata) -> impl Iterator<Item = (&Package, &Dependency)> {
    let packages = metadata.workspace_packages().into_iter();
    packages.flat_map(|package| package.dependencies.iter().map(move |edge| (package, edge)))
}

fn folder(root: &Path, package: &Package) -> String {
    let manifest = package.manifest_path.as_std_path();
    below(root, manifest.parent().expect("a manifest has a folder"))
}

fn below(root: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(root).unwrap_or(path);
    inside.to_str().expect("a path in UTF-8").to_owned()
}

/// The names of everything that a package is built from, tests aside.
fn closure<'m>(metadata: &'m Metadata, name: &str) -> BTreeSet<&'m str> {
    let graph = metadata.resolve.as_ref().expect("a resolved graph");
    let nodes: BTreeMap<&PackageId, _> = graph.nodes.iter().map(|node| (&node.id, node)).collect();
    let start = metadata
        .packages
        .iter()
        .find(|package| package.name == name);
    let mut waiting: Vec<&PackageId> = start.map(|package| &package.id).into_iter().collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if seen.insert(id) {
            let built_with = nodes[id].deps.iter().filter(|edge| {
                edge.dep_kinds
                    .iter()
                    .any(|kind| kind.kind != DependencyKind::Development)
            });
            waiting.extend(built_with.map(|edge| &edge.pkg));
        }
    }
    seen.into_iter()
        .map(|id| metadata[id].name.as_str())
        .collect()
}

/// The `[licenses]` table of `deny.toml`: the one list, read here too, so that the
/// licences are checked where cargo-deny is not installed.
struct LicencePolicy {
    allowed: Vec<Licensee>,
    exceptions: BTreeMap<String, Vec<Licensee>>,
    clarified: BTreeMap<String, String>,
}

impl LicencePolicy {
    fn read() -> Self {
        let text = std::fs::read_to_string(workspace_root().join("deny.toml")).expect("deny.toml");
        let table: toml::Table = text.parse().expect("TOML");
        let licences = &table["licenses"];
        let entries = |name: &str| licences[name].as_array().cloned().unwrap_or_default();
        let text_of = |entry: &toml::Value, key: &str| entry[key].as_str().expect(key).to_owned();
        Self {
            allowed: licensees(&licences["allow"]),
            exceptions: entries("exceptions")
                .iter()
                .map(|entry| (text_of(entry, "crate"), licensees(&entry["allow"])))
                .collect(),
            clarified: entries("clarify")
                .iter()
                .map(|entry| (text_of(entry, "crate"), text_of(entry, "expression")))
                .collect(),
        }
    }

    fn allows(&self, package: &Package) -> bool {
        let name = package.name.as_str();
        let stated = package
            .license
            .as_ref()
            .or_else(|| self.clarified.get(name));
        let Some(stated) = stated else { return false };
        let more = self
            .exceptions
            .get(name)
            .map(Vec::as_slice)
            .unwrap_or_default();
        self.satisfied(stated, more)
    }

    fn allows_expression(&self, expression: &str) -> bool {
        self.satisfied(expression, &[])
    }

    fn satisfied(&self, expression: &str, more: &[Licensee]) -> bool {
        let Ok(expression) = Expression::parse_mode(expression, ParseMode::LAX) else {
            return false;
        };
        expression.evaluate(|asked| {
            self.allowed
                .iter()
                .chain(more)
                .any(|held| held.satisfies(asked))
        })
    }
}

fn licensees(list: &toml::Value) -> Vec<Licensee> {
    let names = list.as_array().expect("a list of licences").iter();
    names
        .map(|name| Licensee::parse(name.as_str().expect("a licence's name")).expect("a licence"))
        .collect()
}
