//! The base: the state that recovery starts from after an unclean stop, known to be on disk.
//! It is a copy of the cluster's control file, made after everything its checkpoint relies
//! on was synced, and removed by a clean stop.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::EmbeddedError;
use super::wal::{WalSync, is_segment};

/// Segments (16 MB each) written since the base after which a checkpoint is due.
pub(super) const CHECKPOINT_SEGMENTS: usize = 4;

/// Log the engine keeps behind its newest checkpoint, in MB. The base's checkpoint may be
/// older than that one, and its log must still be there: four times what makes one due.
pub(super) const WAL_KEEP_MB: u32 = 256;

/// Where the engine puts the cluster below its root.
pub(super) const CLUSTER: &str = "tmp/pglite/base";

/// Size of a control file, and `DB_IN_PRODUCTION` of PostgreSQL's `catalog/pg_control.h`.
const CONTROL_BYTES: usize = 8192;
const IN_PRODUCTION: u32 = 6;
/// Offsets in `ControlFileData`: the state, then the redo point and timeline of the last
/// checkpoint.
const STATE_AT: usize = 16;
const REDO_AT: usize = 40;
const TIMELINE_AT: usize = 48;

pub(super) struct Base {
    root: PathBuf,
    /// Kept open: the kernel reports failed writes of the file system to those who had it open.
    root_dir: File,
    saved: PathBuf,
    /// The engine's cache, while this process may have written it and not yet synced it.
    cache: Mutex<Option<PathBuf>>,
}

impl Base {
    /// `dir` holds the base, `root` is the engine's; `cache` is set when it was made just now.
    pub(super) fn open(dir: &Path, root: &Path, cache: Option<PathBuf>) -> io::Result<Self> {
        Ok(Self {
            root: root.to_path_buf(),
            root_dir: File::open(root)?,
            saved: dir.join("base"),
            cache: Mutex::new(cache),
        })
    }

    pub(super) fn wal_dir(&self) -> PathBuf {
        self.root.join(CLUSTER).join("pg_wal")
    }

    fn control(&self) -> PathBuf {
        self.root.join(CLUSTER).join("global/pg_control")
    }

    /// Puts the base back when the last stop was unclean, so that recovery starts there.
    /// It also does so after a mere `kill -9`, where it costs only some extra replay.
    pub(super) fn restore(&self) -> io::Result<()> {
        let saved = match fs::read(&self.saved) {
            Ok(saved) => saved,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if !self.replayable(&saved)? {
            // Happens only when `checkpoint_due` was ignored for long.
            tracing::error!("the log since the last base is gone; trusting the control file");
            return Ok(());
        }
        write_durably(&self.control(), &saved)
    }

    /// Whether the log still holds the redo point of this control file.
    fn replayable(&self, control: &[u8]) -> io::Result<bool> {
        let (Some(redo), Some(timeline)) = (u64_at(control, REDO_AT), u32_at(control, TIMELINE_AT))
        else {
            return Ok(false);
        };
        for entry in fs::read_dir(self.wal_dir())? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(is_segment) {
                let size = entry.metadata()?.len().max(1);
                return Ok(self
                    .wal_dir()
                    .join(segment_name(timeline, redo, size))
                    .exists());
            }
        }
        Ok(false)
    }

    /// Syncs every file of the cluster and then makes its present control file the base.
    /// The one connection must not checkpoint meanwhile. Blocks.
    pub(super) fn secure(&self, wal: &WalSync) -> Result<(), EmbeddedError> {
        let path = self.control();
        let control = fs::read(&path).map_err(EmbeddedError::io("reading", &path))?;
        if control.len() != CONTROL_BYTES || u32_at(&control, STATE_AT) != Some(IN_PRODUCTION) {
            // Only a control file of a running cluster makes recovery replay the log.
            return Err(EmbeddedError::Engine(
                "the cluster is not in production".to_owned(),
            ));
        }
        wal.sync_blocking()?;
        self.sync_all()?;
        write_durably(&self.saved, &control).map_err(EmbeddedError::io("writing", &self.saved))?;
        wal.new_base();
        Ok(())
    }

    /// After a clean stop: makes the shut-down cluster durable, after which no base is needed.
    pub(super) fn settle(&self) -> Result<(), EmbeddedError> {
        self.sync_all()?;
        match fs::remove_file(&self.saved) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(EmbeddedError::io("removing", &self.saved)(error))
            }
            _ => Ok(()),
        }
    }

    fn sync_all(&self) -> Result<(), EmbeddedError> {
        let mut cache = self
            .cache
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(path) = cache.as_ref() {
            File::open(path)
                .and_then(|dir| sync_file_system(&dir, path))
                .map_err(EmbeddedError::io("syncing", path))?;
        }
        *cache = None;
        sync_file_system(&self.root_dir, &self.root)
            .map_err(EmbeddedError::io("syncing", &self.root))
    }
}

/// Makes everything below the directory `path`, open as `dir`, durable. On Linux that is one
/// `syncfs` of its file system: syncing each of a cluster's thousand files costs a disk flush
/// apiece, changed or not (3.6 s against 15 ms, measured on one machine).
#[cfg(target_os = "linux")]
pub(super) fn sync_file_system(dir: &File, _path: &Path) -> io::Result<()> {
    rustix::fs::syncfs(dir).map_err(io::Error::from)
}

/// See the Linux one; elsewhere file by file.
#[cfg(not(target_os = "linux"))]
pub(super) fn sync_file_system(dir: &File, path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        match File::open(entry.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {} // deleted meanwhile
            file if entry.file_type()?.is_dir() => sync_file_system(&file?, &entry.path())?,
            file => file?.sync_all()?,
        }
    }
    dir.sync_all()
}

/// Replaces `path` so that, whatever happens, it holds the old bytes or the new ones.
fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let staging = path.with_extension("new");
    let mut file = File::create(&staging)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&staging, path)?;
    path.parent()
        .map_or(Ok(()), |parent| File::open(parent)?.sync_all())
}

/// The file name of the segment that holds `lsn` (PostgreSQL's `XLogFileName`).
fn segment_name(timeline: u32, lsn: u64, segment_bytes: u64) -> String {
    let (number, per_log) = (lsn / segment_bytes, (1_u64 << 32) / segment_bytes);
    format!(
        "{timeline:08X}{:08X}{:08X}",
        number / per_log,
        number % per_log
    )
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..at + 4)?
        .try_into()
        .ok()
        .map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..at + 8)?
        .try_into()
        .ok()
        .map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::segment_name;

    #[test]
    fn a_segment_is_named_as_postgres_names_it() {
        // `SELECT pg_walfile_name('2/1570E28')` on a cluster with 16 MB segments.
        assert_eq!(
            segment_name(1, 0x2_0157_0E28, 16 << 20),
            "000000010000000200000001"
        );
    }
}
