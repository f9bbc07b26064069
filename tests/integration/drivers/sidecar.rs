//! An engine out of process as a driver: it reorders what it was sent, and when it is gone
//! the baseline serves.

use halofy_gate::Sidecar;
use halofy_tests::{Kernel, Role};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{audited, served_by};

const NOTES: [&str; 3] = [
    "The lighthouse keeper repairs brass sextants.",
    "The lighthouse keeper keeps bees behind the lighthouse.",
    "The ferry sails at noon.",
];

/// A real HTTP server that puts the longest content first.
async fn longest_first() -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    (url, serving)
}

async fn answer(mut stream: TcpStream) {
    let mut received = Vec::new();
    let body = loop {
        let mut buffer = [0; 16 * 1024];
        let read = stream.read(&mut buffer).await.unwrap_or(0);
        if read == 0 {
            return;
        }
        received.extend(&buffer[..read]);
        let text = String::from_utf8_lossy(&received).to_string();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_ascii_lowercase();
        let length = head.split("content-length: ").nth(1);
        let length = length.and_then(|rest| rest.lines().next());
        if Some(body.len()) == length.and_then(|text| text.parse().ok()) {
            break body.to_owned();
        }
    };
    let asked: Value = serde_json::from_str(&body).expect("a plan");
    let candidates = asked["candidates"].as_array().expect("candidates");
    let score = |candidate: &Value| candidate["content"].as_str().map_or(0, str::len);
    let refs: Vec<Value> = candidates
        .iter()
        .map(|candidate| json!({ "ref": candidate["ref"], "score": score(candidate) }))
        .chain([json!({ "ref": "forged", "score": 1_000_000 })])
        .collect();
    let body = json!({ "refs": refs }).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        body.len()
    );
    drop(stream.write_all((head + &body).as_bytes()).await);
}

#[tokio::test]
async fn a_sidecar_reorders_what_it_was_sent_and_the_baseline_serves_when_it_is_gone() {
    let (url, serving) = longest_first().await;
    let sidecar = Sidecar::new("mem0".parse().expect("a name"), Some(&url));
    let kernel = Kernel::with()
        .sidecar(sidecar.expect("a sidecar"))
        .start()
        .await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    let stranger = kernel.key("other", "user:v", Role::Agent).await;
    for note in NOTES {
        caller.write(note).await.expect_status(200);
    }
    let secret = "The lighthouse keeper of another tenant hides gold in a very long sentence.";
    stranger.write(secret).await.expect_status(200);
    kernel.policy("acme", json!({ "retriever": "mem0" })).await;
    let found = caller.search("lighthouse keeper").await.expect_status(200);
    assert_eq!(served_by(&found.body), ("mem0", None));
    assert_eq!(found.contents(), [NOTES[1], NOTES[0], NOTES[2]]);
    assert_eq!(audited(&kernel, "search", "driver").await, "mem0");
    serving.abort();
    let mut reasons = Vec::new();
    for _ in 0..4 {
        let found = caller.search("lighthouse keeper").await.expect_status(200);
        let (driver, reason) = served_by(&found.body);
        assert_eq!(driver, "baseline");
        reasons.push(reason.expect("a reason").to_owned());
    }
    assert_eq!(reasons[0], "sidecar_transport");
    assert_eq!(
        reasons[3], "sidecar_resting",
        "after three in a row it is left alone"
    );
    assert!(kernel.verify().await.ok);
}
