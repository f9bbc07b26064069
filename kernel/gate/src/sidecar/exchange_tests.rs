//! Attempts, time-outs and bad answers, against a real server on the loopback interface.

use std::time::{Duration, Instant};

use halofy_cartridge::Plan;
use halofy_core::DriverName;
use serde_json::{Value, json};

use super::exchange::MAX_ANSWER;
use super::facts_view::{FactsView, query};
use super::scripted_sidecar::{ScriptedSidecar, Step, refs, reversed};
use super::{Sidecar, SidecarFailure};

const REQUEST_ID: &str = "x-halomem-request-id";

fn send(status: &'static str, body: impl ToString) -> Step {
    Step::Send(status, String::new(), body.to_string())
}

async fn planned(server: &ScriptedSidecar) -> Result<Plan, SidecarFailure> {
    planned_by(&server.driver()).await
}

async fn planned_by(driver: &Sidecar) -> Result<Plan, SidecarFailure> {
    let view = FactsView::of(&[
        "the accordion is in the attic",
        "the booster burns methalox",
    ]);
    driver.plan(&view, &query("accordion", 5, 1000)).await
}

/// Fails both attempts of a plan with these steps: why, and after how long.
async fn failure_of(script: [Step; 2]) -> (SidecarFailure, Duration) {
    let server = ScriptedSidecar::start(script.into()).await;
    let started = Instant::now();
    let failed = planned(&server).await.expect_err("both attempts fail");
    let took = started.elapsed();
    let asked = server.asked();
    assert_eq!(asked.len(), 2, "two attempts and no third");
    assert_eq!(asked[0].header(REQUEST_ID), asked[1].header(REQUEST_ID));
    assert!(failed.is_sidecar_fault());
    (failed, took)
}

#[tokio::test]
async fn a_slow_first_attempt_is_repeated_under_the_same_request_id() {
    for slow in [Step::Hang, Step::Stall] {
        let server = ScriptedSidecar::start(vec![slow, Step::Answer(reversed)]).await;
        let started = Instant::now();
        let plan = planned(&server).await.expect("the second attempt");
        assert_eq!(plan.hits.len(), 2);
        let took = started.elapsed();
        assert!(took >= Duration::from_millis(1500), "{took:?}");
        assert!(plan.stats.total >= Duration::from_millis(1500));
        let asked = server.asked();
        assert_eq!(asked.len(), 2);
        assert_eq!(asked[0].body, asked[1].body);
        let ids = [0, 1].map(|at| asked[at].header(REQUEST_ID).expect("an id"));
        assert_eq!(ids[0], ids[1]);
        assert!(ids[0].len() >= 20, "{ids:?}");
    }
}

#[tokio::test]
async fn another_plan_has_another_request_id() {
    let server = ScriptedSidecar::start(vec![Step::Answer(reversed), Step::Answer(reversed)]).await;
    let driver = server.driver();
    planned_by(&driver).await.expect("a plan");
    planned_by(&driver).await.expect("a plan");
    let asked = server.asked();
    assert_ne!(asked[0].header(REQUEST_ID), asked[1].header(REQUEST_ID));
}

#[tokio::test]
async fn two_slow_attempts_are_a_time_out_after_three_seconds() {
    let (failed, took) = failure_of([Step::Hang, Step::Stall]).await;
    assert_eq!(failed, SidecarFailure::Timeout);
    assert_eq!(failed.reason(), "sidecar_timeout");
    let expected = Duration::from_secs(3)..Duration::from_millis(4500);
    assert!(expected.contains(&took), "{took:?}");
}

#[tokio::test]
async fn a_bad_status_twice_fails_and_once_does_not() {
    for status in [
        "500 Oops",
        "404 Not Found",
        "429 Slow Down",
        "304 Not Modified",
    ] {
        let (failed, _) = failure_of([send(status, ""), send(status, "")]).await;
        assert!(
            matches!(failed, SidecarFailure::Status(_)),
            "{status}: {failed}"
        );
        assert_eq!(failed.reason(), "sidecar_status");
    }
    let script = vec![send("503 Busy", ""), Step::Answer(reversed)];
    let server = ScriptedSidecar::start(script).await;
    assert_eq!(
        planned(&server)
            .await
            .expect("the second attempt")
            .hits
            .len(),
        2
    );
    let script = vec![Step::Close, Step::Answer(reversed)];
    let server = ScriptedSidecar::start(script).await;
    assert_eq!(
        planned(&server)
            .await
            .expect("the second attempt")
            .hits
            .len(),
        2
    );
}

#[tokio::test]
async fn an_answer_that_is_not_the_contract_s_is_malformed_and_never_quoted() {
    let garbage = [
        "",
        "s3cret",
        "[]",
        "null",
        r#"{"refs": null}"#,
        r#"{"ranked": []}"#,
        r#"{"refs": [{"ref": 3, "score": 1}]}"#,
        r#"{"refs": [{"ref": "a", "score": "s3cret"}]}"#,
        r#"{"refs": [{"ref": "a", "score": NaN}]}"#,
        r#"{"refs": [{"ref": "a", "score": 1e999}]}"#,
        r#"{"refs": [{"score": 1}]}"#,
        r#"{"refs": []} s3cret"#,
    ];
    for body in garbage {
        let (failed, _) = failure_of([send("200 OK", body), send("200 OK", body)]).await;
        assert_eq!(failed.reason(), "sidecar_malformed", "{body}: {failed}");
        assert!(
            !format!("{failed} {failed:?}").contains("s3cret"),
            "{failed:?}"
        );
    }
}

#[tokio::test]
async fn a_huge_answer_is_cut_off() {
    let huge = |_: &Value| format!(r#"{{"refs": []{}}}"#, " ".repeat(MAX_ANSWER));
    let (failed, took) = failure_of([Step::Answer(huge), Step::Flood]).await;
    assert_eq!(failed, SidecarFailure::TooLarge { limit: MAX_ANSWER });
    assert_eq!(failed.reason(), "sidecar_too_large");
    assert!(took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn an_answer_just_below_the_limit_is_read() {
    let large = |request: &Value| {
        let answer = json!({"refs": [{"ref": refs(request)[0], "score": 1}]}).to_string();
        let filler = " ".repeat(MAX_ANSWER - answer.len());
        answer + &filler
    };
    let server = ScriptedSidecar::start(vec![Step::Answer(large)]).await;
    assert_eq!(planned(&server).await.expect("a plan").hits.len(), 1);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = ScriptedSidecar::start(vec![Step::Answer(reversed)]).await;
    let redirect = || {
        let location = format!("location: {}/plan\r\n", elsewhere.url);
        Step::Send("307 Temporary Redirect", location, String::new())
    };
    let (failed, _) = failure_of([redirect(), redirect()]).await;
    assert_eq!(failed, SidecarFailure::Status(307));
    assert!(
        elsewhere.asked().is_empty(),
        "nothing left for another host"
    );
}

#[tokio::test]
async fn where_nobody_listens_the_sidecar_is_unreachable() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("binds");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let url = format!("http://user:s3cret@127.0.0.1:{port}");
    let driver = driver_at(&url);
    let failed = planned_by(&driver).await.expect_err("nobody listens");
    assert_eq!(failed.reason(), "sidecar_transport");
    assert!(matches!(failed, SidecarFailure::Transport(_)));
    let shown = format!("{failed} {failed:?} {driver:?}");
    assert!(
        !shown.contains("s3cret") && !shown.contains("user:"),
        "{shown}"
    );
}

#[tokio::test]
async fn a_password_in_the_url_is_sent_as_a_header_and_a_path_is_kept() {
    let server = ScriptedSidecar::start(vec![Step::Answer(reversed)]).await;
    let url = server.url.replace("http://", "http://user:s3cret@") + "/engines/mem0/";
    planned_by(&driver_at(&url)).await.expect("a plan");
    let asked = &server.asked()[0];
    assert!(
        asked.head.starts_with("POST /engines/mem0/plan HTTP/1.1"),
        "{}",
        asked.head
    );
    assert_eq!(
        asked.header("authorization"),
        Some("Basic dXNlcjpzM2NyZXQ=")
    );
    assert_eq!(asked.header("content-type"), Some("application/json"));
    assert!(!asked.head.contains("s3cret"));
}

#[tokio::test]
async fn health_is_what_the_sidecar_says_of_itself() {
    let script = vec![
        send("200 OK", r#"{"ok": true, "mode": "infer=false"}"#),
        send("200 OK", r#"{"ok": false, "mode": "loading"}"#),
        send("503 Busy", ""),
        send("200 OK", "well"),
    ];
    let server = ScriptedSidecar::start(script).await;
    let driver = server.driver();
    assert_eq!(driver.health().await.as_deref(), Ok("infer=false"));
    assert_eq!(driver.health().await, Err(SidecarFailure::Unwell));
    assert_eq!(driver.health().await, Err(SidecarFailure::Status(503)));
    let failed = driver.health().await.expect_err("no JSON");
    assert_eq!(failed.reason(), "sidecar_malformed");
    let asked = server.asked();
    assert!(
        asked
            .iter()
            .all(|it| it.head.starts_with("GET /healthz HTTP/1.1"))
    );
}

fn driver_at(url: &str) -> Sidecar {
    let name = DriverName::parse("mem0").expect("a name");
    Sidecar::new(name, Some(url)).expect("a usable URL")
}
