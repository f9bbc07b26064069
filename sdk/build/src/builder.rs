//! The build of a cartridge, from its folder to the bytes of a component, whatever its
//! language.

use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::component::{contract_version, finish};
use crate::descriptor::{DESCRIPTOR, Descriptor};
use crate::{Error, Language, Manifest, Toolchain};

/// Builds one cartridge.
#[derive(Debug, Clone)]
pub struct Builder {
    dir: PathBuf,
    target_dir: Option<PathBuf>,
    toolchain: Option<Toolchain>,
}

/// A cartridge that was built.
#[derive(Debug, Clone)]
pub struct Built {
    /// The component, its manifest embedded. In Rust and C the same sources, lock file and
    /// compiler give the same bytes.
    pub component: Vec<u8>,
    /// What the component says about itself.
    pub manifest: Manifest,
    /// SHA-256 of `component`, in lower-case hexadecimal.
    pub digest_sha256: String,
    /// What the language's own tool made, in the target directory.
    pub crate_artifact: PathBuf,
    /// What it is written in.
    pub language: Language,
}

impl Builder {
    /// A builder for the folder that holds a `Cargo.toml`, or a `halofy.toml` that names
    /// another language.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            target_dir: None,
            toolchain: None,
        }
    }

    /// Where the nested build keeps its files; `target/cartridge` in the cartridge's folder
    /// unless set. A build script sets a folder in its `OUT_DIR`: the target directory of
    /// the cargo that runs it is locked until it ends, and the nested one would wait. Two
    /// cartridges in another language than Rust do not share one.
    #[must_use]
    pub fn target_dir(mut self, target_dir: impl Into<PathBuf>) -> Self {
        self.target_dir = Some(target_dir.into());
        self
    }

    /// Which programs to build Rust with; [`Toolchain::from_env`] unless set.
    #[must_use]
    pub fn toolchain(mut self, toolchain: Toolchain) -> Self {
        self.toolchain = Some(toolchain);
        self
    }

    /// Builds what the folder holds, makes a component of it and embeds its manifest. The
    /// tools' messages go to the standard error as they come.
    ///
    /// # Errors
    /// Any [`Error`]; each says what to do about it.
    pub fn build(self) -> Result<Built, Error> {
        let dir = absolute(&self.dir)?;
        let language = language_of(&dir)?;
        let target_dir = self
            .target_dir
            .unwrap_or_else(|| dir.join("target/cartridge"));
        std::fs::create_dir_all(&target_dir).map_err(|source| Error::Io {
            path: target_dir.clone(),
            source,
        })?;
        let target_dir = absolute(&target_dir)?;
        let (component, mut manifest, crate_artifact) = match language {
            Language::Rust => {
                let toolchain = self.toolchain.map_or_else(Toolchain::from_env, Ok)?;
                crate::rust::build(&toolchain, &dir, &target_dir)?
            }
            _ => described(&dir, &target_dir)?,
        };
        let mut component = finish(&component)?;
        manifest.wit = contract_version(&component)?;
        manifest.embed(&mut component);
        let digest_sha256 = hex::encode(Sha256::digest(&component));
        Ok(Built {
            component,
            manifest,
            digest_sha256,
            crate_artifact,
            language,
        })
    }
}

/// A crate is Rust; anything else says what it is.
fn language_of(dir: &Path) -> Result<Language, Error> {
    if dir.join("Cargo.toml").is_file() {
        Ok(Language::Rust)
    } else if dir.join(DESCRIPTOR).is_file() {
        Ok(Descriptor::read(dir)?.language)
    } else {
        Err(Error::NoCartridge {
            dir: dir.to_owned(),
        })
    }
}

/// Builds the folder of a `halofy.toml`.
fn described(dir: &Path, target_dir: &Path) -> Result<(Vec<u8>, Manifest, PathBuf), Error> {
    let descriptor = Descriptor::read(dir)?;
    let (component, artifact) = match descriptor.language {
        Language::JavaScript => crate::javascript::build(&descriptor, dir, target_dir)?,
        Language::Python => crate::python::build(&descriptor, dir, target_dir)?,
        Language::C => crate::c::build(&descriptor, dir, target_dir)?,
        // Reading the descriptor refuses it.
        Language::Rust => {
            return Err(Error::NoCartridge {
                dir: dir.to_owned(),
            });
        }
    };
    Ok((component, Manifest::described(descriptor), artifact))
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    path.canonicalize().map_err(|source| Error::Io {
        path: path.to_owned(),
        source,
    })
}
