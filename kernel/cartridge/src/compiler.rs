//! Compiling in a process of its own, which can be killed: compilation is not a
//! sandbox, and a small component can keep a compiler busy for minutes. The child's
//! side is in `child.rs`.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

use crate::artefact::Artefact;
use crate::cache::CodeCache;
use crate::child::{GREETING, Order, REFUSED};
use crate::error::LoadError;
use crate::limits::CodeSettings;

/// A vendor reads these words; a compiler's whole trace helps nobody.
const MAX_WORDS: usize = 2_000;

/// How components that nobody vouches for are compiled. A clone shares the one place
/// for a running child.
#[derive(Debug, Clone)]
pub struct Compiler {
    program: PathBuf,
    args: Vec<OsString>,
    cache: Option<Arc<CodeCache>>,
    time: Duration,
    memory: u64,
    threads: usize,
    /// Invariant: one child at a time, so that its limits are the whole kernel's.
    place: Arc<Semaphore>,
}

impl Compiler {
    /// Compiles with `program`, which must call [`compile_child`](crate::compile_child)
    /// when it is started with `args`. At most 120 s, 1 GiB and half of the cores, four
    /// at most; no cache.
    pub fn new<A: Into<OsString>>(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            cache: None,
            time: Duration::from_secs(120),
            memory: 1 << 30,
            threads: (cores / 2).clamp(1, 4),
            place: Arc::new(Semaphore::new(1)),
        }
    }

    /// Compiles with the program that is running now, also when its file was replaced
    /// meanwhile.
    ///
    /// # Errors
    /// When the system does not say which program that is.
    pub fn of_this_program<A: Into<OsString>>(
        args: impl IntoIterator<Item = A>,
    ) -> std::io::Result<Self> {
        let program = match cfg!(target_os = "linux") {
            true => PathBuf::from("/proc/self/exe"),
            false => std::env::current_exe()?,
        };
        Ok(Self::new(program, args))
    }

    /// Keeps machine code in `cache`.
    #[must_use]
    pub fn with_cache(self, cache: CodeCache) -> Self {
        let cache = Some(Arc::new(cache));
        Self { cache, ..self }
    }

    /// The most that one component may take, by the clock; and of processor time, as
    /// much for each thread.
    #[must_use]
    pub fn with_time(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    /// The most memory that one component may take, in bytes.
    #[must_use]
    pub fn with_memory(self, memory: u64) -> Self {
        Self { memory, ..self }
    }

    /// Threads of the child.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        let threads = threads.max(1);
        Self { threads, ..self }
    }

    pub(crate) fn cache(&self) -> Option<&Arc<CodeCache>> {
        self.cache.as_ref()
    }

    /// Compiles `component`. Waits for other compilations first. Dropping the future
    /// kills the child.
    pub(crate) async fn compile(
        &self,
        component: &[u8],
        settings: CodeSettings,
    ) -> Result<Artefact, LoadError> {
        // The semaphore is never closed.
        let _place = self.place.acquire().await;
        let child = self.spawn()?;
        match tokio::time::timeout(self.time, self.converse(child, component, settings)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.too_slow()),
        }
    }

    fn spawn(&self) -> Result<Child, LoadError> {
        Command::new(&self.program)
            .args(&self.args)
            // The kernel's environment holds secrets, and compiling needs none of it.
            .env_clear()
            .env("RAYON_NUM_THREADS", self.threads.to_string())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(broken)
    }

    async fn converse(
        &self,
        mut child: Child,
        component: &[u8],
        settings: CodeSettings,
    ) -> Result<Artefact, LoadError> {
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(LoadError::Compiler("it has no pipes".to_owned()));
        };
        let order = self.order(settings)?;
        let send = async move {
            // A child that has ended says why itself.
            let _ = stdin.write_all(&order).await;
            let _ = stdin.write_all(component).await;
        };
        let most = usize::try_from(self.memory).unwrap_or(usize::MAX);
        let (_, code, words) = tokio::join!(send, drain(stdout, most), drain(stderr, MAX_WORDS));
        let status = child.wait().await.map_err(broken)?;
        let (code, words) = (code.map_err(broken)?, words.map_err(broken)?);
        self.judge(status, &code, &String::from_utf8_lossy(&words))
    }

    fn order(&self, settings: CodeSettings) -> Result<Vec<u8>, LoadError> {
        let order = Order {
            settings,
            memory: self.memory,
            processor_time: self.processor_time(),
        };
        let mut line = serde_json::to_vec(&order).map_err(broken)?;
        line.push(b'\n');
        Ok(line)
    }

    fn processor_time(&self) -> u64 {
        (self.time.as_secs() + 1).saturating_mul(self.threads as u64)
    }

    fn judge(&self, status: ExitStatus, code: &[u8], words: &str) -> Result<Artefact, LoadError> {
        if status.success() {
            return match code.strip_prefix(GREETING) {
                Some(code) if !code.is_empty() => Ok(Artefact::from_our_compiler(code.to_vec())),
                _ => Err(LoadError::Compiler("another program answered".to_owned())),
            };
        }
        let out_of_memory =
            words.contains("memory allocation") || words.contains("allocate memory");
        if out_of_memory {
            let most = self.memory >> 20;
            return Err(LoadError::CompileLimit(format!(
                "it took more than {most} MiB"
            )));
        }
        match (status.code(), status.signal()) {
            (Some(code), _) if code == i32::from(REFUSED) => Err(LoadError::Compile(words.into())),
            (_, Some(signal)) if is_time(signal) => Err(self.too_slow()),
            (_, Some(signal)) => {
                let why = format!("it crashed over this component (signal {signal})");
                Err(LoadError::CompileLimit(why))
            }
            _ => Err(LoadError::Compiler(format!(
                "it ended with {status}: {words}"
            ))),
        }
    }

    fn too_slow(&self) -> LoadError {
        let seconds = self.time.as_secs_f64();
        LoadError::CompileLimit(format!("it took more than {seconds} s"))
    }
}

fn broken(error: impl std::fmt::Display) -> LoadError {
    LoadError::Compiler(error.to_string())
}

/// The signals at the two limits of processor time.
fn is_time(signal: i32) -> bool {
    use rustix::process::Signal;
    [Signal::XCPU, Signal::KILL]
        .map(Signal::as_raw)
        .contains(&signal)
}

/// At most `most` bytes of what comes. More is an error, or cut: whoever asks knows.
async fn drain(pipe: impl AsyncRead + Unpin, most: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.take(most as u64).read_to_end(&mut bytes).await?;
    Ok(bytes)
}
