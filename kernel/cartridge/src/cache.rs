//! Machine code kept on disk between starts. A file is code that will run with the
//! kernel's rights, so each carries an authentication code under a key of this
//! kernel's, bound to what the file is for. Whatever is wrong with one, it is not run.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::hash::{Hash as _, Hasher};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit as _, Mac as _};
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};
use tracing::warn;
use wasmtime::Engine;

use crate::artefact::Artefact;
use crate::cartridge::Digest;
use crate::limits::CodeSettings;

const DOMAIN: &[u8] = b"halofy-code-cache-v1\0";
const KEY: usize = 32;
const CODE: usize = 32;
/// No component of an admitted size compiles to more.
const MAX_ENTRY: u64 = 1 << 30;
/// Many more than one kernel mounts, old versions included.
const MAX_ENTRIES: usize = 256;
const EXTENSION: &str = "cwasm";

/// A directory of machine code. One kernel's own: another one's key does not fit.
pub struct CodeCache {
    directory: PathBuf,
    key: [u8; KEY],
}

/// What an entry is for: component, engine, settings. Also its file name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry([u8; 32]);

impl CodeCache {
    /// Opens the cache in `directory`, which is made if need be. Its key is the file
    /// beside it, `<directory>.key`, which only its owner may read; where that is
    /// missing or unusable a new one is made, and no older entry fits it.
    ///
    /// # Errors
    /// When the directory or the key cannot be made or read.
    pub fn open(directory: impl Into<PathBuf>) -> std::io::Result<Self> {
        let directory = directory.into();
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)?;
        let mut path = directory.clone().into_os_string();
        path.push(".key");
        let key = key(Path::new(&path))?;
        Ok(Self { directory, key })
    }

    /// The entry of a component on an engine. The stack is no part of the code, and
    /// yet a setting that the compiler was given.
    pub(crate) fn entry(component: Digest, engine: &Engine, settings: CodeSettings) -> Entry {
        let mut hash = HashInto(Sha256::new());
        hash.write(DOMAIN);
        hash.write(&component.0);
        hash.write_usize(settings.wasm_stack);
        // Version of the engine, target, processor features, every setting of code.
        engine.precompile_compatibility_hash().hash(&mut hash);
        Entry(hash.0.finalize().into())
    }

    /// The code of `entry`, if it is there and nobody touched it.
    pub(crate) fn get(&self, entry: Entry) -> Option<Artefact> {
        let path = self.path(entry);
        let file = match open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => {
                warn!(path = %path.display(), %error, "a cached cartridge is not read");
                return None;
            }
        };
        let artefact = self.authenticated(entry, file);
        if artefact.is_none() {
            warn!(path = %path.display(), "a cached cartridge was altered: it is compiled again");
        }
        artefact
    }

    fn authenticated(&self, entry: Entry, file: File) -> Option<Artefact> {
        let mut bytes = Vec::new();
        file.take(MAX_ENTRY).read_to_end(&mut bytes).ok()?;
        let at = bytes.len().checked_sub(CODE)?;
        let code = bytes.split_off(at);
        self.mac(entry, &bytes)?.verify_slice(&code).ok()?;
        Some(Artefact::from_authenticated_cache(bytes))
    }

    /// Keeps `artefact` for the next start. A cache that cannot be written is slower
    /// and nothing else.
    pub(crate) fn put(&self, entry: Entry, artefact: &Artefact) {
        if let Err(error) = self.write(entry, artefact) {
            let path = self.path(entry);
            warn!(path = %path.display(), %error, "a compiled cartridge is not cached");
        }
    }

    fn write(&self, entry: Entry, artefact: &Artefact) -> std::io::Result<()> {
        let code = self
            .mac(entry, artefact.bytes())
            .ok_or(std::io::ErrorKind::InvalidInput)?;
        // A new file with its owner's rights alone, then a name: readers see the old
        // entry or the new one, and a link in its place is replaced, not followed.
        let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
        file.write_all(artefact.bytes())?;
        file.write_all(&code.finalize().into_bytes())?;
        file.persist(self.path(entry))?;
        self.prune()
    }

    /// Removes the oldest entries: of components long replaced, of earlier engines.
    fn prune(&self) -> std::io::Result<()> {
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            if entry.path().extension() == Some(OsStr::new(EXTENSION)) {
                entries.push((entry.metadata()?.modified()?, entry.path()));
            }
        }
        entries.sort();
        let surplus = entries.len().saturating_sub(MAX_ENTRIES);
        let mut oldest = entries.into_iter().take(surplus);
        oldest.try_for_each(|(_, path)| std::fs::remove_file(path))
    }

    /// Over what the entry is for and the code: an entry in another's place fails.
    fn mac(&self, entry: Entry, artefact: &[u8]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.key).ok()?;
        mac.update(DOMAIN);
        mac.update(&entry.0);
        mac.update(artefact);
        Some(mac)
    }

    fn path(&self, entry: Entry) -> PathBuf {
        self.directory
            .join(format!("{}.{EXTENSION}", hex::encode(entry.0)))
    }
}

impl std::fmt::Debug for CodeCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodeCache")
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

/// Feeds what is hashed to SHA-256.
struct HashInto(Sha256);

impl Hasher for HashInto {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest = self.0.clone().finalize();
        digest
            .iter()
            .take(8)
            .fold(0, |n, byte| n << 8 | u64::from(*byte))
    }
}

/// Opens a regular file: no link is followed, no pipe is waited for.
fn open(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = i32::try_from(flags.bits()).map_err(std::io::Error::other)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    Ok(file)
}

fn key(path: &Path) -> std::io::Result<[u8; KEY]> {
    match read_key(path) {
        Ok(Some(key)) => return Ok(key),
        Ok(None) => {
            warn!(path = %path.display(), "the code cache's key is unusable: a new one is made")
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let mut key = [0; KEY];
    getrandom::fill(&mut key).map_err(std::io::Error::other)?;
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(parent.unwrap_or(Path::new(".")))?;
    file.write_all(&key)?;
    file.persist(path)?;
    Ok(key)
}

/// The key, unless others can read it or its length is wrong.
fn read_key(path: &Path) -> std::io::Result<Option<[u8; KEY]>> {
    use std::os::unix::fs::MetadataExt as _;
    let mut file = open(path)?;
    let others = file.metadata()?.mode() & 0o077;
    let mut bytes = Vec::new();
    (&mut file).take(KEY as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes.try_into().ok().filter(|_| others == 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::code_config;

    #[test]
    fn an_entry_names_the_component_and_every_setting_of_code() {
        let settings = |wasm_stack| CodeSettings {
            wasm_stack,
            count_fuel: false,
        };
        let engine = |nan| {
            let mut config = code_config(settings(1 << 19));
            config.cranelift_nan_canonicalization(nan);
            Engine::new(&config).expect("an engine")
        };
        let (component, other) = (Digest::of(b"a"), Digest::of(b"b"));
        let entry = CodeCache::entry(component, &engine(true), settings(1));
        assert_eq!(
            entry,
            CodeCache::entry(component, &engine(true), settings(1))
        );
        assert_ne!(
            entry,
            CodeCache::entry(component, &engine(false), settings(1))
        );
        assert_ne!(
            entry,
            CodeCache::entry(component, &engine(true), settings(2))
        );
        assert_ne!(entry, CodeCache::entry(other, &engine(true), settings(1)));
    }
}
