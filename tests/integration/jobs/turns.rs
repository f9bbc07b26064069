//! Whose turn it is: namespaces take turns, whatever one has queued, and a claim costs the
//! same however much that is.

use std::time::{Duration, Instant};

use halofy_core::{JobId, JobKind, Namespace};
use halofy_store::{Job, Store, Turn};
use halofy_tests::Data;
use serde_json::json;

use super::{LEASE, close, namespace, open, queue};

/// Claims, and gives whose jobs those are, in order.
async fn turn(store: &Store, after: &str, passing: &[Namespace], limit: usize) -> Vec<Job> {
    let after = (!after.is_empty()).then(|| namespace(after));
    let turn = Turn {
        after: after.as_ref(),
        passing,
    };
    let claimed = store.job_claim(JobKind::Embed, turn, LEASE, limit).await;
    claimed.expect("claimed")
}

fn whose(jobs: &[Job]) -> Vec<&str> {
    jobs.iter().map(|job| job.namespace.as_str()).collect()
}

/// Queues many jobs in one statement.
async fn plant(store: &Store, path: &str, kind: &str, count: u32, from: u32) {
    let sql = format!(
        "insert into jobs (id, kind, namespace, actor, payload, max_attempts)
         select 'job_' || lpad(at::text, 26, '0'), '{kind}', '{path}', 'kernel', '{{}}', 5
           from generate_series({from}, {from} + {count} - 1) as at"
    );
    store.raw_sql(&sql).await.expect("planted");
}

#[tokio::test]
async fn namespaces_take_turns_and_each_gives_the_longest_due_first() {
    let data = Data::fresh().await;
    let store = open(&data).await;
    plant(&store, "b", "embed", 50, 1).await;
    plant(&store, "d", "embed", 2, 100).await;
    plant(&store, "b/c", "embed", 1, 200).await;
    let ids = |jobs: &[Job]| -> Vec<JobId> { jobs.iter().map(Job::id).collect() };
    let first = turn(&store, "", &[], 5).await;
    assert_eq!(whose(&first), ["b", "b/c", "d", "b", "d"]);
    let of_b: Vec<JobId> = ids(&first)[..4].iter().step_by(3).copied().collect();
    let digits = |at: u32| JobId::parse(&format!("job_{at:026}")).expect("an id");
    assert_eq!(of_b, [digits(1), digits(2)]);
    queue(&store, "a", json!({}), 5).await;
    queue(&store, "c", json!({}), 5).await;
    // Behind the one that was served last, and then from the beginning.
    assert_eq!(whose(&turn(&store, "b", &[], 2).await), ["c", "a"]);
    queue(&store, "e", json!({}), 5).await;
    assert_eq!(whose(&turn(&store, "e", &[], 3).await), ["b", "e", "b"]);
    assert_eq!(whose(&turn(&store, "b", &[], 2).await), ["b", "b"]);
    let others = turn(&store, "", &[namespace("b")], 5).await;
    assert!(others.is_empty(), "{others:?}");
    let rest = turn(&store, "zz", &[], 100).await;
    assert_eq!(rest.len(), 44);
    assert!(turn(&store, "b", &[], 5).await.is_empty());
    close(store).await;
}

#[tokio::test]
async fn a_job_that_is_not_due_neither_runs_nor_keeps_others_waiting() {
    let data = Data::fresh().await;
    let store = open(&data).await;
    for path in ["a", "b", "c"] {
        queue(&store, path, json!({}), 5).await;
    }
    let later = "update jobs set run_after = now() + interval '1 hour' where namespace <> 'b'";
    store.raw_sql(later).await.expect("updated");
    let due = "update jobs set run_after = run_after - interval '1 minute'";
    store.raw_sql(due).await.expect("updated");
    queue(&store, "b", json!({}), 5).await;
    assert_eq!(whose(&turn(&store, "a", &[], 1).await), ["b"]);
    assert_eq!(whose(&turn(&store, "b", &[], 5).await), ["b"]);
    assert!(turn(&store, "", &[], 5).await.is_empty());
    close(store).await;
}

#[tokio::test]
async fn a_claim_is_cheap_among_a_hundred_thousand_queued_jobs() {
    let data = Data::fresh().await;
    let store = open(&data).await;
    plant(&store, "importing", "embed", 90_000, 1).await;
    // Many namespaces whose jobs wait.
    store
        .raw_sql(
            "insert into jobs (id, kind, namespace, actor, payload, max_attempts, run_after)
             select 'job_' || lpad(at::text, 26, '0'), 'embed', 'tenant-' || at % 1000, 'kernel',
                    '{}', 5, now() + interval '1 hour'
               from generate_series(100001, 110000) as at;
             analyze jobs",
        )
        .await
        .expect("planted");
    queue(&store, "late", json!({}), 5).await;
    let mut took = Vec::new();
    let mut after = String::new();
    let mut seen = 0;
    for _ in 0..20 {
        let began = Instant::now();
        let jobs = turn(&store, &after, &[], 4).await;
        took.push(began.elapsed());
        seen += jobs
            .iter()
            .filter(|job| job.namespace.as_str() == "late")
            .count();
        assert_eq!(jobs.len(), 4);
        after = jobs[3].namespace.to_string();
    }
    assert_eq!(seen, 1, "it waited for nobody");
    took.sort();
    assert!(took[10] < Duration::from_millis(250), "{took:?}");
    close(store).await;
}
