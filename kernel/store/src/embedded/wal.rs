//! Makes the write-ahead log durable: one thread, one sync for all who wait.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::oneshot;

use super::EmbeddedError;

type Outcome = Result<(), Arc<io::Error>>;

/// File times advance in steps (up to 10 ms), so a change right after another may not show.
/// A segment is therefore synced every round until a round began this long after the last
/// change that did show.
const SETTLED: Duration = Duration::from_secs(1);

/// The syncing thread; it ends when this is dropped.
pub(super) struct WalSync {
    requests: Sender<oneshot::Sender<Outcome>>,
    progress: Arc<Mutex<Progress>>,
}

/// How much log the next recovery would replay.
struct Progress {
    base: SystemTime,
    segments: usize,
}

impl WalSync {
    /// Starts the thread that syncs the segments in `dir`.
    pub(super) fn start(dir: &Path) -> Result<Self, EmbeddedError> {
        let (requests, queue) = mpsc::channel();
        let progress = Arc::new(Mutex::new(Progress {
            base: SystemTime::now(),
            segments: 0,
        }));
        let segments = Segments::new(dir, Arc::clone(&progress));
        thread::Builder::new()
            .name("halofy-wal-sync".to_owned())
            .spawn(move || serve(segments, &queue))
            .map_err(EmbeddedError::io("starting the log sync for", dir))?;
        Ok(Self { requests, progress })
    }

    /// Returns once a sync that began after this call is done.
    pub(super) async fn sync(&self) -> Result<(), EmbeddedError> {
        Self::outcome(self.request().await)
    }

    /// [`Self::sync`] for a plain thread.
    pub(super) fn sync_blocking(&self) -> Result<(), EmbeddedError> {
        Self::outcome(self.request().blocking_recv())
    }

    /// How many segments were written to between [`Self::new_base`] and the latest sync.
    pub(super) fn segments_since_base(&self) -> usize {
        self.progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .segments
    }

    /// Starts the count of [`Self::segments_since_base`] afresh.
    pub(super) fn new_base(&self) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Progress {
            base: SystemTime::now(),
            segments: 0,
        };
    }

    fn request(&self) -> oneshot::Receiver<Outcome> {
        let (reply, answer) = oneshot::channel();
        // When the thread is gone the reply is dropped, which `outcome` reports.
        let _ = self.requests.send(reply);
        answer
    }

    fn outcome(answer: Result<Outcome, oneshot::error::RecvError>) -> Result<(), EmbeddedError> {
        answer
            .unwrap_or_else(|_| Err(Arc::new(io::Error::other("the sync thread has ended"))))
            .map_err(EmbeddedError::Sync)
    }
}

fn serve(mut segments: Segments, queue: &Receiver<oneshot::Sender<Outcome>>) {
    let mut outcome: Outcome = Ok(());
    while let Ok(first) = queue.recv() {
        // All of these were asked for, and so committed, before the sync below begins.
        let waiting: Vec<_> = iter::once(first).chain(queue.try_iter()).collect();
        if outcome.is_ok() {
            // After a failed sync the kernel may drop the dirty pages and report success
            // next time, so a failure is kept for good.
            outcome = segments.sync().map_err(Arc::new);
        }
        for reply in waiting {
            let _ = reply.send(outcome.clone());
        }
    }
}

/// What the last round knew about one segment file.
struct Seen {
    modified: SystemTime,
    changed: Instant,
    settled: bool,
}

struct Segments {
    dir: PathBuf,
    seen: BTreeMap<String, Seen>,
    progress: Arc<Mutex<Progress>>,
}

impl Segments {
    fn new(dir: &Path, progress: Arc<Mutex<Progress>>) -> Self {
        Self {
            dir: dir.to_path_buf(),
            seen: BTreeMap::new(),
            progress,
        }
    }

    /// Syncs every segment that may have changed since the last round, and the directory
    /// when a name appeared or went.
    fn sync(&mut self) -> io::Result<()> {
        let began = Instant::now();
        let renamed = self.look(began)?;
        for (name, seen) in &mut self.seen {
            if !seen.settled {
                File::open(self.dir.join(name))?.sync_data()?;
                seen.settled = began.duration_since(seen.changed) >= SETTLED;
            }
        }
        if renamed {
            File::open(&self.dir)?.sync_all()?;
        }
        Ok(())
    }

    /// Notes which segments changed; whether the set of names did.
    fn look(&mut self, now: Instant) -> io::Result<bool> {
        let mut renamed = false;
        let mut present = BTreeMap::new();
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            let Some(name) = entry
                .file_name()
                .to_str()
                .filter(|name| is_segment(name))
                .map(str::to_owned)
            else {
                continue;
            };
            let modified = entry.metadata()?.modified()?;
            let before = self.seen.remove(&name);
            renamed |= before.is_none();
            let unchanged = before.filter(|seen| seen.modified == modified);
            let seen = unchanged.unwrap_or(Seen {
                modified,
                changed: now,
                settled: false,
            });
            present.insert(name, seen);
        }
        renamed |= !self.seen.is_empty();
        self.seen = present;
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        // A recycled segment gets a new name but keeps its time until it is written to.
        progress.segments = self
            .seen
            .values()
            .filter(|seen| seen.modified > progress.base)
            .count();
        Ok(renamed)
    }
}

/// Segment files are named by 24 hexadecimal digits: timeline, log, segment.
pub(super) fn is_segment(name: &str) -> bool {
    name.len() == 24 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
