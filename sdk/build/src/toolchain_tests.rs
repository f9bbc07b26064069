//! Tests of the toolchain: its variables, and what it says when the target is missing.
//! The compilers here are scripts that answer as rustc and rustup would.

use std::fs;

use super::*;

fn vars<'a>(set: &'a [(&'a str, &'a str)]) -> impl Fn(&'static str) -> Option<OsString> + 'a {
    move |name| {
        set.iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.into())
    }
}

fn toolchain(set: &[(&str, &str)]) -> Toolchain {
    Toolchain::from_vars(vars(set)).expect("the variables are well formed")
}

#[test]
fn without_variables_the_programs_are_those_on_the_path() {
    let plain = toolchain(&[]);
    assert_eq!(plain.cargo, "cargo");
    assert_eq!((plain.rustc, plain.linker), (None, None));
    assert!(!plain.overridden);
}

#[test]
fn inside_a_build_script_the_outer_toolchain_is_used() {
    let outer = toolchain(&[("CARGO", "/t/bin/cargo"), ("RUSTC", "/t/bin/rustc")]);
    assert_eq!(outer.cargo, "/t/bin/cargo");
    assert_eq!(outer.rustc, Some("/t/bin/rustc".into()));
    assert!(!outer.overridden);
}

#[test]
fn an_override_wins_and_does_not_mix_with_the_outer_compiler() {
    let chosen = toolchain(&[
        ("CARGO", "/t/bin/cargo"),
        ("RUSTC", "/t/bin/rustc"),
        (CARGO, "/usr/bin/cargo"),
        (LINKER, "wasm-ld-19"),
    ]);
    assert_eq!(chosen.cargo, "/usr/bin/cargo");
    assert_eq!(chosen.rustc, None);
    assert_eq!(chosen.linker, Some("wasm-ld-19".into()));
    assert!(chosen.overridden);
}

#[test]
fn arguments_are_split_as_a_shell_splits_them() {
    let chosen = toolchain(&[(
        CARGO_ARGS,
        r#"-Zbuild-std=std,panic_abort --config 'a.b="c d"'"#,
    )]);
    assert_eq!(
        chosen.cargo_args,
        ["-Zbuild-std=std,panic_abort", "--config", r#"a.b="c d""#]
    );
}

#[test]
fn an_open_quote_is_an_error_that_names_the_variable() {
    let error = Toolchain::from_vars(vars(&[(CARGO_ARGS, "--config 'a")])).expect_err("open quote");
    assert!(
        error.to_string().starts_with("HALOFY_WASM_CARGO_ARGS"),
        "{error}"
    );
}

#[test]
fn empty_variables_count_as_unset() {
    assert_eq!(
        toolchain(&[(CARGO, ""), (RUSTC, ""), (CARGO_ARGS, "")]),
        toolchain(&[])
    );
}

#[test]
fn the_nested_build_keeps_where_crates_come_from_and_nothing_else_of_cargo() {
    for name in [
        "CARGO",
        "CARGO_BUILD_TARGET",
        "CARGO_CFG_TARGET_ARCH",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_FEATURE_DEFAULT",
        "CARGO_INCREMENTAL",
        "CARGO_MAKEFLAGS",
        "CARGO_MANIFEST_DIR",
        "CARGO_PROFILE_RELEASE_LTO",
        "CARGO_TARGET_DIR",
        "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS",
        "HOST",
        "MAKEFLAGS",
        "RUSTC",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_WRAPPER",
        "RUSTFLAGS",
        "TARGET",
    ] {
        assert!(poisons(name), "{name} reaches the nested build");
    }
    for name in [
        "CARGO_HOME",
        "CARGO_HTTP_CAINFO",
        "CARGO_NET_OFFLINE",
        "CARGO_REGISTRIES_MINE_INDEX",
        "CARGOX",
        "HOME",
        "PATH",
        "RUSTC_BOOTSTRAP",
        "RUSTUP_TOOLCHAIN",
    ] {
        assert!(!poisons(name), "{name} is lost");
    }
}

#[cfg(unix)]
mod with_scripts {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A compiler that answers for a sysroot of its own.
    fn fake_rustc(sysroot: &Path) -> PathBuf {
        let libdir = sysroot.join("lib/rustlib/wasm32-unknown-unknown/lib");
        fs::create_dir_all(sysroot.join("bin")).expect("a temporary folder");
        let rustc = sysroot.join("bin/rustc");
        let script = format!(
            "#!/bin/sh\ncase \"$2\" in\nsysroot) echo '{}';;\ntarget-libdir) echo '{}';;\n*) exit 1;;\nesac\n",
            sysroot.display(),
            libdir.display()
        );
        fs::write(&rustc, script).expect("a temporary file");
        fs::set_permissions(&rustc, fs::Permissions::from_mode(0o755)).expect("a mode");
        rustc
    }

    fn ensure(sysroot: &Path, more: &[(&'static str, &str)]) -> Result<(), Error> {
        let rustc = fake_rustc(sysroot);
        let rustc = rustc.to_str().expect("a UTF-8 path");
        let mut set = vec![("RUSTC", rustc)];
        set.extend_from_slice(more);
        toolchain(&set).ensure_target(sysroot)
    }

    #[test]
    fn a_missing_target_names_both_recipes() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let error = ensure(dir.path(), &[]).expect_err("there is no target");
        let text = error.to_string();
        for part in [
            "is not a toolchain of rustup",
            "rustup target add wasm32-unknown-unknown",
            "apt-get install rustc-web cargo-web rust-web-src lld-19",
            "RUSTC_BOOTSTRAP=1",
            "HALOFY_WASM_CARGO=/usr/bin/cargo",
            "HALOFY_WASM_RUSTC=/usr/bin/rustc",
            "HALOFY_WASM_LINKER=wasm-ld-19",
            "HALOFY_WASM_CARGO_ARGS=-Zbuild-std=std,panic_abort",
        ] {
            assert!(text.contains(part), "`{part}` is not in:\n{text}");
        }
    }

    #[test]
    fn an_overridden_compiler_is_not_completed() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let sysroot = dir.path().join("toolchains/chosen");
        let rustc = fake_rustc(&sysroot);
        let chosen = toolchain(&[(RUSTC, rustc.to_str().expect("a UTF-8 path"))]);
        let error = chosen
            .ensure_target(&sysroot)
            .expect_err("there is no target");
        assert!(
            error.to_string().contains("not completed for you"),
            "{error}"
        );
    }

    #[test]
    fn offline_nothing_is_fetched() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let sysroot = dir.path().join("toolchains/plain");
        let error = ensure(&sysroot, &[("CARGO_NET_OFFLINE", "true")]).expect_err("no target");
        assert!(error.to_string().contains("CARGO_NET_OFFLINE"), "{error}");
    }

    #[test]
    fn an_installed_target_is_enough() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let libdir = dir.path().join("lib/rustlib/wasm32-unknown-unknown/lib");
        fs::create_dir_all(&libdir).expect("a temporary folder");
        fs::write(libdir.join("libstd-0123.rlib"), b"").expect("a temporary file");
        ensure(dir.path(), &[]).expect("the target is there");
    }

    #[test]
    fn building_the_standard_library_needs_no_installed_target() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        ensure(dir.path(), &[(CARGO_ARGS, "-Zbuild-std=std,panic_abort")])
            .expect("it will be built from source");
    }

    #[test]
    fn a_compiler_that_is_not_there_names_its_variable() {
        let absent = toolchain(&[(RUSTC, "/nowhere/rustc")]);
        let error = absent
            .ensure_target(Path::new("/"))
            .expect_err("no such program");
        assert!(
            error
                .to_string()
                .contains("name another one in HALOFY_WASM_RUSTC"),
            "{error}"
        );
    }
}
