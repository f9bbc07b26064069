//! A load of many callers: each a keep-alive connection that asks again as soon as
//! it is answered. Plain bytes, so that the client costs little of the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Rate and latency of one load.
pub(crate) struct Measured {
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

/// One keep-alive connection.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("no delay");
        let buffer = vec![0; 256 * 1024];
        Self { stream, buffer }
    }

    /// Sends a request and reads its answer; anything but 200 is a failure.
    pub(crate) async fn ask(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.expect("sent");
        let mut filled = 0;
        loop {
            let read = self
                .stream
                .read(&mut self.buffer[filled..])
                .await
                .expect("an answer");
            assert!(read > 0, "the kernel hung up");
            filled += read;
            let Some(end) = find(&self.buffer[..filled], b"\r\n\r\n") else {
                continue;
            };
            let head = std::str::from_utf8(&self.buffer[..end])
                .expect("a head")
                .to_ascii_lowercase();
            assert!(head.starts_with("http/1.1 200"), "{head}");
            let length = head
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.lines().next());
            let length: usize = length.and_then(|text| text.parse().ok()).expect("a length");
            if filled >= end + 4 + length {
                return;
            }
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

/// Runs `callers` tasks for `time`; `work` does one unit and is told which.
pub(crate) async fn drive<F, W, S>(callers: usize, time: Duration, start: S) -> Measured
where
    S: Fn(usize) -> F,
    F: Future<Output = W> + Send + 'static,
    W: Work + 'static,
{
    let turn = Arc::new(AtomicUsize::new(0));
    let mut workers = Vec::new();
    for caller in 0..callers {
        workers.push(start(caller).await);
    }
    let began = Instant::now();
    let tasks: Vec<_> = workers
        .into_iter()
        .map(|mut worker| {
            let turn = turn.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                while began.elapsed() < time {
                    let at = Instant::now();
                    worker.once(turn.fetch_add(1, Ordering::Relaxed)).await;
                    times.push(at.elapsed());
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.expect("a caller"));
    }
    let elapsed = began.elapsed().as_secs_f64();
    times.sort_unstable();
    let at = |percent: usize| times[times.len() * percent / 100].as_secs_f64() * 1e3;
    Measured {
        per_second: times.len() as f64 / elapsed,
        p50_ms: at(50),
        p99_ms: at(99),
    }
}

/// What a caller does again and again.
pub(crate) trait Work: Send {
    /// The `turn`th unit of the whole load.
    fn once(&mut self, turn: usize) -> impl Future<Output = ()> + Send;
}
