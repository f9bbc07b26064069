//! The same engine in every language: that each builds with its own tool into a component
//! that imports nothing but the contract. That all four rank alike is for those who can run
//! them.

use std::path::Path;

use halofy_build::{Builder, Built, Language};

/// Whether the tool of a language was named. `tests/cartridge-tools.sh` installs them; on a
/// machine without, there is nothing to test.
fn has_tool(language: Language) -> bool {
    let named = |variable: &str| std::env::var_os(variable).is_some();
    let missing = language.tool_variable().filter(|variable| !named(variable));
    if let Some(variable) = missing {
        eprintln!("not tested: cartridges in {language}, since {variable} is not set");
    }
    missing.is_none()
}

fn built(name: &str) -> Built {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../drivers")
        .join(name);
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let built = Builder::new(dir).target_dir(target).build();
    built.unwrap_or_else(|error| panic!("{error}"))
}

/// Sections and imports of all that is nested are checked, not only those of the outside.
fn examine(built: &Built, name: &str, language: Language, most_bytes: usize) {
    assert_eq!(
        (built.manifest.name.as_str(), built.language),
        (name, language)
    );
    assert_eq!(built.manifest.wit, "1.0.0");
    wasmparser::validate(&built.component).expect("it is a valid component");
    let size = built.component.len();
    assert!(size <= most_bytes, "{name} has {size} bytes");
    let mut customs = Vec::new();
    let mut depth = 0_usize;
    for payload in wasmparser::Parser::new(0).parse_all(&built.component) {
        match payload.expect("it parses") {
            wasmparser::Payload::ComponentImportSection(imports) if depth == 0 => {
                for import in imports {
                    let import = import.expect("it parses").name.name.to_owned();
                    assert!(
                        import.starts_with("halofy:driver/"),
                        "{name} asks for {import}"
                    );
                }
            }
            wasmparser::Payload::ModuleSection { .. }
            | wasmparser::Payload::ComponentSection { .. } => depth += 1,
            wasmparser::Payload::End(_) => depth = depth.saturating_sub(1),
            wasmparser::Payload::CustomSection(section) => customs.push(section.name().to_owned()),
            _ => {}
        }
    }
    assert_eq!(customs, [halofy_build::MANIFEST_SECTION]);
}

#[test]
fn the_keyword_engine_builds_in_rust() {
    examine(&built("keyword"), "keyword", Language::Rust, 128 << 10);
}

#[test]
fn the_keyword_engine_builds_in_c() {
    if !has_tool(Language::C) {
        return;
    }
    let component = built("keyword-c");
    examine(&component, "keyword-c", Language::C, 16 << 10);
    assert_eq!(
        component.component,
        built("keyword-c").component,
        "the same sources give the same bytes"
    );
}

#[test]
fn the_keyword_engine_builds_in_javascript() {
    if !has_tool(Language::JavaScript) {
        return;
    }
    examine(
        &built("keyword-js"),
        "keyword-js",
        Language::JavaScript,
        2 << 20,
    );
}

#[test]
fn the_keyword_engine_builds_in_python() {
    if !has_tool(Language::Python) {
        return;
    }
    examine(
        &built("keyword-python"),
        "keyword-python",
        Language::Python,
        18 << 20,
    );
}
