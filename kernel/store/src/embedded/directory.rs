//! Where the embedded database keeps its lock, its socket and the engine's cache.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{EmbeddedError, relay};

/// `sockaddr_un.sun_path` holds 108 bytes on Linux and 104 on the BSDs and macOS, with the
/// terminating zero.
const SOCKET_PATH_MAX: usize = 103;

/// Makes `dir` when missing and takes its lock; returns its absolute path and the lock.
pub(super) fn open(dir: &Path) -> Result<(PathBuf, File), EmbeddedError> {
    make_private(dir)?;
    let dir = dir
        .canonicalize()
        .map_err(EmbeddedError::io("resolving", dir))?;
    let path = dir.join("lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(EmbeddedError::io("opening", &path))?;
    match file.try_lock() {
        Ok(()) => Ok((dir, file)),
        Err(TryLockError::WouldBlock) => Err(EmbeddedError::AlreadyRunning { dir }),
        Err(TryLockError::Error(source)) => Err(EmbeddedError::io("locking", &path)(source)),
    }
}

/// Makes a directory (and its parents) only this user can enter; an existing one is kept.
fn make_private(dir: &Path) -> Result<(), EmbeddedError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(EmbeddedError::io("creating", dir))
}

/// The engine's own cache directory, which it takes from `XDG_CACHE_HOME` or the home
/// directory and cannot be told otherwise; checked here because it must be writable.
pub(super) fn writable_cache() -> Result<PathBuf, EmbeddedError> {
    let path = cache_home()
        .map(|home| home.join("pglite-oxide"))
        .ok_or_else(|| EmbeddedError::Cache {
            path: PathBuf::from("~/.cache"),
            source: io::Error::new(io::ErrorKind::NotFound, "no home directory"),
        })?;
    let probe = || {
        fs::create_dir_all(&path)?;
        let file = path.join(format!(".halofy-{}", std::process::id()));
        File::create(&file)?;
        match fs::remove_file(&file) {
            // Another database of this process is at the same probe.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    };
    match probe() {
        Ok(()) => Ok(path),
        Err(source) => Err(EmbeddedError::Cache { path, source }),
    }
}

/// Gives the engine a cache it can write: when the user's cannot be written, replaces this
/// process by itself with `XDG_CACHE_HOME` set to `dir/cache`. To be called first in `main`,
/// before any thread and before [`super::Embedded::start`]; returns when there is no need.
///
/// # Errors
/// [`EmbeddedError::Cache`] when `dir/cache` cannot be written either.
pub fn relocate_cache(dir: &Path) -> Result<(), EmbeddedError> {
    let Err(unwritable) = writable_cache() else {
        return Ok(());
    };
    make_private(dir)?;
    let cache = dir
        .canonicalize()
        .map_err(EmbeddedError::io("resolving", dir))?
        .join("cache");
    if std::env::var_os("XDG_CACHE_HOME").is_some_and(|home| home == cache) {
        return Err(unwritable);
    }
    let program = std::env::current_exe().map_err(EmbeddedError::io("finding", dir))?;
    let error = Command::new(&program)
        .args(std::env::args_os().skip(1))
        .env("XDG_CACHE_HOME", cache)
        .exec();
    Err(EmbeddedError::io("executing", &program)(error))
}

fn cache_home() -> Option<PathBuf> {
    std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
        .filter(|path| path.is_absolute())
}

/// The directory of the sockets, mode 0700: `dir/run`, or, when that path is too long for a
/// socket, a fresh private one under the runtime or temporary directory that `dir/run`
/// then points to. Leftovers of a killed process are removed.
pub(super) fn socket_dir(dir: &Path) -> Result<PathBuf, EmbeddedError> {
    let run = dir.join("run");
    remove_leftover(&run);
    if fits(&run) {
        make_private(&run)?;
        return Ok(run);
    }
    let parent = std::env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|path| path.is_dir() && fits(&path.join("halofy-4294967295-999")))
        .unwrap_or_else(|| PathBuf::from("/tmp"));
    let short = make_short(&parent)?;
    symlink(&short, &run).map_err(EmbeddedError::io("linking", &run))?;
    Ok(short)
}

/// A new directory with a name nobody else holds: `create` fails on one that exists.
fn make_short(parent: &Path) -> Result<PathBuf, EmbeddedError> {
    let mut attempt = 0;
    loop {
        let path = parent.join(format!("halofy-{}-{attempt}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 999 => {
                attempt += 1
            }
            Err(error) => return Err(EmbeddedError::io("creating", &path)(error)),
        }
    }
}

fn fits(dir: &Path) -> bool {
    dir.join(relay::LONGEST_SOCKET_NAME)
        .as_os_str()
        .as_bytes()
        .len()
        <= SOCKET_PATH_MAX
}

fn remove_leftover(run: &Path) {
    if let Ok(target) = fs::read_link(run) {
        remove_socket_dir(&target);
        let _ = fs::remove_file(run);
    } else {
        let _ = fs::remove_dir_all(run);
    }
}

/// Removes the socket directory; one that cannot be removed only wastes a name.
pub(super) fn remove_socket_dir(dir: &Path) {
    let _ = fs::remove_dir_all(dir);
}
