//! A relay between the command and a kernel: it keeps what passes, and can go away in
//! the middle of an import.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use halofy_tests::Kernel;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(super) struct Relay {
    pub(super) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    kernel: String,
    client: reqwest::Client,
    bodies: Mutex<Vec<Value>>,
    /// Calls that are still let through.
    passes: AtomicUsize,
}

impl Relay {
    pub(super) async fn before(kernel: &Kernel) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let shared = Arc::new(Shared {
            kernel: kernel.base.clone(),
            client: reqwest::Client::new(),
            bodies: Mutex::default(),
            passes: AtomicUsize::new(usize::MAX),
        });
        let served = shared.clone();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(served.clone().serve(connection));
            }
        });
        Self { url, shared }
    }

    /// Lets so many calls through and drops the connection of each later one.
    pub(super) fn pass(&self, calls: usize) {
        self.shared.passes.store(calls, Ordering::SeqCst);
    }

    /// The bodies that passed since the last time, as the command sent them.
    pub(super) fn bodies(&self) -> Vec<Value> {
        std::mem::take(&mut self.shared.bodies.lock().expect("not poisoned"))
    }
}

impl Shared {
    async fn serve(self: Arc<Self>, mut connection: TcpStream) {
        let Some((head, body)) = request(&mut connection).await else {
            return;
        };
        let one_less = |passes: usize| passes.checked_sub(1);
        let left = self
            .passes
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        if left.is_err() {
            return;
        }
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        self.bodies.lock().expect("not poisoned").push(body.clone());
        let (status, answer) = self.forward(&head, &body).await;
        let answer = answer.to_string();
        let head = format!(
            "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n",
            answer.len()
        );
        connection
            .write_all((head + &answer).as_bytes())
            .await
            .expect("the command listens");
    }

    async fn forward(&self, head: &str, body: &Value) -> (u16, Value) {
        let path = head.split(' ').nth(1).expect("a path");
        let mut request = self
            .client
            .post(format!("{}{path}", self.kernel))
            .json(body);
        for line in head.lines() {
            if let Some((name, key)) = line.split_once(": ")
                && name.eq_ignore_ascii_case("authorization")
            {
                request = request.header("authorization", key);
            }
        }
        let response = request.send().await.expect("the kernel answers");
        let status = response.status().as_u16();
        (status, response.json().await.expect("JSON"))
    }
}

/// The head and the body of a request; nothing if the client went away.
async fn request(connection: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
            let length = head.to_lowercase();
            let length = length.split_once("content-length: ").expect("a length").1;
            let length: usize = length.lines().next()?.trim().parse().expect("a number");
            if bytes.len() >= end + 4 + length {
                return Some((head, bytes[end + 4..end + 4 + length].to_vec()));
            }
        }
        if connection.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
