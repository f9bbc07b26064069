//! The one thread that advances an engine's epoch. Deadlines belong to stores:
//! nothing here knows about calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wasmtime::Engine;

/// Advances the epoch once a tick until it is dropped.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    beats: AtomicU64,
}

impl Ticker {
    pub(crate) fn start(engine: &Engine, tick: Duration) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (theirs, engine) = (Arc::clone(&shared), engine.clone());
        let thread = thread::Builder::new()
            .name("halofy-epoch".to_owned())
            .spawn(move || {
                while !theirs.stop.load(Ordering::Acquire) {
                    thread::park_timeout(tick);
                    engine.increment_epoch();
                    theirs.beats.fetch_add(1, Ordering::Relaxed);
                }
            })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Ticks so far. Standing still means that no deadline is enforced.
    pub(crate) fn beats(&self) -> u64 {
        self.shared.beats.load(Ordering::Relaxed)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread only counts; a panic of it has nothing to add here.
            let _ = thread.join();
        }
    }
}
