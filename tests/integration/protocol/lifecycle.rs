//! The kernel as a process among others: health, metrics, stopping, and a second one
//! in the same place.

use std::time::Duration;

use halofy_tests::{Caller, Data, Kernel, Role};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::audit::{rows_of, settled};
use crate::crash::Served;

#[tokio::test]
async fn without_its_store_the_kernel_lives_and_says_that_it_is_not_ready() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let id = dana.write("The office is in Bern.").await.id().to_owned();
    dana.raw(Method::GET, "/health/ready", &[], "")
        .await
        .expect_status(200);

    kernel.cut_off().await;
    dana.raw(Method::GET, "/health/live", &[], "")
        .await
        .expect_status(200);
    let ready = dana.raw(Method::GET, "/health/ready", &[], "").await;
    ready.expect_problem(503, "unavailable");
    for answer in [
        dana.search("where is the office?").await,
        dana.write("The cafe is in Basel.").await,
        dana.read(&id).await,
        dana.stats().await,
    ] {
        let answer = answer.expect_problem(503, "unavailable");
        assert_eq!(answer.headers["retry-after"], "1");
    }
}

#[tokio::test]
async fn a_kernel_that_stops_answers_what_it_took() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let address = kernel
        .base
        .strip_prefix("http://")
        .expect("an address")
        .to_owned();
    let mut taken = Vec::new();
    for at in 0..5 {
        taken.push(half_sent(&address, &dana, &format!("Note {at}.")).await);
    }
    let finishing = async {
        // Until it takes no new connection, it has not heard that it is to stop.
        while TcpStream::connect(&address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for (stream, rest) in &mut taken {
            stream
                .write_all(rest.as_bytes())
                .await
                .expect("the kernel still reads");
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.expect("an answer");
            assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        }
    };
    let (data, ()) = tokio::join!(kernel.stop(), finishing);
    let kernel = Kernel::with().on(&data).start().await;
    assert_eq!(rows_of(&kernel.audit().await, "write").len(), 5);
    settled(&kernel).await;
}

/// A write of which the kernel has taken the head and asks for the body; and the body.
async fn half_sent(address: &str, caller: &Caller, content: &str) -> (TcpStream, String) {
    let body = json!({ "content": content }).to_string();
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let head = format!(
        "POST /v1/mem/write HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n\
         content-length: {}\r\nexpect: 100-continue\r\n\r\n",
        caller.key,
        body.len()
    );
    stream
        .write_all(head.as_bytes())
        .await
        .expect("the head is sent");
    let mut interim = *b"HTTP/1.1 100 Continue\r\n\r\n";
    let asked = interim;
    stream
        .read_exact(&mut interim)
        .await
        .expect("the kernel asks for the body");
    assert_eq!(interim, asked);
    (stream, body)
}

#[tokio::test]
async fn metrics_are_well_formed_and_name_no_tenant() {
    let data = Data::fresh().await;
    let dana = {
        let kernel = Kernel::with().on(&data).start().await;
        let dana = kernel
            .key("acme-secret-tenant", "user:dana", Role::Agent)
            .await;
        kernel.stop().await;
        dana
    };
    let served = Served::start(&crate::halofy().on(&data)).await;
    let peer = served.peer(&dana.key);
    for (op, body) in [
        ("write", json!({ "content": "The office is in Bern." })),
        ("search", json!({ "query": "where is the office?" })),
        ("search", json!({ "query": "x", "k": 0 })),
    ] {
        peer.post(op, body).await.expect("an answer");
    }
    let page = peer.get("/metrics").await.expect("an answer");
    assert!(
        page.headers()["content-type"]
            .to_str()
            .is_ok_and(|kind| kind.starts_with("text/plain"))
    );
    let text = page.text().await.expect("text");
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        let name = name.split('{').next().unwrap_or_default();
        assert!(name.starts_with("halofy_"), "{line}");
    }
    for private in ["secret-tenant", "dana", "Bern", &dana.key_id, &dana.key] {
        assert!(!text.contains(private), "{private} in {text}");
    }
    for op in ["op=\"write\"", "op=\"search\""] {
        assert!(text.contains(op), "{op} is not counted in {text}");
    }
    assert_eq!(served.terminate().await, Some(0));
}

#[tokio::test]
async fn a_second_kernel_on_the_same_directory_is_told_so() {
    let data = Data::embedded();
    let program = crate::halofy().on(&data);
    let first = Served::start(&program).await;
    let second = program
        .run(&["serve", "--listen", "127.0.0.1:0"])
        .await
        .expect_code(1);
    let told = second
        .stderr
        .lines()
        .find(|line| line.starts_with("error: "));
    assert!(
        told.is_some_and(|line| line.contains("is in use by a running")),
        "{}",
        second.stderr
    );
    assert!(!second.stdout.contains("listening"), "{}", second.stdout);
    // The first one is unharmed, and still takes the operator's commands.
    let listed = program
        .run(&["keys", "list", "--json"])
        .await
        .expect_code(0);
    assert_eq!(listed.json(), json!([]));
    assert_eq!(first.terminate().await, Some(0));
}
