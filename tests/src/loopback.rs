//! A real HTTP server on the loopback interface, for services that a test plays: one
//! request a connection, answered by a closure.
//!
//! It runs on a thread of its own, so that it answers while a test blocks, and is gone
//! when it is dropped.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

/// The server.
pub(crate) struct Loopback {
    /// `127.0.0.1:` and its port.
    pub(crate) address: String,
    runtime: Option<Runtime>,
}

impl Loopback {
    /// One that answers each request's body with a status and a body, or closes the
    /// connection.
    ///
    /// # Panics
    /// When it cannot listen.
    pub(crate) fn start<F, Fut>(answer: F) -> Self
    where
        F: Fn(String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<(u16, String)>> + Send,
    {
        let mut runtime = Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        listener.set_nonblocking(true).expect("a socket");
        let answer = Arc::new(answer);
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a socket");
            while let Ok((stream, _)) = listener.accept().await {
                let answer = answer.clone();
                tokio::spawn(async move { serve(stream, &*answer).await });
            }
        });
        Self {
            address,
            runtime: Some(runtime),
        }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // A runtime that waits for its tasks must not be dropped inside another one.
            runtime.shutdown_background();
        }
    }
}

/// A client that goes away is none of its business.
async fn serve<Fut>(mut stream: TcpStream, answer: &(impl Fn(String) -> Fut + Sync))
where
    Fut: Future<Output = Option<(u16, String)>> + Send,
{
    let Some(body) = read_body(&mut stream).await else {
        return;
    };
    if let Some((status, body)) = answer(body).await {
        let length = body.len();
        let message = format!(
            "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\n\
             connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        drop(stream.write_all(message.as_bytes()).await);
    }
}

async fn read_body(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = std::str::from_utf8(&bytes[..end])
            .ok()?
            .to_ascii_lowercase();
        let mut lines = head.lines();
        let length = lines.find_map(|line| line.strip_prefix("content-length:"))?;
        let length: usize = length.trim().parse().ok()?;
        if let Some(body) = bytes.get(end + 4..end + 4 + length) {
            return String::from_utf8(body.to_vec()).ok();
        }
    }
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
