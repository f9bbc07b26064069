//! What cargo knows about the cartridge's crate: its package, the profile to build with,
//! and the folders of all sources, so that no path of this machine reaches the binary.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cargo_metadata::{Metadata, MetadataCommand, Package};

use crate::{Error, Toolchain};

/// The profile that a cartridge's workspace may define; see `drivers/baseline`.
const PROFILE: &str = "cartridge";

/// A cartridge's crate.
pub(crate) struct Project {
    pub(crate) package: Package,
    /// The profile of cargo to build with.
    pub(crate) profile: &'static str,
    /// Whether a `Cargo.lock` says exactly what to build.
    pub(crate) locked: bool,
    /// Each source folder, with the name that stands for it in the binary.
    pub(crate) remap: Vec<(PathBuf, String)>,
}

impl Project {
    /// Asks cargo about the crate in `crate_dir`, an absolute path. It asks for no
    /// dependencies: those of the whole workspace would have to be downloaded for it.
    pub(crate) fn load(toolchain: &Toolchain, crate_dir: &Path) -> Result<Self, Error> {
        let workspace = metadata(toolchain, crate_dir)?;
        let package = package_in(&workspace, crate_dir)?;
        let root = workspace.workspace_root.as_std_path();
        let profile = if defines_profile(root)? {
            PROFILE
        } else {
            "release"
        };
        let locked = root.join("Cargo.lock").is_file();
        let remap = remap(toolchain, &workspace)?;
        Ok(Self {
            package,
            profile,
            locked,
            remap,
        })
    }
}

fn metadata(toolchain: &Toolchain, crate_dir: &Path) -> Result<Metadata, Error> {
    let failed = |message: String| Error::Metadata {
        crate_dir: crate_dir.to_owned(),
        message,
    };
    let mut command = toolchain.cargo(crate_dir);
    command.args([
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
        "--color",
        "never",
    ]);
    let output = toolchain.output_of_cargo(&mut command)?;
    if !output.status.success() {
        return Err(failed(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ));
    }
    MetadataCommand::parse(String::from_utf8_lossy(&output.stdout))
        .map_err(|error| failed(error.to_string()))
}

fn package_in(metadata: &Metadata, crate_dir: &Path) -> Result<Package, Error> {
    let manifest = crate_dir.join("Cargo.toml");
    let found = metadata
        .packages
        .iter()
        .find(|package| package.manifest_path == manifest);
    found.cloned().ok_or_else(|| Error::Metadata {
        crate_dir: crate_dir.to_owned(),
        message: "its Cargo.toml holds no [package]; name the folder of a package".to_owned(),
    })
}

/// cargo does not tell of profiles, so the workspace's file is read.
fn defines_profile(workspace_root: &Path) -> Result<bool, Error> {
    let path = workspace_root.join("Cargo.toml");
    let text = std::fs::read_to_string(&path).map_err(|source| Error::Io {
        path: path.clone(),
        source,
    })?;
    let parsed: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| Error::Metadata {
            crate_dir: workspace_root.to_owned(),
            message: error.message().to_owned(),
        })?;
    let profiles = parsed.get("profile").and_then(toml::Value::as_table);
    Ok(profiles.is_some_and(|profiles| profiles.contains_key(PROFILE)))
}

/// The folders of downloaded crates, of the workspace and of its packages, and of the
/// packages outside of it that are reached by path.
fn remap(toolchain: &Toolchain, workspace: &Metadata) -> Result<Vec<(PathBuf, String)>, Error> {
    let mut remap = vec![(
        workspace.workspace_root.clone().into(),
        "/workspace".to_owned(),
    )];
    if let Some(home) = cargo_home() {
        remap.push((home.join("registry/src"), "/registry".to_owned()));
        remap.push((home.join("git/checkouts"), "/git".to_owned()));
    }
    let mut known = BTreeSet::new();
    let mut waiting = workspace.packages.clone();
    known.extend(
        waiting
            .iter()
            .filter_map(|package| package.manifest_path.parent().map(|dir| dir.to_owned())),
    );
    while let Some(package) = waiting.pop() {
        if let Some(folder) = package.manifest_path.parent() {
            remap.push((
                folder.into(),
                format!("/crates/{}-{}", package.name, package.version),
            ));
        }
        for folder in package
            .dependencies
            .into_iter()
            .filter_map(|dependency| dependency.path)
        {
            // One that is not there is for cargo to report, when it builds.
            if folder.is_dir() && known.insert(folder.clone()) {
                waiting.push(package_in(
                    &metadata(toolchain, folder.as_ref())?,
                    folder.as_ref(),
                )?);
            }
        }
    }
    Ok(remap)
}

/// Where cargo keeps what it downloads.
fn cargo_home() -> Option<PathBuf> {
    let set = std::env::var_os("CARGO_HOME").filter(|home| !home.is_empty());
    set.map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_cargo_toml(text: &str) -> bool {
        let dir = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(dir.path().join("Cargo.toml"), text).expect("a temporary file");
        defines_profile(dir.path()).expect("well-formed")
    }

    #[test]
    fn the_profile_is_used_only_when_the_workspace_defines_it() {
        assert!(with_cargo_toml(
            "[workspace]\n[profile.cartridge]\ninherits = \"release\"\n"
        ));
        assert!(!with_cargo_toml(
            "[workspace]\n[profile.release]\nlto = true\n"
        ));
        assert!(!with_cargo_toml("[workspace]\n"));
    }
}
