//! Whole builds, with the compiler that runs these tests: what comes out, that it is the
//! same wherever it is built, and what an author is told about the usual mistakes.

use std::fs;
use std::path::{Path, PathBuf};

use halofy_build::{Builder, Built, Error, Manifest};
use tempfile::TempDir;

const BARE: &str = "[package]\nname = \"bare\"\nversion = \"0.1.0\"\nedition = \"2024\"\nlicense = \"MIT\"\n\
    [workspace]\n";
const CDYLIB: &str = "[lib]\ncrate-type = [\"cdylib\"]\n";
const METADATA: &str = "[package.metadata.halofy]\nname = \"bare\"\nvendor = \"Example\"\n";

fn temporary() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// Writes a crate without dependencies.
fn bare(cargo_toml: &[&str], source: &str) -> TempDir {
    let dir = temporary();
    fs::create_dir(dir.path().join("src")).expect("a temporary folder");
    fs::write(dir.path().join("Cargo.toml"), cargo_toml.concat()).expect("a temporary file");
    fs::write(dir.path().join("src/lib.rs"), source).expect("a temporary file");
    dir
}

/// Copies the tiny cartridge into `dir`.
fn tiny(dir: &Path) {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny");
    fs::create_dir_all(dir.join("src")).expect("a temporary folder");
    for file in ["Cargo.toml", "Cargo.lock", "src/lib.rs"] {
        fs::copy(fixture.join(file), dir.join(file)).expect("the fixture is there");
    }
}

fn build(crate_dir: &Path) -> Result<Built, Error> {
    Builder::new(crate_dir)
        .target_dir(crate_dir.join("out"))
        .build()
}

fn refused(crate_dir: &Path) -> Error {
    match build(crate_dir) {
        Ok(built) => panic!("it was built: {:?}", built.manifest),
        Err(error) => error,
    }
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

/// Folders of this machine that a binary must not tell of.
fn machine_paths(crate_dir: &Path) -> Vec<String> {
    let home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME"))
        .ok();
    let folders = [
        crate_dir.to_owned(),
        PathBuf::from(env!("CARGO_MANIFEST_DIR")),
    ];
    let folders = folders
        .iter()
        .map(|path| path.to_string_lossy().into_owned());
    folders.chain(home).collect()
}

#[test]
fn a_cartridge_is_the_same_bytes_wherever_it_is_built() {
    let (one, two) = (temporary(), temporary());
    let (one, two) = (
        one.path().join("short"),
        two.path().join("a/much/longer/path"),
    );
    tiny(&one);
    tiny(&two);
    // One target directory, kept between runs, compiles the bindings' generator once; the
    // two crates are two packages to cargo, and each is compiled.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tiny");
    let into_target = |dir: &Path| Builder::new(dir).target_dir(&target).build();
    let first = into_target(&one).expect("it builds");
    let second = into_target(&two).expect("it builds");

    assert_eq!(first.digest_sha256, second.digest_sha256);
    assert_eq!(first.component, second.component);
    assert!(
        first
            .crate_artifact
            .starts_with(target.canonicalize().expect("it was made"))
    );
    // Panic messages are in it, so the absence of paths below is no accident.
    assert!(holds(&first.component, "src/lib.rs"));
    for path in machine_paths(&one) {
        assert!(
            !holds(&first.component, &path),
            "{path} is in the component"
        );
    }
    let expected = Manifest {
        name: "tiny".into(),
        version: "0.3.0".into(),
        wit: "1.0.0".into(),
        vendor: "Example Vendor".into(),
        licence: "Apache-2.0".into(),
        capabilities: None,
        limits: [].into(),
    };
    assert_eq!(first.manifest, expected);
    assert_eq!(
        Manifest::read(&first.component).expect("it parses"),
        Some(expected)
    );
    wasmparser::validate(&first.component).expect("it is a valid component");
}

#[test]
fn a_crate_without_a_vendor_is_told_which_key_is_missing() {
    let dir = bare(
        &[BARE, CDYLIB, "[package.metadata.halofy]\nname = \"bare\"\n"],
        "//! Bare.",
    );
    let error = refused(dir.path());
    assert!(matches!(error, Error::MissingKey { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("no `package.metadata.halofy.vendor`"),
        "{error}"
    );
}

#[test]
fn a_crate_without_a_licence_is_told_which_key_is_missing() {
    let without = BARE.replace("license = \"MIT\"\n", "");
    let dir = bare(&[&without, CDYLIB, METADATA], "//! Bare.");
    let error = refused(dir.path());
    assert!(
        error.to_string().contains("no `package.license`"),
        "{error}"
    );
}

#[test]
fn a_crate_that_is_not_a_cdylib_is_told_the_lines_to_add() {
    let dir = bare(&[BARE, METADATA], "//! Bare.");
    let error = refused(dir.path());
    assert!(matches!(error, Error::NoArtifact { .. }), "{error}");
    assert!(
        error.to_string().contains("crate-type = [\"cdylib\"]"),
        "{error}"
    );
}

#[test]
fn a_crate_that_does_not_compile_is_told_the_command_to_try() {
    let dir = bare(&[BARE, CDYLIB, METADATA], "fn broken() -> u8 { \"text\" }");
    let error = refused(dir.path());
    assert!(matches!(error, Error::CargoBuild { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("--target wasm32-unknown-unknown"),
        "{error}"
    );
}

#[test]
fn a_clock_is_refused_by_name() {
    let source = r#"
        #[link(wasm_import_module = "wasi_snapshot_preview1")]
        unsafe extern "C" { fn clock_time_get(id: i32, precision: i64, out: *mut u64) -> i32; }
        #[unsafe(no_mangle)]
        pub extern "C" fn plan() -> u64 {
            let mut now = 0;
            unsafe { clock_time_get(0, 0, &mut now) };
            now
        }"#;
    let dir = bare(&[BARE, CDYLIB, METADATA], source);
    let error = refused(dir.path());
    let Error::ForbiddenImports { imports } = &error else {
        panic!("{error}")
    };
    assert_eq!(imports, &["wasi_snapshot_preview1#clock_time_get"]);
}

#[test]
fn a_folder_without_a_cartridge_is_named() {
    let dir = temporary();
    let error = refused(dir.path());
    assert!(matches!(error, Error::NoCartridge { .. }), "{error}");
}

#[test]
fn the_baseline_names_itself_and_no_folder_of_this_machine() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("baseline");
    let built = Builder::new(root.join("drivers/baseline"))
        .target_dir(target)
        .build()
        .expect("it builds");
    assert_eq!(built.manifest.name, "baseline");
    assert_eq!(built.manifest.wit, "1.0.0");
    for path in machine_paths(&root.canonicalize().expect("it is there")) {
        assert!(
            !holds(&built.component, &path),
            "{path} is in the component"
        );
    }
}
