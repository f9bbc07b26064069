//! What becomes of jobs that came to their end: those that nobody needs go, dead ones stay
//! until somebody brings them back, one or many.

use std::collections::BTreeSet;
use std::time::Duration;

use halofy_core::{JobId, JobKind, JobState};
use halofy_store::{Failed, JobFilter, Kept, Pruned};
use halofy_tests::{Data, Kernel, Role};
use serde_json::json;

use super::{LEASE, claim, close, commit, namespace, open, queue, state};
use crate::audit::rows_of;

const DAY: Duration = Duration::from_secs(86_400);
const KEPT: Kept = Kept {
    checks: DAY.saturating_mul(7),
    tickets: DAY.saturating_mul(30),
};

#[tokio::test]
async fn jobs_that_were_kept_long_enough_go_a_batch_at_a_time() {
    let data = Data::fresh().await;
    let store = open(&data).await;
    let mut ids = Vec::new();
    for _ in 0..7 {
        ids.push(queue(&store, "acme", json!({}), 5).await);
    }
    for (id, state, days) in [
        (ids[0], "done", 8),
        (ids[1], "cancelled", 9),
        (ids[2], "done", 10),
        (ids[3], "done", 6),
        (ids[4], "dead", 400),
    ] {
        let sql = format!(
            "update jobs set state = '{state}', finished_at = now() - interval '{days} days'
              where id = '{id}'"
        );
        store.raw_sql(&sql).await.expect("updated");
    }
    let mut gone = Vec::new();
    for _ in 0..3 {
        let pruned = commit(&store, async |tx| tx.jobs_prune(KEPT, 2).await).await;
        let Pruned { checks, tickets } = pruned.expect("pruned");
        gone.push((checks, tickets));
    }
    assert_eq!(gone, [(2, 0), (1, 0), (0, 0)]);
    let all = JobFilter {
        limit: 100,
        ..JobFilter::default()
    };
    let left = store.job_list(&all).await.expect("listed");
    let left: BTreeSet<JobId> = left.into_iter().map(|job| job.id).collect();
    assert_eq!(left, ids[3..].iter().copied().collect());
    close(store).await;
}

#[tokio::test]
async fn a_kernel_deletes_old_checks_and_tickets_and_the_answers_under_their_keys_stay() {
    let kernel = Kernel::start().await;
    let dana = kernel.key("acme", "user:dana", Role::Agent).await;
    let write = json!({ "content": "The office is in Bern.", "async": true }).to_string();
    let key = [("Idempotency-Key", "letter-1")];
    let send = || dana.raw(reqwest::Method::POST, "/v1/mem/write", &key, write.clone());
    let first = send().await.expect_status(200);
    let ticket = first.body["ticket"].as_str().expect("a ticket").to_owned();
    let ended = async || {
        let asked = dana.call("ticket", json!({ "ticket": ticket })).await;
        asked.body["state"] == "done"
    };
    while !ended().await {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let old = "update jobs set finished_at = now() - interval '31 days' where state = 'done'";
    kernel.sql(old).await;
    let before = kernel.audit().await.len();
    let data = kernel.stop().await;
    let kernel = Kernel::with().on(&data).start().await;
    let dana = kernel.caller(&dana.key, &dana.key_id);
    let left = "select count(*) from jobs";
    let waited = async {
        while kernel.sql_value(left).await != "0" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), waited).await;
    waited.expect("it goes when a kernel looks");
    let again = dana.raw(reqwest::Method::POST, "/v1/mem/write", &key, write.clone());
    assert_eq!(
        again.await.expect_status(200).text,
        first.text,
        "not made again"
    );
    let gone = dana.call("ticket", json!({ "ticket": ticket })).await;
    gone.expect_problem(404, "not_found");
    let memories = "select count(*) from memory_objects";
    assert_eq!(kernel.sql_value(memories).await, "1");
    let rows = kernel.audit().await.split_off(before);
    let rows = rows_of(&rows, "job_prune");
    assert_eq!(rows.len(), 1);
    assert_eq!(
        rows[0].columns.detail.as_deref(),
        Some("checks=0 tickets=1")
    );
    assert_eq!(rows[0].columns.actor, "kernel");
    assert!(kernel.verify().await.ok);
}

#[tokio::test]
async fn dead_jobs_are_brought_back_by_kind_and_subtree_with_all_their_tries() {
    let data = Data::fresh().await;
    let store = open(&data).await;
    let mut ids = Vec::new();
    for path in ["acme", "acme/eng", "other", "acme"] {
        let id = queue(&store, path, json!({}), 1).await;
        let lease = claim(&store, LEASE).await.lease;
        let dead = commit(&store, async |tx| {
            tx.job_fail(&lease, "no", Failed::Dead).await
        })
        .await;
        dead.expect("dead");
        ids.push(id);
    }
    let retry = async |kind: JobKind, under: &str, limit: usize| {
        let filter = JobFilter {
            states: vec![JobState::Dead],
            kinds: vec![kind],
            under: Some(namespace(under)),
            limit,
        };
        let retried = commit(&store, async |tx| tx.jobs_retry(&filter).await).await;
        retried.expect("retried")
    };
    assert_eq!(retry(JobKind::Conflict, "acme", 10).await, 0);
    assert_eq!(retry(JobKind::Embed, "acme", 2).await, 2);
    let mut states = Vec::new();
    for id in &ids {
        states.push(state(&store, *id).await);
    }
    let (queued, dead) = (JobState::Queued, JobState::Dead);
    assert_eq!(states, [queued, queued, dead, dead], "the oldest first");
    assert_eq!(claim(&store, LEASE).await.attempts, 1);
    close(store).await;
}
