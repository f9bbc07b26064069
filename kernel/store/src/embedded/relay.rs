//! Runs the engine and stands between it and the one client.
//! The engine's server ends for good when a client leaves before its answer is written, or
//! when the backend traps. The relay takes every answer on behalf of a client that left,
//! starts the engine again when it ended, and secures the base before a client may write.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use pglite_oxide::{PgliteServer, extensions};

use super::EmbeddedError;
use super::base::{self, Base};
use super::wal::WalSync;

/// Names the client's socket the way PostgreSQL clients expect: `.s.PGSQL.<port>`.
pub(super) const PORT: u16 = 5432;
const CLIENT_SOCKET: &str = ".s.PGSQL.5432";
const ENGINE_SOCKET: &str = ".s.PGSQL.5433";
pub(super) const LONGEST_SOCKET_NAME: &str = ENGINE_SOCKET;

/// Written by the engine into a cluster that only holds the files it changed, over a
/// template in the cache directory.
const OVERLAY_MANIFEST: &str = ".pglite-oxide-pgdata-overlay.json";
/// Left out of a template's copy: they describe a running server.
const RUN_TIME_FILES: [&str; 2] = ["postmaster.pid", "postmaster.opts"];

/// Makes the cluster below `root` when there is none, complete and on disk.
///
/// The engine would copy each template file when it is first opened, unsynced and unlogged,
/// which a power cut could tear; and it would refuse the cluster once its template changes.
/// So the template is copied whole, once, and the overlay ended.
pub(super) fn prepare_cluster(
    root: &Path,
    cache: &Path,
    sockets: &Path,
) -> Result<(), EmbeddedError> {
    let cluster = root.join(base::CLUSTER);
    let manifest = cluster.join(OVERLAY_MANIFEST);
    if cluster.join("global/pg_control").exists() && !manifest.exists() {
        return Ok(());
    }
    // Unpacks the engine and writes the manifest; no backend runs before a client connects.
    stop_engine(start_engine(root, sockets)?)?;
    copy_tree(&template(cache, &manifest)?, &cluster)
        .and_then(|()| base::sync_file_system(&File::open(root)?, root))
        .and_then(|()| fs::remove_file(&manifest))
        .map_err(EmbeddedError::io("making the cluster", &cluster))
}

/// The template directory the manifest names by the digest of its archive.
fn template(cache: &Path, manifest: &Path) -> Result<PathBuf, EmbeddedError> {
    let text = fs::read(manifest).map_err(EmbeddedError::io("reading", manifest))?;
    let json: serde_json::Value = serde_json::from_slice(&text)
        .map_err(|error| EmbeddedError::Engine(format!("{}: {error}", manifest.display())))?;
    json["templateArchiveSha256"]
        .as_str()
        .map(|digest| cache.join("pgdata-template/v2").join(digest).join("base"))
        .ok_or_else(|| EmbeddedError::Engine(format!("{} names no template", manifest.display())))
}

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else if !RUN_TIME_FILES.iter().any(|name| entry.file_name() == *name) {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The engine may not start inside an async runtime's thread, hence the plain one.
fn start_engine(root: &Path, sockets: &Path) -> Result<PgliteServer, EmbeddedError> {
    let builder = PgliteServer::builder()
        .path(root)
        .extension(extensions::VECTOR)
        .unix(sockets.join(ENGINE_SOCKET))
        .postgres_config("wal_level", "replica")
        .postgres_config("full_page_writes", "on")
        .postgres_config("synchronous_commit", "on")
        .postgres_config("wal_keep_size", format!("{}MB", base::WAL_KEEP_MB));
    thread::spawn(move || builder.start())
        .join()
        .map_err(|_| EmbeddedError::Engine("panicked while starting".to_owned()))?
        .map_err(|error| EmbeddedError::Engine(format!("{error:#}")))
}

fn stop_engine(engine: PgliteServer) -> Result<(), EmbeddedError> {
    engine
        .shutdown()
        .map_err(|error| EmbeddedError::Engine(format!("{error:#}")))
}

/// The running engine behind its listening thread.
pub(super) struct Relay {
    thread: JoinHandle<Result<(), EmbeddedError>>,
    shared: Arc<Shared>,
    socket: PathBuf,
}

/// What stopping needs to reach while the thread is busy.
struct Shared {
    stopping: AtomicBool,
    client: Mutex<Option<UnixStream>>,
}

impl Relay {
    /// Starts the engine on `root` and listens in `sockets`.
    pub(super) fn start(
        root: PathBuf,
        sockets: PathBuf,
        base: Arc<Base>,
        wal: Arc<WalSync>,
    ) -> Result<Self, EmbeddedError> {
        let engine = start_engine(&root, &sockets)?;
        let socket = sockets.join(CLIENT_SOCKET);
        let listener =
            UnixListener::bind(&socket).map_err(EmbeddedError::io("listening on", &socket))?;
        let shared = Arc::new(Shared {
            stopping: AtomicBool::new(false),
            client: Mutex::new(None),
        });
        let worker = Worker {
            root,
            sockets,
            base,
            wal,
            shared: Arc::clone(&shared),
            engine: Some(engine),
        };
        let thread = thread::Builder::new()
            .name("halofy-postgres".to_owned())
            .spawn(move || worker.serve(&listener))
            .map_err(EmbeddedError::io("starting the thread for", &socket))?;
        Ok(Self {
            thread,
            shared,
            socket,
        })
    }

    /// Ends the open connection and the engine; returns when both have ended.
    pub(super) fn stop(self) -> Result<(), EmbeddedError> {
        self.shared.stopping.store(true, Ordering::SeqCst);
        if let Some(client) = self.shared.client().take() {
            let _ = client.shutdown(Shutdown::Both);
        }
        // Wakes the thread when it waits for a client.
        let _ = UnixStream::connect(&self.socket);
        self.thread
            .join()
            .unwrap_or_else(|_| Err(EmbeddedError::Engine("the relay panicked".to_owned())))
    }
}

impl Shared {
    fn client(&self) -> std::sync::MutexGuard<'_, Option<UnixStream>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Worker {
    root: PathBuf,
    sockets: PathBuf,
    base: Arc<Base>,
    wal: Arc<WalSync>,
    shared: Arc<Shared>,
    engine: Option<PgliteServer>,
}

impl Worker {
    fn serve(mut self, listener: &UnixListener) -> Result<(), EmbeddedError> {
        for client in listener.incoming() {
            if self.shared.stopping.load(Ordering::SeqCst) {
                break;
            }
            // The client sees its connection end; the next one finds the engine restarted.
            if let Err(error) = client
                .map_err(EmbeddedError::io("accepting on", &self.sockets))
                .and_then(|client| self.connect(client))
            {
                tracing::error!(%error, "a connection to the embedded database failed");
            }
        }
        self.engine.take().map_or(Ok(()), stop_engine)
    }

    /// Carries one connection from its first byte to the end of its backend.
    fn connect(&mut self, client: UnixStream) -> Result<(), EmbeddedError> {
        let io = |error| EmbeddedError::io("relaying in", &self.sockets)(error);
        *self.shared.client() = Some(client.try_clone().map_err(io)?);
        // `stop` may have looked for a client just before this one was there to be found.
        if self.shared.stopping.load(Ordering::SeqCst) {
            return Ok(());
        }
        let engine = self.engine_stream()?;
        let io = |error| EmbeddedError::io("relaying in", &self.sockets)(error);
        let mut requests = (
            client.try_clone().map_err(io)?,
            engine.try_clone().map_err(io)?,
        );
        let forward = thread::spawn(move || {
            let _ = io::copy(&mut requests.0, &mut requests.1);
            // The backend finishes the statement at hand, rolls back and ends.
            let _ = requests.1.shutdown(Shutdown::Write);
        });
        let outcome = self.answer(engine, &client);
        let _ = client.shutdown(Shutdown::Both);
        self.shared.client().take();
        let _ = forward.join();
        outcome
    }

    /// Carries the answers until the backend has ended, even when nobody takes them.
    fn answer(&self, mut engine: UnixStream, mut client: &UnixStream) -> Result<(), EmbeddedError> {
        let mut buffer = [0_u8; 64 * 1024];
        let (mut first, mut client_left) = (true, false);
        loop {
            let length = match engine.read(&mut buffer) {
                Ok(0) | Err(_) => return Ok(()),
                Ok(length) => length,
            };
            if first {
                // The backend has started, and recovered; the client cannot have written yet.
                self.base.secure(&self.wal)?;
                first = false;
            }
            client_left = client_left || client.write_all(&buffer[..length]).is_err();
        }
    }

    /// A connection to the engine, which is started again when it has ended.
    fn engine_stream(&mut self) -> Result<UnixStream, EmbeddedError> {
        let socket = self.sockets.join(ENGINE_SOCKET);
        if let Ok(stream) = UnixStream::connect(&socket) {
            return Ok(stream);
        }
        if let Some(Err(error)) = self.engine.take().map(stop_engine) {
            tracing::warn!(%error, "the embedded database ended; starting it again");
        }
        self.base
            .restore()
            .map_err(EmbeddedError::io("restoring the base in", &self.root))?;
        self.engine = Some(start_engine(&self.root, &self.sockets)?);
        UnixStream::connect(&socket).map_err(EmbeddedError::io("connecting to", &socket))
    }
}
