//! Tickets over HTTP, and the operator's commands.

use std::sync::Arc;
use std::time::Duration;

use halofy_core::{JobId, JobKind, KeyId};
use halofy_store::{NewJob, Store, Turn};
use halofy_tests::{Caller, Data, Kernel, Role};
use serde_json::{Value, json};
use ulid::Ulid;

use super::namespace;
use crate::audit::rows_of;
use crate::halofy;

/// A job that a call with this key asked for, or the kernel itself.
async fn job(kernel: &Kernel, path: &str, key: Option<&Caller>) -> String {
    let id = JobId::new(Ulid::generate());
    let (home, key) = (
        namespace(path),
        key.map(|caller| KeyId(caller.key_id.clone())),
    );
    let work = async move |store: Arc<Store>| {
        let mut tx = store.begin().await?;
        let job = NewJob {
            id,
            kind: JobKind::Embed,
            namespace: &home,
            actor: "user:dana",
            key: key.as_ref(),
            payload: &json!({ "content": "The office is in Bern." }),
            max_attempts: 1,
        };
        tx.job_insert(&job).await?;
        tx.commit().await
    };
    kernel.on_store(work).await.expect("queued");
    id.to_string()
}

async fn ask(caller: &Caller, ticket: &str) -> halofy_tests::Answer {
    caller.call("ticket", json!({ "ticket": ticket })).await
}

#[tokio::test]
async fn a_ticket_tells_its_caller_where_its_job_stands() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme/eng", "user:dana", Role::Agent).await;
    let ticket = job(&kernel, "acme/eng", Some(&dana)).await;
    let answer = ask(&dana, &ticket).await.expect_status(200);
    let queued = json!({ "ticket": ticket, "state": "queued", "attempts": 0 });
    assert_eq!(answer.body, queued);
    let row = kernel.last_audit().await.columns;
    assert_eq!((row.op.as_str(), row.result.as_str()), ("ticket", "ok"));
    assert_eq!(row.detail.as_deref(), Some("state=queued"));

    for (change, state, extra) in [
        (
            "state = 'done', result = '{\"stored\":[\"x\"]}', finished_at = now()",
            "done",
            json!({ "result": { "stored": ["x"] } }),
        ),
        (
            "state = 'dead', result = null, error = 'the model is gone'",
            "dead",
            json!({ "error": "the model is gone" }),
        ),
    ] {
        kernel.sql(format!("update jobs set {change}")).await;
        let answer = ask(&dana, &ticket).await.expect_status(200);
        let mut expected = json!({ "ticket": ticket, "state": state, "attempts": 0 });
        let fields = expected.as_object_mut().expect("an object");
        fields.extend(extra.as_object().expect("an object").clone());
        assert_eq!(answer.body, expected);
    }
}

#[tokio::test]
async fn a_ticket_is_of_whoever_made_the_call_and_of_those_who_manage_the_namespace() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme/eng", "user:dana", Role::Agent).await;
    let ticket = job(&kernel, "acme/eng", Some(&dana)).await;
    for (actor, role) in [
        ("user:dana", Role::Agent),
        ("user:dana", Role::Auditor),
        ("user:o", Role::Admin),
        ("user:o", Role::Owner),
    ] {
        let caller = kernel.key("acme/eng", actor, role).await;
        ask(&caller, &ticket).await.expect_status(200);
    }
    let unknown = JobId::new(Ulid::generate()).to_string();
    for role in [Role::Agent, Role::Member, Role::Auditor] {
        // It may quote what only some may read.
        let other = kernel.key("acme/eng", "user:emil", role).await;
        let hidden = ask(&other, &ticket).await.expect_problem(404, "not_found");
        let detail = kernel.last_audit().await.columns.detail;
        assert_eq!(detail.as_deref(), Some("reason=not_found why=hidden"));
        let missing = ask(&other, &unknown).await.expect_problem(404, "not_found");
        assert_eq!(hidden.text, missing.text);
    }
}

#[tokio::test]
async fn w8_a_job_whose_kernel_went_away_with_its_last_try_is_dead_visible_and_retryable() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let ticket = job(&kernel, "acme", Some(&dana)).await;
    let leave = async |store: Arc<Store>| {
        let claimed = store
            .job_claim(JobKind::Embed, Turn::default(), Duration::ZERO, 1)
            .await;
        claimed.expect("claimed").len()
    };
    assert_eq!(kernel.on_store(leave).await, 1);
    let dead = async {
        loop {
            let answer = ask(&dana, &ticket).await.expect_status(200);
            if answer.body["state"] == "dead" {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let answer = tokio::time::timeout(Duration::from_secs(30), dead).await;
    let answer = answer.expect("the lease runs out, and the kernel sees it");
    assert_eq!(answer.body["error"], "its worker went away");
    let rows = rows_of(&kernel.audit().await, "job");
    let detail = format!("job={ticket} kind=embed state=dead attempts=1 reason=worker_gone");
    assert_eq!(rows.len(), 1, "one end, one row");
    assert_eq!(rows[0].columns.detail, Some(detail));
    let id = ticket.clone();
    let retried = kernel
        .on_gate(async move |gate| gate.job_retry(&id).await)
        .await;
    assert_eq!(retried.expect("retried").attempts, 0);
    assert_eq!(ask(&dana, &ticket).await.body["state"], "queued");
}

#[tokio::test]
async fn n5_a_ticket_of_others_and_an_unknown_one_are_the_same_404() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme/eng", "user:dana", Role::Agent).await;
    let theirs = job(&kernel, "acme/eng", Some(&dana)).await;
    let of_kernel = job(&kernel, "acme", None).await;
    let unknown = JobId::new(Ulid::generate()).to_string();
    let mut bytes = None;
    for (path, ticket, why) in [
        ("acme", &theirs, "hidden"),
        ("acme/eng/x", &theirs, "hidden"),
        ("acme/engineering", &theirs, "hidden"),
        ("other", &theirs, "hidden"),
        ("acme", &of_kernel, "hidden"),
        ("acme", &unknown, "missing"),
    ] {
        let caller = kernel.key(path, "user:o", Role::Owner).await;
        let answer = ask(&caller, ticket).await.expect_problem(404, "not_found");
        let first = bytes.get_or_insert(answer.text.clone());
        assert_eq!(first, &answer.text, "{path}");
        let row = kernel.last_audit().await.columns;
        assert_eq!(row.op, "ticket");
        let detail = format!("reason=not_found why={why}");
        assert_eq!(row.detail, Some(detail), "{path}");
    }
    for bad in [
        "",
        "job_",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        &theirs.to_lowercase(),
    ] {
        ask(&dana, bad).await.expect_invalid("ticket");
    }
    dana.call("ticket", json!({}))
        .await
        .expect_invalid("ticket");
}

#[tokio::test]
async fn an_operator_lists_shows_cancels_and_retries_jobs() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let id = job(&kernel, "acme", Some(&dana)).await;
    let before = kernel.audit().await.len();
    let data = kernel.stop().await;
    let program = halofy().on(&data);
    let run = async |arguments: &[&str]| -> Value {
        let with = [&["jobs"], arguments, &["--json"]].concat();
        program.run(&with).await.expect_code(0).json()
    };
    let listed = run(&["list", "--state", "queued,dead", "--namespace", "acme"]).await;
    assert_eq!(listed[0]["id"], json!(id));
    assert!(
        !listed.to_string().contains("Bern"),
        "what a job holds is not shown"
    );
    assert_eq!(run(&["list", "--state", "done"]).await, json!([]));
    assert_eq!(run(&["cancel", &id]).await["state"], "cancelled");
    let again = program.run(&["jobs", "cancel", &id]).await.expect_code(1);
    assert!(
        again.stderr.contains("the job is cancelled"),
        "{}",
        again.stderr
    );
    let shown = program.run(&["jobs", "show", &id]).await.expect_code(0);
    assert!(
        shown.stdout.contains("state        cancelled"),
        "{}",
        shown.stdout
    );
    let all = ["retry", "--state", "dead,cancelled", "--kind", "embed"];
    assert_eq!(run(&all).await, json!({ "retried": 1 }));
    assert_eq!(run(&all).await, json!({ "retried": 0 }));
    assert_eq!(run(&["cancel", &id]).await["state"], "cancelled");
    assert_eq!(run(&["retry", &id]).await["state"], "queued");
    for (arguments, says) in [
        (vec!["retry"], "required"),
        (vec!["retry", &id, "--state", "dead"], "cannot be used with"),
        (vec!["retry", "--kind", "embed"], "required"),
    ] {
        let refused = program.run(&[vec!["jobs"], arguments].concat()).await;
        assert!(refused.expect_code(2).stderr.contains(says), "{says}");
    }
    let refused = program.run(&["jobs", "retry", "--state", "done"]).await;
    let refused = refused.expect_code(1).stderr;
    assert!(refused.contains("must be dead or cancelled"), "{refused}");
    for (arguments, says) in [
        (["retry", "job_x"], "is not a ticket"),
        (
            ["show", &JobId::new(Ulid::generate()).to_string()],
            "Not found",
        ),
    ] {
        let refused = program.run(&[&["jobs"], &arguments[..]].concat()).await;
        assert!(
            refused.expect_code(1).stderr.contains(says),
            "{arguments:?}"
        );
    }
    let help = program.run(&["jobs", "--help"]).await.expect_code(0).stdout;
    for command in ["list", "show", "retry", "cancel"] {
        assert!(help.contains(command), "{help}");
    }
    expect_audited(&data, before, &id).await;
}

/// Each change has its row, each refusal too, and the job's end one of its own.
async fn expect_audited(data: &Arc<Data>, before: usize, id: &str) {
    let kernel = Kernel::with().on(data).start().await;
    let rows = kernel.audit().await.split_off(before);
    let details = |op: &str| -> Vec<(String, String)> {
        let rows = rows_of(&rows, op).into_iter();
        let columns = rows.map(|row| row.columns);
        columns
            .map(|row| (row.result.clone(), row.detail.unwrap_or_default()))
            .collect()
    };
    let pair = |result: &str, detail: String| (result.to_owned(), detail);
    let about = format!("job={id} kind=embed");
    assert_eq!(
        details("job_cancel"),
        [
            pair("ok", about.clone()),
            pair("error", "reason=job_unfit state=cancelled".to_owned()),
            pair("ok", about.clone()),
        ]
    );
    assert_eq!(
        details("job_retry"),
        [
            pair("ok", "jobs=1 state=dead,cancelled kind=embed".to_owned()),
            pair("ok", "jobs=0 state=dead,cancelled kind=embed".to_owned()),
            pair("ok", about.clone()),
            pair("error", "reason=invalid_field field=state".to_owned()),
            pair("error", "reason=invalid_field field=ticket".to_owned())
        ]
    );
    let ended = format!("{about} state=cancelled attempts=0 reason=cancelled");
    assert_eq!(
        details("job"),
        [pair("ok", ended.clone()), pair("ok", ended)]
    );
    assert!(kernel.verify().await.ok);
}
