//! An HTTP server on the loopback interface that answers from a script and remembers what
//! it was asked. For the tests of this crate.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the server does with the next request.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Send(&'static str, Vec<(&'static str, String)>, String),
    Hang,
    /// A good status, and then a body without an end.
    Flood,
    /// Closes the connection.
    Close,
    /// A good status and half a body, then the end of the connection.
    Half,
}

pub(crate) fn reply(status: &'static str, body: impl ToString) -> Reply {
    Reply::Send(status, vec![], body.to_string())
}

pub(crate) struct Server {
    pub(crate) base_url: String,
    /// Head and body of each request.
    seen: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Server {
    /// Serves one request a connection, as scripted in the order of the connections, on a
    /// free port.
    pub(crate) async fn start(script: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let address = listener.local_addr().expect("bound");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&seen);
        tokio::spawn(async move {
            for reply in script {
                let (stream, _) = listener.accept().await.expect("accepts");
                // One that hangs must not keep the next request waiting.
                tokio::spawn(serve(stream, reply, Arc::clone(&log)));
            }
        });
        Self {
            base_url: format!("http://{address}/v1"),
            seen,
        }
    }

    /// Head and body of each request so far.
    pub(crate) fn requests(&self) -> Vec<(String, Value)> {
        self.seen.lock().expect("not poisoned").clone()
    }
}

async fn serve(mut stream: TcpStream, reply: Reply, log: Arc<Mutex<Vec<(String, Value)>>>) {
    let request = read_request(&mut stream).await;
    log.lock().expect("not poisoned").push(request);
    match reply {
        Reply::Send(status, headers, body) => {
            let length = body.len();
            let headers: String = headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}\r\n"))
                .collect();
            let head = format!(
                "HTTP/1.1 {status}\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n"
            );
            let message = head + &body;
            stream.write_all(message.as_bytes()).await.expect("writes");
        }
        Reply::Hang => {
            // Until the client gives up.
            let _ = stream.read(&mut [0]).await;
        }
        Reply::Flood => {
            let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
            stream.write_all(head).await.expect("writes");
            while stream.write_all(&[b' '; 8192]).await.is_ok() {}
        }
        Reply::Close => {}
        Reply::Half => {
            let part = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"choices\":[";
            stream.write_all(part).await.expect("writes");
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> (String, Value) {
    let mut bytes = Vec::new();
    let end = loop {
        stream.read_buf(&mut bytes).await.expect("reads");
        if let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") {
            break end;
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).expect("ASCII");
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .expect("a length")
        .parse()
        .expect("a number");
    while bytes.len() < end + 4 + length {
        stream.read_buf(&mut bytes).await.expect("reads");
    }
    let body = serde_json::from_slice(&bytes[end + 4..]).expect("JSON");
    (head, body)
}
