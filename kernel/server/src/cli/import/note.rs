//! The note beside an import of what is in already: one digest a record that the
//! kernel took. Refused records are not in it, so the next run tries them again.
//!
//! A digest is over the key and the body: the same file under another key, which may
//! be another namespace or another kernel, is another import.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// What a record is known by.
pub(super) type Digest = [u8; 16];

/// What the kernel took under one key in earlier runs.
#[derive(Debug)]
pub(super) struct Known {
    key: Sha256,
    digests: HashSet<Digest>,
}

/// The note, open for more.
#[derive(Debug)]
pub(super) struct Log {
    file: File,
    path: PathBuf,
}

/// Where the note of an import is: beside the file or the folder.
///
/// # Errors
/// When `path` is a folder without a name of its own, such as the root.
pub(super) fn note_path(path: &Path) -> Result<PathBuf> {
    let named = match path.file_name() {
        Some(_) => path.to_owned(),
        None => path
            .canonicalize()
            .with_context(|| format!("cannot read {}", path.display()))?,
    };
    let mut name = named
        .file_name()
        .with_context(|| format!("{} has no name; name the note with --note", path.display()))?
        .to_owned();
    name.push(".halofy-import");
    Ok(named.with_file_name(name))
}

impl Known {
    /// Reads a note; none is an empty one. What is no digest, such as a line that was
    /// cut off, is passed over: its record is sent again and known to the kernel.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub(super) fn read(path: &Path, key: &str) -> Result<Self> {
        let text = match std::fs::read(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => vec![],
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let digests = text.split(|byte| *byte == b'\n').filter_map(|line| {
            let mut digest = Digest::default();
            hex::decode_to_slice(line, &mut digest).ok()?;
            Some(digest)
        });
        Ok(Self {
            digests: digests.collect(),
            ..Self::nothing(key)
        })
    }

    pub(super) fn nothing(key: &str) -> Self {
        let length = (key.len() as u64).to_be_bytes();
        Self {
            key: Sha256::new().chain_update(length).chain_update(key),
            digests: HashSet::new(),
        }
    }

    pub(super) fn digest(&self, body: &Value) -> Digest {
        let all = self.key.clone().chain_update(body.to_string()).finalize();
        let mut digest = Digest::default();
        digest.copy_from_slice(&all[..size_of::<Digest>()]);
        digest
    }

    pub(super) fn holds(&self, digest: &Digest) -> bool {
        self.digests.contains(digest)
    }
}

impl Log {
    /// Opens a note to add to; `anew` empties it first.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn open(path: &Path, anew: bool) -> Result<Self> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("cannot note the progress in {}", path.display()))?;
        let log = Self {
            file,
            path: path.to_owned(),
        };
        if anew {
            log.file.set_len(0).with_context(|| log.problem())?;
        }
        Ok(log)
    }

    /// Notes a record that is in.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn add(&mut self, digest: &Digest) -> Result<()> {
        // The newline is first: what a crash cut off must not run into the next.
        let line = format!("\n{}", hex::encode(digest));
        self.file
            .write_all(line.as_bytes())
            .with_context(|| self.problem())
    }

    fn problem(&self) -> String {
        format!("cannot note the progress in {}", self.path.display())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_noted_is_known_under_the_same_key_only() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("n");
        let nothing = Known::read(&path, "hm_a").expect("read");
        let body = json!({"content": "x"});
        let digest = nothing.digest(&body);
        assert!(!nothing.holds(&digest));

        Log::open(&path, false)
            .expect("opened")
            .add(&digest)
            .expect("noted");
        let known = Known::read(&path, "hm_a").expect("read");
        assert!(known.holds(&known.digest(&body)));
        assert!(!known.holds(&known.digest(&json!({"content": "y"}))));
        let other = Known::read(&path, "hm_b").expect("read");
        assert!(!other.holds(&other.digest(&body)));
    }

    #[test]
    fn a_line_that_was_cut_off_costs_only_itself() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("n");
        std::fs::write(&path, "{\"bytes\":7,\"done\":64}\n0123").expect("written");
        Log::open(&path, false)
            .expect("opened")
            .add(&[7; 16])
            .expect("noted");
        let known = Known::read(&path, "k").expect("read");
        assert_eq!(known.digests, HashSet::from([[7; 16]]));
        Log::open(&path, true).expect("emptied");
        let known = Known::read(&path, "k").expect("read");
        assert!(known.digests.is_empty());
    }

    #[test]
    fn the_note_stands_beside_what_it_is_of() {
        let beside = |path: &str| note_path(Path::new(path)).expect("a path");
        assert_eq!(beside("a/b.md"), Path::new("a/b.md.halofy-import"));
        assert_eq!(beside("a/docs/"), Path::new("a/docs.halofy-import"));
        assert!(note_path(Path::new("/")).is_err());
    }
}
