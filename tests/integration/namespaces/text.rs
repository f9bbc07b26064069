//! N10: text that a database cannot hold, or that nobody means, is refused by name;
//! every other text comes back as it went in.

use halofy::cli::Target;
use halofy::http::Command;
use halofy_tests::{Answer, Caller, Kernel, Role};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use reqwest::Method;

const MIB: usize = 1024 * 1024;
/// What only a database, or the kernel's own code, would say.
const NOT_FOR_CALLERS: [&str; 9] = [
    "select ",
    "insert ",
    "postgres",
    "sqlx",
    "memory_objects",
    "constraint",
    "byte sequence",
    "syntax error",
    "panicked",
];

fn expect_no_sql(answer: &Answer) {
    let text = answer.text.to_lowercase();
    for word in NOT_FOR_CALLERS {
        assert!(!text.contains(word), "{word:?} in {text}");
    }
}

/// JSON texts of strings that no field takes, by the place that the refusal names
/// (`None` for the field itself).
fn bad_strings() -> Vec<(String, Option<&'static str>)> {
    let long = format!("\"{}\"", "x".repeat(MIB));
    let own = [
        r#""""#,
        r#""   ""#,
        r#""\u0000""#,
        r#""a\u0000b""#,
        r#""\n\t""#,
        &long,
    ];
    let own = own.map(|text| (text.to_owned(), None));
    let surrogates = [
        r#""\ud800""#,
        r#""a\udfffb""#,
        r#""\ud800\ud800""#,
        r#""\udc00\ud800""#,
    ];
    let surrogates = surrogates.map(|text| (text.to_owned(), Some("body")));
    own.into_iter().chain(surrogates).collect()
}

async fn send(caller: &Caller, op: &str, body: impl Into<Vec<u8>>) -> Answer {
    let answer = caller
        .raw(Method::POST, &format!("/v1/mem/{op}"), &[], body)
        .await;
    expect_no_sql(&answer);
    answer
}

#[tokio::test]
async fn n10_a_text_that_cannot_be_is_a_422_that_names_its_field() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    for (op, field) in [("write", "content"), ("search", "query"), ("read", "id")] {
        for (text, place) in bad_strings() {
            let body = format!("{{\"{field}\":{text}}}");
            send(&caller, op, body)
                .await
                .expect_invalid(place.unwrap_or(field));
        }
    }
    for id in [
        "x",
        "' or 1=1 --",
        "01arz3ndektsv4rrffq69g5fav",
        "../../etc",
        "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
    ] {
        caller.read(id).await.expect_invalid("id");
    }
    assert_eq!(
        kernel
            .sql_value("select count(*) from memory_objects")
            .await,
        "0"
    );
}

#[tokio::test]
async fn n10_metadata_that_cannot_be_stored_is_a_422() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(MIB));
    for (metadata, field) in [
        (r#"{"a":"\u0000"}"#, "metadata"),
        (r#"{"a\u0000":1}"#, "metadata"),
        (r#"{"a":[{"b":"c\u0000"}]}"#, "metadata"),
        (r#"{"a":"\\\u0000"}"#, "metadata"),
        (r#"{"a":"\ud800"}"#, "body"),
        (&long, "metadata"),
        (r#""text""#, "metadata"),
        ("[]", "metadata"),
    ] {
        let body = format!(r#"{{"content":"The tram is late.","metadata":{metadata}}}"#);
        send(&caller, "write", body).await.expect_invalid(field);
    }
    assert_eq!(
        kernel
            .sql_value("select count(*) from memory_objects")
            .await,
        "0"
    );
}

#[tokio::test]
async fn n10_metadata_that_only_looks_odd_is_kept_as_it_is() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    for (at, metadata) in [
        serde_json::json!({}),
        serde_json::json!({ "a": "", "": "b", "c": null }),
        serde_json::json!({ "escape": "\\u0000", "path": "C:\\u0000" }),
        serde_json::json!({ "text": "\u{feff}\u{1}\u{7f}\u{10ffff}é" }),
    ]
    .into_iter()
    .enumerate()
    {
        let content = format!("Platform {at} is closed.");
        let body = serde_json::json!({ "content": content, "metadata": metadata });
        let id = caller
            .call("write", body)
            .await
            .expect_status(200)
            .id()
            .to_owned();
        assert_eq!(caller.read(&id).await.body["metadata"], metadata);
    }
}

#[tokio::test]
async fn n10_bytes_that_are_no_unicode_are_no_server_error() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    for bytes in [
        &b"\xff"[..],
        b"\xc3\x28",
        b"\xed\xa0\x80",
        b"\xf5\x80\x80\x80",
    ] {
        for (op, field) in [("write", "content"), ("search", "query"), ("read", "id")] {
            let body = [&b"{\""[..], field.as_bytes(), b"\":\"a", bytes, b"\"}"].concat();
            send(&caller, op, body).await.expect_invalid("body");
        }
    }
}

#[tokio::test]
async fn n10_the_command_refuses_with_the_same_words_as_http() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    let long = "x".repeat(MIB);
    let at = ["--url", &kernel.base, "--key", &caller.key];
    for (op, field, text) in [
        ("write", "content", ""),
        ("write", "content", "a\0b"),
        ("write", "content", &long),
        ("search", "query", ""),
        ("search", "query", " \t"),
        ("read", "id", ""),
        ("read", "id", "nonsense"),
    ] {
        let over_http = caller.call(op, serde_json::json!({ field: text })).await;
        let over_http = over_http.expect_invalid(field);
        // An argument cannot hold U+0000 or a megabyte; standard input can.
        let (argument, input) = match op {
            "write" => ("-", text),
            _ => (text, ""),
        };
        let arguments = [&[op][..], &at, &[argument]].concat();
        let run = crate::halofy()
            .run_with(&arguments, input.as_bytes())
            .await
            .expect_code(1);
        let detail = over_http.body["detail"].as_str().expect("a detail");
        let said = format!(
            "error: {}: {detail}",
            over_http.body["title"].as_str().expect("a title")
        );
        assert_eq!(run.stderr.trim_end(), said);
        assert_eq!(run.stdout, "");
    }
}

#[tokio::test]
async fn n10_a_key_is_not_made_for_a_name_that_cannot_be() {
    let kernel = Kernel::start().await;
    let before = kernel.audit().await.len();
    let mut refused = 0;
    let long = "x".repeat(MIB);
    for path in [
        "",
        "a\0b",
        "\0",
        "a b",
        "a/",
        "/a",
        "a//b",
        "a/..",
        "a\u{200b}",
        "a\n",
        &long,
    ] {
        for (namespace, actor, field) in [(path, "user:u", "namespace"), ("acme", path, "actor")] {
            // An actor is a name, no path.
            if field == "actor" && ["a/", "/a", "a//b", "a/..", "a\u{200b}"].contains(&path) {
                continue;
            }
            let create = Command::KeyCreate {
                namespace: namespace.to_owned(),
                actor: actor.to_owned(),
                role: "agent".to_owned(),
                expires_at: None,
                groups: Vec::new(),
            };
            let made = kernel.on_gate(async move |gate| Target::local(gate).command(&create).await);
            let error = made.await.expect_err("no key").to_string();
            assert!(
                error.starts_with(&format!("A field is not valid: {field}: ")),
                "{error}"
            );
            refused += 1;
        }
    }
    assert_eq!(kernel.sql_value("select count(*) from api_keys").await, "0");
    let rows = kernel.audit().await.split_off(before);
    assert_eq!(rows.len(), refused, "each refusal has its row");
    for row in rows {
        let columns = (row.columns.op.as_str(), row.columns.result.as_str());
        assert_eq!(columns, ("key_create", "error"));
    }
}

#[tokio::test]
async fn n10_the_command_makes_no_key_for_a_name_that_cannot_be() {
    let data = halofy_tests::Data::fresh().await;
    let program = crate::halofy().on(&data);
    for (path, problem) in [
        ("", "is empty"),
        ("a//b", "empty segment"),
        ("a b", "white space"),
    ] {
        let run = program
            .run(&["keys", "create", "--namespace", path, "--actor", "user:u"])
            .await;
        let run = run.expect_code(1);
        let expected = "error: A field is not valid: namespace: ";
        assert!(
            run.stderr.contains(expected) && run.stderr.contains(problem),
            "{}",
            run.stderr
        );
        assert_eq!(run.stdout, "");
    }
}

/// Any text, and texts of the characters that break things.
fn any_text() -> impl Strategy<Value = String> {
    let nasty = "[\u{0}-\u{20}'\"\\\\%_;|&!<>:*(){}\\[\\]\u{7f}-\u{a0}\u{200b}\u{202e}\u{feff}\u{fffd}a-c]{1,40}";
    prop_oneof![
        any::<String>(),
        "\\PC{1,60}",
        nasty,
        "[\u{1f300}-\u{1faff}a]{1,30}"
    ]
}

#[test]
fn n10_any_text_comes_back_as_it_went_in_or_is_refused_by_name() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (kernel, caller) = runtime.block_on(async {
        let kernel = Kernel::start().await;
        super::unlimited(&kernel, "acme").await;
        let caller = kernel.key("acme", "user:u", Role::Agent).await;
        (kernel, caller)
    });
    let config = ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let outcome = TestRunner::new(config).run(&any_text(), |text| {
        runtime.block_on(round_trip(&caller, &text));
        Ok(())
    });
    drop(kernel);
    outcome.expect("every text round-trips");
}

async fn round_trip(caller: &Caller, text: &str) {
    let written = caller.write(text).await;
    expect_no_sql(&written);
    if written.status == 200 {
        let memory = caller.read(written.id()).await.expect_status(200).body;
        let stored = memory["content"].as_str().expect("content");
        if written.body["stored"][0].is_string() {
            assert_eq!(stored, text);
        } else {
            let normal = halofy_core::normalize_for_dedupe;
            assert_eq!(normal(stored), normal(text));
        }
    } else {
        written.expect_invalid("content");
    }
    let found = caller.search(text).await;
    expect_no_sql(&found);
    if found.status != 200 {
        found.expect_invalid("query");
    }
}
