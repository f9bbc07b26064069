//! Clients that go away: whatever they leave half-way, effects and audit rows agree.

use std::time::Duration;

use halofy_tests::{Caller, Kernel, Role};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{rows_of, settled};

/// Five ops in turn, by six places to leave at: each pair comes up four times.
const ATTEMPTS: usize = 120;
/// So many at once, so that those who leave meet others on the way.
const AT_ONCE: usize = 6;

/// Where a client leaves.
#[derive(Debug, Clone, Copy)]
enum Leaves {
    InHeaders,
    InBody,
    /// So long after the whole request.
    After(Duration),
    /// As `After`, having said that it sends no more.
    HalfClosed(Duration),
    /// With the first byte of the answer.
    InAnswer,
}

#[tokio::test]
async fn effects_and_audit_rows_agree_when_clients_hang_up() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let known = dana.write("The office is in Bern.").await.id().to_owned();
    let before = kernel.audit().await.len();
    for first in (0..ATTEMPTS).step_by(AT_ONCE) {
        let attempts = (first..first + AT_ONCE).map(|at| {
            let (op, body) = request(at, &known);
            hang_up(&kernel, &dana, op, body.to_string(), leaves(at / 5))
        });
        futures_util::future::join_all(attempts).await;
    }
    // Stopping waits for the calls that nobody waits for any more.
    let kernel = Kernel::with().on(&kernel.stop().await).start().await;

    let (incomplete, audited): (Vec<_>, Vec<_>) = kernel
        .audit()
        .await
        .split_off(before)
        .into_iter()
        .partition(|row| row.columns.detail.as_deref() == Some("reason=body_incomplete"));
    assert!(
        incomplete.len() <= ATTEMPTS - (0..ATTEMPTS).filter(|at| is_whole(leaves(at / 5))).count()
    );
    let whole = (0..ATTEMPTS).filter(|at| is_whole(leaves(at / 5))).count();
    assert!(
        audited.len() <= whole,
        "{} rows for {whole} whole requests",
        audited.len()
    );
    for op in ["write", "search", "read", "stats"] {
        assert!(
            !rows_of(&audited, op).is_empty(),
            "no {op} came as far as the gate"
        );
    }
    assert!(
        audited.iter().all(|row| row.columns.result == "ok"),
        "{audited:?}"
    );
    effects_and_rows_agree(&kernel).await;
    settled(&kernel).await;
}

/// Every memory has exactly one row that says it was stored, and every such row its
/// memory.
pub(crate) async fn effects_and_rows_agree(kernel: &Kernel) {
    let unrecorded = "select m.id from memory_objects m where 1 <>
        (select count(*) from audit_log l where l.memory_id = m.id and l.op = 'write'
            and l.result = 'ok' and l.detail = 'stored=1')";
    assert_eq!(
        kernel.sql(unrecorded).await,
        Vec::<Vec<_>>::new(),
        "stored without one row"
    );
    let without_effect = "select l.call_id from audit_log l where l.op = 'write'
        and l.result = 'ok' and not exists (select from memory_objects m where m.id = l.memory_id)";
    assert_eq!(
        kernel.sql(without_effect).await,
        Vec::<Vec<_>>::new(),
        "recorded and not stored"
    );
}

fn request(at: usize, known: &str) -> (&'static str, Value) {
    match at % 5 {
        0 => (
            "write",
            json!({ "content": format!("Visitor {at} came by.") }),
        ),
        1 => ("search", json!({ "query": "where is the office?" })),
        2 => ("read", json!({ "id": known })),
        3 => ("stats", json!({})),
        _ => (
            "write",
            json!({ "content": format!("Visitor {at} left again.") }),
        ),
    }
}

fn leaves(at: usize) -> Leaves {
    // From at once to longer than most calls take.
    let pause = Duration::from_millis([0, 1, 3, 8][at / 6 % 4]);
    match at % 6 {
        0 => Leaves::InHeaders,
        1 => Leaves::InBody,
        2 | 3 => Leaves::After(pause),
        4 => Leaves::HalfClosed(pause),
        _ => Leaves::InAnswer,
    }
}

fn is_whole(leaves: Leaves) -> bool {
    !matches!(leaves, Leaves::InHeaders | Leaves::InBody)
}

/// Sends a request over a connection of its own, and leaves.
async fn hang_up(kernel: &Kernel, caller: &Caller, op: &str, body: String, leaves: Leaves) {
    let address = kernel.base.strip_prefix("http://").expect("an address");
    let mut stream = TcpStream::connect(address)
        .await
        .expect("the kernel takes connections");
    let head = format!(
        "POST /v1/mem/{op} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n\
         content-length: {}\r\n\r\n",
        caller.key,
        body.len()
    );
    let request = head.clone() + &body;
    let sent = match leaves {
        Leaves::InHeaders => head.len() / 2,
        Leaves::InBody => head.len() + body.len() / 2,
        _ => request.len(),
    };
    stream
        .write_all(&request.as_bytes()[..sent])
        .await
        .expect("the kernel reads");
    match leaves {
        Leaves::InHeaders | Leaves::InBody => {}
        Leaves::After(pause) => tokio::time::sleep(pause).await,
        Leaves::HalfClosed(pause) => {
            stream.shutdown().await.expect("half closed");
            tokio::time::sleep(pause).await;
        }
        Leaves::InAnswer => {
            let first = stream.read(&mut [0]).await.expect("an answer");
            assert_eq!(first, 1, "an answer begins");
        }
    }
}
