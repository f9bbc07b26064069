//! Group P of the acceptance cases: what a client does wrong is a 4xx that says so,
//! and is audited; who has no key learns nothing.

use halofy_audit::Record;
use halofy_tests::{Answer, Caller, Kernel, Role};
use reqwest::Method;
use serde_json::json;

use crate::audit::settled;

mod lifecycle;

/// The body of a bad request, and the answer: status, code, and the field that it
/// names, `-` for none.
type Case = (&'static str, String, u16, &'static str, &'static str);

fn bad_requests() -> Vec<Case> {
    let search = |field: &str| format!("{{\"query\":\"x\",{field}}}");
    let invalid = |op, body: String, field| (op, body, 422, "invalid_field", field);
    let malformed = |op, body: &str| (op, body.to_owned(), 400, "malformed_json", "-");
    let deep = |open: &str, core: &str, close: &str| {
        format!("{}{core}{}", open.repeat(10_000), close.repeat(10_000))
    };
    let deep_metadata = deep("{\"a\":", "1", "}");
    vec![
        invalid("search", search("\"k\":-1"), "k"),
        invalid("search", search("\"k\":0"), "k"),
        invalid("search", search("\"k\":101"), "k"),
        invalid("search", search("\"k\":1e9"), "k"),
        invalid("search", search("\"k\":1000000000"), "k"),
        invalid("search", search("\"k\":99999999999999999999999"), "k"),
        invalid("search", search("\"k\":1.5"), "k"),
        invalid("search", search("\"k\":\"10\""), "k"),
        invalid("search", search("\"tokenBudget\":0"), "tokenBudget"),
        invalid("search", search("\"tokenBudget\":100001"), "tokenBudget"),
        invalid("search", search("\"validOnly\":1"), "validOnly"),
        invalid("search", search("\"limit\":5"), "limit"),
        invalid("search", "{}".into(), "query"),
        invalid("search", "{\"query\":null}".into(), "query"),
        invalid("search", "{\"query\":7}".into(), "query"),
        invalid("search", "{\"query\":\"  \"}".into(), "query"),
        invalid(
            "search",
            "{\"query\":\"a\",\"query\":\"b\"}".into(),
            "query",
        ),
        invalid("write", "{}".into(), "content"),
        invalid("write", "{\"content\":\"\"}".into(), "content"),
        invalid("write", "{\"content\":{\"text\":\"x\"}}".into(), "content"),
        invalid(
            "write",
            "{\"content\":\"x\",\"kind\":\"rumour\"}".into(),
            "kind",
        ),
        invalid(
            "write",
            "{\"content\":\"x\",\"metadata\":[1]}".into(),
            "metadata",
        ),
        invalid(
            "write",
            "{\"content\":\"x\",\"eventTime\":\"2025-13-01\"}".into(),
            "eventTime",
        ),
        invalid("read", "{}".into(), "id"),
        invalid("read", "{\"id\":\"42\"}".into(), "id"),
        invalid(
            "read",
            "{\"id\":\"01arz3ndektsv4rrffq69g5fav\"}".into(),
            "id",
        ),
        invalid("read", "{\"id\":42}".into(), "id"),
        invalid("stats", "{\"verbose\":true}".into(), "verbose"),
        invalid("stats", "null".into(), "body"),
        invalid("search", "[\"x\",1,2,true,false]".into(), "body"),
        invalid("write", "\"x\"".into(), "body"),
        malformed("search", ""),
        malformed("search", "{\"query\":"),
        malformed("search", "query=x"),
        malformed("search", "{\"query\":\"x\"} {}"),
        malformed("search", "{'query':'x'}"),
        malformed("write", "\u{feff}{\"content\":\"x\"}"),
        malformed("search", &deep("[", "", "]")),
        malformed(
            "write",
            &format!("{{\"content\":\"x\",\"metadata\":{deep_metadata}}}"),
        ),
    ]
}

#[tokio::test]
async fn a_clients_mistake_is_a_4xx_that_names_the_field_and_is_audited() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    for (op, body, status, code, field) in bad_requests() {
        let answer = post(&dana, op, body.clone()).await;
        let shown: String = body.chars().take(80).collect();
        assert_eq!(answer.status, status, "{op} {shown}: {}", answer.text);
        let answer = answer.expect_problem(status, code);
        assert_eq!(
            answer.body["field"].as_str().unwrap_or("-"),
            field,
            "{op} {shown}: {}",
            answer.text
        );
        let row = audited(&kernel, &answer).await.columns;
        assert_eq!(
            (row.op.as_str(), row.result.as_str()),
            (op, "error"),
            "{shown}"
        );
        assert_eq!(
            (row.actor.as_str(), row.key_id.as_ref()),
            ("user:dana", Some(&dana.key_id))
        );
        assert!(
            row.detail
                .expect("a detail")
                .starts_with(&format!("reason={code}"))
        );
    }
    assert_eq!(
        kernel
            .sql_value("select count(*) from memory_objects")
            .await,
        "0"
    );
    settled(&kernel).await;
}

#[tokio::test]
async fn a_body_of_20_mib_is_refused_by_its_size_and_audited() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let body = format!("{{\"content\":\"{}\"}}", "x".repeat(20 << 20));
    let answer = post(&dana, "write", body)
        .await
        .expect_problem(413, "body_too_large");
    let row = audited(&kernel, &answer).await.columns;
    assert_eq!((row.op.as_str(), row.result.as_str()), ("write", "error"));
    assert_eq!(row.detail.as_deref(), Some("reason=body_too_large"));
}

#[tokio::test]
async fn another_method_or_route_is_no_syscall() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let rows = kernel.audit().await.len();
    for (method, path, status, code) in [
        (Method::GET, "/v1/mem/search", 405, "wrong_method"),
        (Method::PUT, "/v1/mem/write", 405, "wrong_method"),
        (Method::DELETE, "/v1/mem/read", 405, "wrong_method"),
        (Method::POST, "/health/live", 405, "wrong_method"),
        (
            Method::POST,
            "/v1/mem/forget-everything",
            404,
            "unknown_route",
        ),
        (Method::POST, "/v1/mem/Search", 404, "unknown_route"),
        (Method::POST, "/v1/mem/search/", 404, "unknown_route"),
        (Method::POST, "/v1/mem/search%00", 404, "unknown_route"),
        (Method::POST, "/v2/mem/search", 404, "unknown_route"),
        (Method::POST, "/control", 404, "unknown_route"),
        (Method::GET, "/", 404, "unknown_route"),
    ] {
        let answer = dana.raw(method, path, &[], "{\"query\":\"x\"}").await;
        answer.expect_problem(status, code);
    }
    assert_eq!(kernel.audit().await.len(), rows);
}

#[tokio::test]
async fn a_write_loop_is_braked_for_its_key_alone() {
    let kernel = Kernel::start().await;
    let loops = kernel.key("acme", "agent:loop", Role::Agent).await;
    let other = kernel.key("acme", "user:dana", Role::Agent).await;
    kernel
        .policy(
            "acme",
            json!({ "rateLimit": { "perSecond": 1, "burst": 3 } }),
        )
        .await;
    let mut refused = 0;
    for at in 0..12 {
        let answer = loops.write(&format!("Turn {at}.")).await;
        if answer.status == 200 {
            continue;
        }
        refused += 1;
        let answer = answer.expect_problem(429, "rate_limited");
        let wait: u64 = answer.headers["retry-after"]
            .to_str()
            .expect("text")
            .parse()
            .expect("seconds");
        assert!((1..=60).contains(&wait), "{wait}");
        assert_eq!(answer.body["retryAfter"], wait);
        let row = audited(&kernel, &answer).await.columns;
        assert_eq!((row.op.as_str(), row.result.as_str()), ("write", "denied"));
        assert_eq!(row.detail.as_deref(), Some("reason=rate_limited"));
    }
    assert!(refused >= 3, "only {refused} of 12 calls were braked");
    for at in 0..3 {
        other
            .write(&format!("A calm note, {at}."))
            .await
            .expect_status(200);
    }
    let stored = kernel
        .sql_value("select count(*) from memory_objects")
        .await;
    assert_eq!(stored, (12 - refused + 3).to_string());
}

#[tokio::test]
async fn whoever_has_no_valid_key_gets_the_same_bytes_and_the_log_knows_why() {
    let kernel = Kernel::start().await;
    let revoked = kernel.key("acme", "user:rita", Role::Agent).await;
    let expired = kernel.key("acme", "user:emil", Role::Owner).await;
    let valid = kernel.key("acme", "user:dana", Role::Agent).await;
    let id = revoked.key_id.clone();
    let done = kernel
        .on_gate(async move |gate| gate.key_revoke(&id).await.map(drop))
        .await;
    done.expect("revoked");
    let past = "update api_keys set expires_at = now() - interval '1 second' where id =";
    kernel.sql(format!("{past} '{}'", expired.key_id)).await;

    let bearer = |key: &str| Some(format!("Bearer {key}"));
    let cases = [
        (None, "no%20key", "unknown"),
        (Some(format!("Basic {}", valid.key)), "no%20key", "unknown"),
        (Some(valid.key.clone()), "no%20key", "unknown"),
        (Some("Bearer ".to_owned()), "no%20key", "unknown"),
        (bearer("hm_0000000000000000"), "unknown%20key", "unknown"),
        (
            bearer(&valid.key.to_uppercase()),
            "unknown%20key",
            "unknown",
        ),
        (bearer(&valid.key_id), "unknown%20key", "unknown"),
        (bearer(&revoked.key), "revoked%20key", "user:rita"),
        (bearer(&expired.key), "expired%20key", "user:emil"),
    ];
    let mut bytes = None;
    for op in ["write", "search", "read", "stats", "ticket"] {
        for (header, why, actor) in &cases {
            let answer = with_authorization(&kernel, op, header.as_deref()).await;
            assert_eq!(answer.headers["www-authenticate"], "Bearer");
            let answer = answer.expect_problem(401, "unauthenticated");
            assert_eq!(
                bytes.get_or_insert(answer.text.clone()),
                &answer.text,
                "{header:?}"
            );
            let row = audited(&kernel, &answer).await.columns;
            assert_eq!(
                (row.op.as_str(), row.result.as_str()),
                (op, "denied"),
                "{header:?}"
            );
            let expected = format!("reason=unauthenticated why={why}");
            assert_eq!(row.detail.as_deref(), Some(expected.as_str()), "{header:?}");
            assert_eq!(&row.actor, actor, "{header:?}");
        }
    }
    valid.stats().await.expect_status(200);
}

#[tokio::test]
async fn an_answer_is_named_by_its_audit_row_whatever_name_the_client_sends() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let theirs = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    for body in ["{\"query\":\"x\"}", "{"] {
        let headers = [("x-request-id", theirs)];
        let answer = dana
            .raw(Method::POST, "/v1/mem/search", &headers, body)
            .await;
        assert_ne!(answer.headers["x-request-id"], theirs);
        assert_eq!(audited(&kernel, &answer).await.columns.op, "search");
    }
    for path in ["/health/live", "/nowhere"] {
        let answer = dana
            .raw(Method::GET, path, &[("x-request-id", theirs)], "")
            .await;
        let ours = answer.headers["x-request-id"].to_str().expect("text");
        assert!(
            ours != theirs && ours.parse::<ulid::Ulid>().is_ok(),
            "{ours}"
        );
    }
}

async fn post(caller: &Caller, op: &str, body: String) -> Answer {
    caller
        .raw(Method::POST, &format!("/v1/mem/{op}"), &[], body)
        .await
}

#[tokio::test]
async fn two_keys_in_one_request_are_none() {
    let kernel = Kernel::start().await;
    let valid = kernel.key("acme", "user:dana", Role::Agent).await;
    let second = [("authorization", "Bearer hm_0000000000000000")];
    let answer = valid
        .raw(Method::POST, "/v1/mem/stats", &second, "{}")
        .await;
    answer.expect_problem(401, "unauthenticated");
}

/// A syscall with any `Authorization` header, or none.
async fn with_authorization(kernel: &Kernel, op: &str, header: Option<&str>) -> Answer {
    let client = reqwest::Client::builder()
        .no_proxy()
        .build()
        .expect("a client");
    let request = client
        .post(format!("{}/v1/mem/{op}", kernel.base))
        .body("{}");
    let request = match header {
        Some(value) => request.header("authorization", value),
        None => request,
    };
    let response = request.send().await.expect("an answer");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.expect("text");
    let body = serde_json::from_str(&text).unwrap_or_default();
    Answer {
        status,
        headers,
        body,
        text,
    }
}

/// The one audit row of an answer, found by the answer's name.
async fn audited(kernel: &Kernel, answer: &Answer) -> Record {
    let id = answer.headers["x-request-id"].to_str().expect("text");
    let mut rows = kernel.audit().await;
    rows.retain(|row| row.columns.call_id == id);
    assert_eq!(rows.len(), 1, "rows of {id}: {rows:?}");
    rows.remove(0)
}
