//! The kernel is killed in the middle of writing. What it had acknowledged is there
//! afterwards, with one audit row each, in a chain that verifies.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use halofy_tests::{Kernel, Program, Role};
use reqwest::{Client, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use crate::audit::{effects_and_rows_agree, settled};

const ROUNDS: u32 = 20;
const WRITERS: usize = 8;
/// The kernel is killed once it has acknowledged 8 to 47 writes, so that a slow
/// machine tries as much as a fast one, and up to 20 ms later.
const FEWEST: u32 = 8;
const SPREAD: u32 = 40;
const LATER_MS: u32 = 20;

#[tokio::test]
async fn what_was_acknowledged_survives_twenty_kills() {
    let (data, keys) = {
        let kernel = Kernel::start().await;
        let mut keys = Vec::new();
        for writer in 0..WRITERS {
            let actor = format!("agent:writer-{writer}");
            keys.push(kernel.key("acme", &actor, Role::Agent).await.key);
        }
        kernel
            .policy(
                "acme",
                json!({ "rateLimit": { "perSecond": 100_000, "burst": 100_000 } }),
            )
            .await;
        (kernel.stop().await, keys)
    };

    let mut acknowledged = Vec::new();
    for round in 0..ROUNDS {
        let served = Served::start(&super::halofy().on(&data)).await;
        let writers: Vec<_> = keys.iter().map(|key| served.peer(key)).collect();
        read_back(&writers[0], acknowledged.last()).await;
        let count = Arc::new(AtomicU32::new(0));
        let writing: Vec<_> = writers
            .into_iter()
            .enumerate()
            .map(|(at, writer)| tokio::spawn(write_until_it_dies(writer, round, at, count.clone())))
            .collect();
        moment(round, &count).await;
        served.kill().await;
        let mut of_round = Vec::new();
        for writer in writing {
            of_round.extend(writer.await.expect("a writer does not panic"));
        }
        acknowledged.push(of_round);
    }

    let all: Vec<String> = acknowledged.concat();
    let kernel = Kernel::with().on(&data).start().await;
    settled(&kernel).await;
    effects_and_rows_agree(&kernel).await;
    let listed = all
        .iter()
        .map(|id| format!("('{id}')"))
        .collect::<Vec<_>>()
        .join(",");
    let lost = format!(
        "select a.id from (values {listed}) a (id)
          where not exists (select from memory_objects m where m.id = a.id)"
    );
    assert_eq!(
        kernel.sql(lost).await,
        Vec::<Vec<_>>::new(),
        "acknowledged, and not there"
    );
}

/// What the round before acknowledged, over HTTP.
async fn read_back(reader: &Peer, acknowledged: Option<&Vec<String>>) {
    let ids = acknowledged.map(Vec::as_slice).unwrap_or_default();
    for some in ids.chunks(WRITERS) {
        let reads = some
            .iter()
            .map(|id| reader.post("read", json!({ "id": id })));
        for answer in futures_util::future::join_all(reads).await {
            assert_eq!(
                answer.expect("an answer").status(),
                200,
                "acknowledged, and not readable"
            );
        }
    }
}

/// Writes one memory after another, and gives the ids that were acknowledged.
async fn write_until_it_dies(
    writer: Peer,
    round: u32,
    at: usize,
    count: Arc<AtomicU32>,
) -> Vec<String> {
    let mut acknowledged = Vec::new();
    for line in 0.. {
        let content = format!("Writer {at} writes {line} in round {round}.");
        // An answer that breaks off is no acknowledgement.
        let Ok(answer) = writer.post("write", json!({ "content": content })).await else {
            break;
        };
        let status = answer.status();
        let Ok(body) = answer.json::<Value>().await else {
            break;
        };
        assert_eq!(status, 200, "{body}");
        acknowledged.push(body["stored"][0].as_str().expect("an id").to_owned());
        count.fetch_add(1, Ordering::Relaxed);
    }
    acknowledged
}

/// Waits for the moment of the kill: another one each round, the same ones each time
/// the test runs.
async fn moment(round: u32, acknowledged: &AtomicU32) {
    let spread = halofy_retrieval::fnv1a32(&round.to_be_bytes());
    let enough = FEWEST + spread % SPREAD;
    let reached = async {
        while acknowledged.load(Ordering::Relaxed) < enough {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let reached = tokio::time::timeout(Duration::from_secs(60), reached).await;
    reached.expect("the kernel acknowledges writes");
    let later = spread / SPREAD % LATER_MS;
    tokio::time::sleep(Duration::from_millis(later.into())).await;
}

/// `halofy serve` as a process of its own; killed when dropped.
pub(crate) struct Served {
    /// `http://127.0.0.1:` and its port.
    pub(crate) base: String,
    child: Child,
    /// Kept open: a kernel that cannot print is another test's.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl Served {
    /// Starts it on a free port and waits until it listens.
    pub(crate) async fn start(program: &Program) -> Self {
        let mut command = program.command(&["serve", "--listen", "127.0.0.1:0"]);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let stdout = child.stdout.take().expect("a pipe");
        let mut stdout = BufReader::new(stdout).lines();
        let line = stdout
            .next_line()
            .await
            .expect("text")
            .expect("the kernel serves");
        let base = line
            .strip_prefix("listening on ")
            .expect("where it listens")
            .to_owned();
        Self {
            base,
            child,
            _stdout: stdout,
        }
    }

    /// Somebody with this key.
    pub(crate) fn peer(&self, key: &str) -> Peer {
        let client = Client::builder()
            .no_proxy()
            .timeout(Duration::from_secs(30))
            .build();
        Peer {
            client: client.expect("a client"),
            base: self.base.clone(),
            key: key.to_owned(),
        }
    }

    /// SIGKILL.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("killed");
    }

    /// SIGTERM; gives the exit code.
    pub(crate) async fn terminate(mut self) -> Option<i32> {
        let pid = self.child.id().expect("a process that runs");
        // The shell's own `kill`: not every machine has another one.
        let kill = format!("kill -TERM {pid}");
        let sent = tokio::process::Command::new("sh")
            .args(["-c", &kill])
            .status()
            .await;
        assert!(sent.expect("a shell").success());
        self.child.wait().await.expect("it ends").code()
    }
}

/// A client of a kernel that runs as a process.
pub(crate) struct Peer {
    client: Client,
    base: String,
    key: String,
}

impl Peer {
    /// Makes a syscall.
    pub(crate) async fn post(&self, op: &str, body: Value) -> reqwest::Result<Response> {
        let request = self.client.post(format!("{}/v1/mem/{op}", self.base));
        request.bearer_auth(&self.key).json(&body).send().await
    }

    /// Fetches a page.
    pub(crate) async fn get(&self, path: &str) -> reqwest::Result<Response> {
        self.client.get(format!("{}{path}", self.base)).send().await
    }
}
