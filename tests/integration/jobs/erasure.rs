//! W9: what was erased is neither kept by a job nor made again by one.

use std::collections::BTreeSet;
use std::time::Duration;

use halofy_core::{JobId, JobState, MemoryId};
use halofy_store::{JobChange, JobsOf, Lease, Store};
use halofy_tests::Data;
use serde_json::json;

use super::{LEASE, claim, close, commit, expect_lost, namespace, open, queue, retry, state};

/// What must be nowhere after an erasure.
const CANARY: &str = "canary-5f1b";

#[tokio::test]
async fn w9_an_erased_namespace_keeps_nothing_of_its_jobs_and_runs_none() {
    let data = Data::fresh().await;
    let store = open(&data).await;
    let secret = json!({ "content": CANARY });
    let running = queue(&store, "a_b", secret.clone(), 5).await;
    let lease = claim(&store, LEASE).await.lease;
    let noted = commit(&store, async |tx| tx.job_progress(&lease, &secret).await).await;
    noted.expect("noted");
    let done = queue(&store, "a_b/c", secret.clone(), 5).await;
    let finished = claim(&store, LEASE).await.lease;
    let finish = commit(&store, async |tx| tx.job_finish(&finished, &secret).await).await;
    finish.expect("finished");
    let queued = queue(&store, "a_b/c/d", secret.clone(), 5).await;
    let foreign = queue(&store, "aXb", json!({ "content": "theirs" }), 5).await;

    let home = namespace("a_b");
    let scrub = commit(&store, async |tx| {
        tx.jobs_scrub(JobsOf::Subtree(&home)).await
    })
    .await;
    let touched: BTreeSet<_> = scrub.expect("scrubbed").iter().map(|job| job.id).collect();
    assert_eq!(touched, BTreeSet::from([running, done, queued]));
    expect_lost(&store, &lease).await;
    for (id, expected) in [
        (running, JobState::Cancelled),
        (queued, JobState::Cancelled),
        (done, JobState::Done),
    ] {
        let job = store.job_read(&id).await.expect("read").expect("the job");
        assert!(job.erased_at.is_some());
        assert_eq!(job.ended_by_erasure(), id != done);
        assert_eq!((job.state, job.result), (expected, None));
        assert!(matches!(retry(&store, id).await, JobChange::Unfit(_)));
    }
    let left = format!("select id from jobs j where j::text like '%{CANARY}%'");
    assert_eq!(
        store.raw_sql(&left).await.expect("rows"),
        Vec::<Vec<_>>::new()
    );
    assert_eq!(
        claim(&store, LEASE).await.id(),
        foreign,
        "and nothing else is due"
    );
    close(store).await;
}

#[tokio::test]
async fn w9_jobs_are_found_by_their_source_and_by_their_ids() {
    let data = Data::fresh().await;
    let store = open(&data).await;
    let of = |path: &str| json!({ "content": CANARY, "source": path });
    let held = queue(&store, "acme", of("a.md"), 5).await;
    let other = queue(&store, "acme", of("b.md"), 5).await;
    let below = queue(&store, "acme/eng", of("a.md"), 5).await;
    let elsewhere = queue(&store, "acme-eng", of("a.md"), 5).await;
    let home = namespace("acme");
    let holding = JobsOf::Source(&home, "a.md");
    let scrub = commit(&store, async |tx| tx.jobs_scrub(holding).await).await;
    let touched: BTreeSet<_> = scrub.expect("scrubbed").iter().map(|job| job.id).collect();
    assert_eq!(touched, BTreeSet::from([held, below]));
    let named = commit(&store, async |tx| {
        tx.jobs_scrub(JobsOf::Ids(&[other, held])).await
    })
    .await;
    let touched: Vec<_> = named.expect("scrubbed").iter().map(|job| job.id).collect();
    assert_eq!(touched, [other], "what is erased is not erased again");
    assert_eq!(state(&store, elsewhere).await, JobState::Queued);
    close(store).await;
}

#[tokio::test]
async fn w9_an_erasure_waits_for_the_job_that_is_committing_and_then_sees_its_effect() {
    let data = Data::fresh().await;
    let store = open(&data).await;
    let id = queue(&store, "acme", json!({}), 5).await;
    let lease = claim(&store, LEASE).await.lease;
    let mut working = store.begin().await.expect("a transaction");
    working.job_hold(&lease).await.expect("held");
    let eraser = store.clone();
    let erasure = tokio::spawn(async move {
        let home = namespace("acme");
        let scrub = commit(&eraser, async |tx| {
            tx.jobs_scrub(JobsOf::Subtree(&home)).await
        });
        let erased = scrub.await.expect("scrubbed");
        erased
            .into_iter()
            .map(|job| (job.id, job.state))
            .collect::<Vec<_>>()
    });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!erasure.is_finished(), "it waits");
    let result = json!({ "content": CANARY });
    working.job_finish(&lease, &result).await.expect("finished");
    working.commit().await.expect("committed");
    assert_eq!(erasure.await.expect("erased"), [(id, JobState::Done)]);
    let job = store.job_read(&id).await.expect("read").expect("the job");
    assert_eq!(job.result, None);
    close(store).await;
}

#[tokio::test]
async fn w9_jobs_are_found_by_the_memories_that_they_are_about_or_stored_without_a_scan() {
    let data = Data::fresh().await;
    let store = open(&data).await;
    let id = |at: u128| MemoryId::from_bits(at);
    let about = queue(&store, "acme", json!({ "memory": id(1) }), 5).await;
    let mut stored = Vec::new();
    for (at, list) in [(2, "stored"), (3, "deduplicated"), (4, "disputed")] {
        stored.push(queue(&store, "acme", json!({}), 5).await);
        let lease = claim_of(&store, stored[stored.len() - 1]).await;
        let result = json!({ list: [id(at), id(9)] });
        let done = commit(&store, async |tx| tx.job_finish(&lease, &result).await).await;
        done.expect("finished");
    }
    for (at, job) in [(1, about), (2, stored[0]), (3, stored[1]), (4, stored[2])] {
        let ids = [id(at), id(77)];
        let scrub = commit(&store, async |tx| {
            tx.jobs_scrub(JobsOf::Memories(&ids)).await
        });
        let touched: Vec<_> = scrub.await.expect("scrubbed");
        let touched: Vec<_> = touched.iter().map(|job| job.id).collect();
        assert_eq!(touched, [job]);
    }
    // Among many finished jobs it takes an index and not the table.
    store
        .raw_sql(
            "insert into jobs (id, kind, namespace, actor, payload, max_attempts, state, finished_at)
             select 'job_' || lpad(at::text, 26, '0'), 'conflict', 'acme', 'kernel', '{}', 5, 'done',
                    now() from generate_series(1, 20000) as at;
             analyze jobs",
        )
        .await
        .expect("planted");
    let plan = store
        .raw_sql(
            "explain select id from jobs where erased_at is null
                 and (payload ->> 'memory' = any(array['a', 'b'])
                      or (memories <> '{}' and memories && array['a', 'b']))",
        )
        .await
        .expect("a plan");
    let plan: Vec<String> = plan.into_iter().flatten().flatten().collect();
    let plan = plan.join("\n");
    assert!(
        plan.contains("jobs_memory_idx") && plan.contains("jobs_memories_idx"),
        "{plan}"
    );
    close(store).await;
}

/// Takes up this job, which is due.
async fn claim_of(store: &Store, id: JobId) -> Lease {
    loop {
        let job = claim(store, LEASE).await;
        if job.id() == id {
            return job.lease;
        }
    }
}
