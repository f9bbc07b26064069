//! Calls under an `Idempotency-Key` (W2): made once, answered the same each time, and gone
//! when what they stored is.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use halofy_core::{JobId, JobKind, KeyId, MemoryId, Namespace, Op};
use halofy_store::{
    AnswersOf, Claimed, Failed, IdempotencyClaim, JobsOf, NewJob, Store, StoreError, Turn,
};
use halofy_tests::{Answer, Caller, Kernel, Role};
use reqwest::Method;
use serde_json::{Value, json};
use ulid::Ulid;

use crate::audit::rows_of;

const HEADER: &str = "Idempotency-Key";
const FACT: &str = "The office is in Bern.";

async fn post(caller: &Caller, op: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let path = format!("/v1/mem/{op}");
    caller
        .raw(Method::POST, &path, headers, body.to_string())
        .await
}

async fn write(caller: &Caller, key: &str, content: &str) -> Answer {
    let body = json!({ "content": content });
    post(caller, "write", &[(HEADER, key)], &body).await
}

/// What the audit log says of writes, in order.
async fn details(kernel: &Kernel) -> Vec<String> {
    let rows = rows_of(&kernel.audit().await, "write").into_iter();
    rows.filter_map(|row| row.columns.detail).collect()
}

async fn count(kernel: &Kernel) -> String {
    kernel
        .sql_value("select count(*) from memory_objects")
        .await
}

#[tokio::test]
async fn w2_the_same_call_again_gets_the_first_answer_and_has_no_effect() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let first = write(&dana, "order-1", FACT).await.expect_status(200);
    for _ in 0..3 {
        let again = write(&dana, "order-1", FACT).await.expect_status(200);
        assert_eq!(again.text, first.text, "stored, and not deduplicated");
    }
    let memory = dana.read(first.id()).await.expect_status(200);
    assert_eq!(memory.body["telemetry"]["accessCount"], 0);
    let call = first.headers["x-request-id"].to_str().expect("text");
    let replayed = format!("replayed={call}");
    let expected = ["stored=1", &replayed, &replayed, &replayed];
    assert_eq!(details(&kernel).await, expected);
    let other = write(&dana, "order-2", FACT).await.expect_status(200);
    assert_eq!(other.body["deduplicated"], json!([first.id()]));
    assert!(kernel.verify().await.ok);
}

#[tokio::test]
async fn w2_of_twenty_at_once_one_has_the_effect_and_all_get_its_answer() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let mut callers = vec![dana.clone()];
    let mut second = None;
    if kernel.data().is_on_server() {
        let other = Kernel::with().on(kernel.data()).start().await;
        callers.push(other.caller(&dana.key, &dana.key_id));
        second = Some(other);
    }
    for round in 0..3 {
        let (key, fact) = (format!("k{round}"), format!("Parcel {round} is due."));
        let calls = (0..20).map(|at| write(&callers[at % callers.len()], &key, &fact));
        let answers = join_all(calls).await;
        let first = answers[0].clone().expect_status(200);
        assert_eq!(first.body["stored"][0], json!(first.id()));
        for answer in answers {
            assert_eq!(answer.expect_status(200).text, first.text);
        }
    }
    assert_eq!(count(&kernel).await, "3");
    let details = details(&kernel).await;
    let stored = details.iter().filter(|detail| *detail == "stored=1");
    assert_eq!((details.len(), stored.count()), (60, 3));
    let replays = details
        .iter()
        .filter(|detail| detail.starts_with("replayed="));
    assert_eq!(replays.count(), 57);
    drop(second);
}

#[tokio::test]
async fn w2_the_same_key_with_another_body_is_a_conflict() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let first = write(&dana, "k", FACT).await.expect_status(200);
    for body in [
        "{\"content\":\"Other.\"}",
        "{ \"content\":\"The office is in Bern.\"}",
        "{}",
        "",
    ] {
        let path = "/v1/mem/write";
        let answer = dana.raw(Method::POST, path, &[(HEADER, "k")], body).await;
        answer.expect_problem(409, "idempotency_conflict");
        let row = kernel.last_audit().await.columns;
        assert_eq!((row.op.as_str(), row.result.as_str()), ("write", "error"));
        assert_eq!(row.detail.as_deref(), Some("reason=idempotency_conflict"));
    }
    assert_eq!(write(&dana, "k", FACT).await.text, first.text);
    assert_eq!(count(&kernel).await, "1");
}

#[tokio::test]
async fn w2_a_kernel_that_was_stopped_and_started_gives_the_first_answer_too() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let first = write(&dana, "k", FACT).await.expect_status(200);
    let kernel = Kernel::with().on(&kernel.stop().await).start().await;
    let dana = kernel.caller(&dana.key, &dana.key_id);
    assert_eq!(
        write(&dana, "k", FACT).await.expect_status(200).text,
        first.text
    );
    write(&dana, "k", "Other.")
        .await
        .expect_problem(409, "idempotency_conflict");
    assert_eq!(count(&kernel).await, "1");
}

#[tokio::test]
async fn two_callers_may_choose_the_same_key() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let emil = kernel.key("acme", "user:emil", Role::Agent).await;
    let of_dana = write(&dana, "k", "Dana is here.").await.expect_status(200);
    let of_emil = write(&emil, "k", "Emil is here.").await.expect_status(200);
    assert_ne!(of_dana.id(), of_emil.id());
}

#[tokio::test]
async fn a_refused_call_leaves_its_key_free() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    write(&dana, "k", " ").await.expect_invalid("content");
    kernel.policy("acme", json!({ "suspended": true })).await;
    write(&dana, "k", FACT)
        .await
        .expect_problem(403, "suspended");
    kernel.policy("acme", json!({})).await;
    let stored = write(&dana, "k", FACT).await.expect_status(200);
    assert_eq!(write(&dana, "k", FACT).await.text, stored.text);
    // A key that may not call gets no answer of one that might.
    kernel.policy("acme", json!({ "suspended": true })).await;
    write(&dana, "k", FACT)
        .await
        .expect_problem(403, "suspended");
}

#[tokio::test]
async fn what_is_no_key_is_refused_and_reads_need_none() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let long = "k".repeat(256);
    for bad in ["", "a b", "\u{e9}", &long] {
        write(&dana, bad, FACT).await.expect_invalid(HEADER);
        let row = kernel.last_audit().await.columns;
        assert_eq!(
            (row.op.as_str(), row.actor.as_str()),
            ("write", "user:dana")
        );
        assert_eq!(
            row.detail.as_deref(),
            Some("reason=invalid_field field=Idempotency-Key")
        );
    }
    let body = json!({ "content": FACT });
    let twice = [(HEADER, "k"), (HEADER, "k")];
    post(&dana, "write", &twice, &body)
        .await
        .expect_invalid(HEADER);
    assert_eq!(count(&kernel).await, "0");
    let longest = "~".repeat(255);
    write(&dana, &longest, FACT).await.expect_status(200);
    for (op, body) in [("stats", json!({})), ("search", json!({ "query": "Bern" }))] {
        for headers in [&twice[..], &[(HEADER, "a b")], &[(HEADER, &longest)]] {
            post(&dana, op, headers, &body).await.expect_status(200);
        }
    }
    let keys = kernel
        .sql_value("select count(*) from idempotency_keys")
        .await;
    assert_eq!(keys, "1");
}

#[tokio::test]
async fn w2_after_an_erasure_the_call_is_neither_answered_nor_made_again() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme/eng", "user:dana", Role::Agent).await;
    let other = kernel.key("acme/engine", "user:other", Role::Agent).await;
    let kept = write(&other, "k", FACT).await.expect_status(200);
    let first = write(&dana, "first", "One.").await.expect_status(200);
    let second = write(&dana, "second", "Two.").await.expect_status(200);
    let id: MemoryId = MemoryId::parse(first.id()).expect("an id");
    let erase_one = async move |store: Arc<Store>| {
        let mut tx = store.begin().await?;
        let erased = tx.idempotency_erase(AnswersOf::Memories(&[id])).await?;
        tx.commit().await?;
        Ok::<_, StoreError>(erased)
    };
    assert_eq!(kernel.on_store(erase_one).await.expect("erased"), 1);
    let gone = write(&dana, "first", "One.").await;
    gone.expect_problem(410, "idempotency_erased");
    write(&dana, "first", "Other.")
        .await
        .expect_problem(409, "idempotency_conflict");
    assert_eq!(write(&dana, "second", "Two.").await.text, second.text);

    let erase_all = async |store: Arc<Store>| {
        let home: Namespace = "acme/eng".parse().expect("a namespace");
        let mut tx = store.begin().await?;
        let erased = tx.idempotency_erase(AnswersOf::Subtree(&home)).await?;
        tx.commit().await?;
        Ok::<_, StoreError>(erased)
    };
    assert_eq!(kernel.on_store(erase_all).await.expect("erased"), 1);
    let gone = write(&dana, "second", "Two.").await;
    gone.expect_problem(410, "idempotency_erased");
    assert_eq!(write(&other, "k", FACT).await.text, kept.text);
    let left = "select count(*) from idempotency_keys
                 where state = 'erased' and answer is null and memory_ids = '{}'";
    assert_eq!(kernel.sql_value(left).await, "2");
}

/// A claim as a write of several transactions makes it, with the job that finishes it.
async fn open_claim(kernel: &Kernel, caller: &Caller, name: &str, content: &str) -> JobId {
    let body = json!({ "content": content }).to_string();
    let hash = halofy_cartridge::Digest::of(body.as_bytes()).0;
    let job = JobId::new(Ulid::generate());
    let claim = IdempotencyClaim {
        key: KeyId(caller.key_id.clone()),
        name: name.to_owned(),
        op: Op::Write,
        body_hash: hash,
        call: Ulid::generate().to_string(),
    };
    let work = async move |store: Arc<Store>| {
        let home: Namespace = "acme".parse().expect("a namespace");
        let mut tx = store.begin().await?;
        let claimed = tx.idempotency_claim(&claim, Some(&job)).await?;
        assert_eq!(claimed, Claimed::Ours);
        let new = NewJob {
            id: job,
            kind: JobKind::Embed,
            namespace: &home,
            actor: "user:dana",
            key: Some(&claim.key),
            payload: &json!({}),
            max_attempts: 1,
        };
        tx.job_insert(&new).await?;
        tx.commit().await
    };
    kernel.on_store(work).await.expect("claimed");
    job
}

#[tokio::test]
async fn w2_a_call_that_is_not_finished_is_waited_for_and_finished_by_its_job() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    open_claim(&kernel, &dana, "k", FACT).await;
    let asked = Instant::now();
    let early = write(&dana, "k", FACT).await;
    let early = early.expect_problem(409, "idempotency_in_progress");
    assert_eq!(early.headers["retry-after"], "1");
    assert!(
        asked.elapsed() >= Duration::from_secs(10),
        "it was waited for"
    );

    let answer = json!({ "stored": ["01ARZ3NDEKTSV4RRFFQ69G5FAV"] });
    let stored = answer.clone();
    let finish = async move |store: Arc<Store>| {
        // The second call is waiting by now.
        tokio::time::sleep(Duration::from_millis(300)).await;
        let job = store
            .job_claim(JobKind::Embed, Turn::default(), Duration::from_secs(60), 1)
            .await?;
        let mut tx = store.begin().await?;
        tx.job_finish(&job[0].lease, &stored).await?;
        tx.idempotency_answer_job(&job[0].id(), &stored, &[])
            .await?;
        tx.commit().await
    };
    let (finished, waited) = tokio::join!(kernel.on_store(finish), write(&dana, "k", FACT));
    finished.expect("finished");
    assert_eq!(waited.expect_status(200).body, answer);
    assert_eq!(count(&kernel).await, "0");
}

#[tokio::test]
async fn the_key_of_a_call_whose_job_is_dead_is_free_and_of_an_erased_one_is_gone() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    open_claim(&kernel, &dana, "dies", FACT).await;
    let die = async |store: Arc<Store>| {
        let job = store
            .job_claim(JobKind::Embed, Turn::default(), Duration::from_secs(60), 1)
            .await?;
        let mut tx = store.begin().await?;
        tx.job_fail(&job[0].lease, "no", Failed::Dead).await?;
        tx.commit().await
    };
    kernel.on_store(die).await.expect("dead");
    write(&dana, "dies", FACT).await.expect_status(200);

    let job = open_claim(&kernel, &dana, "erased", "Two.").await;
    let erase = async move |store: Arc<Store>| {
        let mut tx = store.begin().await?;
        tx.jobs_scrub(JobsOf::Ids(&[job])).await?;
        tx.commit().await
    };
    kernel.on_store(erase).await.expect("erased");
    let gone = write(&dana, "erased", "Two.").await;
    gone.expect_problem(410, "idempotency_erased");
    assert_eq!(count(&kernel).await, "1");
}

#[tokio::test]
async fn w2_erasing_everything_under_a_key_is_done_once_and_answered_alike() {
    let kernel = Kernel::start().await;
    let owner = kernel.key("acme", "user:owner", Role::Owner).await;
    write(&owner, "first", FACT).await.expect_status(200);
    let everything = json!({ "everything": true });
    let erase = async || post(&owner, "forget", &[(HEADER, "all")], &everything).await;
    let erased = erase().await.expect_status(200);
    assert_eq!(erased.body["erased"].as_array().map(Vec::len), Some(1));
    assert_eq!(erased.body["answers"], 1, "its own is not among them");
    owner.write("Something new.").await.expect_status(200);
    assert_eq!(erase().await.text, erased.text);
    let left = "select count(*) from memory_objects";
    assert_eq!(kernel.sql_value(left).await, "1", "it is not made again");
    let gone = write(&owner, "first", FACT).await;
    gone.expect_problem(410, "idempotency_erased");
}
