//! An HTTP server on the loopback interface that plays a sidecar by a script and remembers
//! what it was asked. For the tests of this folder.

use std::sync::{Arc, Mutex};

use halofy_core::DriverName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::Sidecar;

/// What the server does with the next request.
pub(super) enum Step {
    /// A good status, and the body that this makes of the request's.
    Answer(fn(&Value) -> String),
    /// Status line, one more header line, body.
    Send(&'static str, String, String),
    /// Nothing, until the client gives up.
    Hang,
    /// A good status and half a body, then nothing until the client gives up.
    Stall,
    /// A good status, then a body without an end.
    Flood,
    /// Closes the connection.
    Close,
}

/// Head and body of a request.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) head: String,
    pub(super) body: Value,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(": "));
        headers.find_map(|(found, value)| (found == name).then_some(value))
    }
}

pub(super) struct ScriptedSidecar {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl ScriptedSidecar {
    /// Serves one request a connection, as scripted, on a free port.
    pub(super) async fn start(script: Vec<Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            for step in script {
                let (stream, _) = listener.accept().await.expect("accepts");
                serve(stream, step, &log).await;
            }
        });
        Self { url, asked }
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("not poisoned").clone()
    }

    /// The kernel's half of it.
    pub(super) fn driver(&self) -> Sidecar {
        let name = DriverName::parse("mem0").expect("a name");
        Sidecar::new(name, Some(&self.url)).expect("a usable URL")
    }
}

/// The refs that were sent, in order.
pub(super) fn refs(request: &Value) -> Vec<Value> {
    let candidates = request["candidates"].as_array().expect("candidates");
    candidates.iter().map(|it| it["ref"].clone()).collect()
}

/// The last one sent is best.
pub(super) fn reversed(request: &Value) -> String {
    let scored = refs(request).into_iter().enumerate();
    let scored: Vec<Value> = scored
        .map(|(at, reference)| json!({"ref": reference, "score": at}))
        .collect();
    json!({ "refs": scored }).to_string()
}

async fn serve(mut stream: TcpStream, step: Step, log: &Mutex<Vec<Asked>>) {
    let asked = read_request(&mut stream).await;
    log.lock().expect("not poisoned").push(asked.clone());
    match step {
        Step::Answer(answer) => {
            let body = answer(&asked.body);
            write(&mut stream, "200 OK", "", body.len(), &body).await;
        }
        Step::Send(status, header, body) => {
            write(&mut stream, status, &header, body.len(), &body).await;
        }
        Step::Hang => given_up(&mut stream).await,
        Step::Stall => {
            write(&mut stream, "200 OK", "", 100, "{\"refs\":").await;
            given_up(&mut stream).await;
        }
        Step::Flood => {
            let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
            stream.write_all(head).await.expect("writes");
            while stream.write_all(&[b' '; 8192]).await.is_ok() {}
        }
        Step::Close => {}
    }
}

async fn given_up(stream: &mut TcpStream) {
    // Nothing more is sent, so this ends when the client closes.
    let _ = stream.read(&mut [0]).await;
}

async fn write(stream: &mut TcpStream, status: &str, header: &str, length: usize, body: &str) {
    let message = format!(
        "HTTP/1.1 {status}\r\n{header}connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(message.as_bytes()).await.expect("writes");
}

async fn read_request(stream: &mut TcpStream) -> Asked {
    let mut bytes = Vec::new();
    let end = loop {
        stream.read_buf(&mut bytes).await.expect("reads");
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).expect("ASCII");
    let mut asked = Asked {
        head,
        body: Value::Null,
    };
    if let Some(length) = asked.header("content-length") {
        let length: usize = length.parse().expect("a number");
        while bytes.len() < end + 4 + length {
            stream.read_buf(&mut bytes).await.expect("reads");
        }
        asked.body = serde_json::from_slice(&bytes[end + 4..]).expect("JSON");
    }
    asked
}
