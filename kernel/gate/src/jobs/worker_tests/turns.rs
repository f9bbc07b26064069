//! Whose turn it is: kinds beside each other, namespaces in turn, and what is left alone.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use halofy_core::{JobKind, JobState};
use tokio::sync::Semaphore;

use super::{Bench, failure, well};
use crate::jobs::{Again, Handlers, Run};

#[tokio::test]
async fn a_kind_that_takes_long_leaves_a_place_for_the_other_and_namespaces_take_turns() {
    let bench = Bench::open().await;
    let order = Arc::new(Mutex::new(Vec::new()));
    let (go_on, waits) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let seen = order.clone();
    let (hold, held) = (go_on.clone(), waits.clone());
    let mut checks = Vec::new();
    for _ in 0..40 {
        checks.push(bench.queue_in("a", JobKind::Conflict, 1).await);
    }
    for namespace in ["b", "c"] {
        checks.push(bench.queue_in(namespace, JobKind::Conflict, 1).await);
    }
    let handlers =
        Handlers::default()
            .on(JobKind::Write, well)
            .on(JobKind::Conflict, move |run: Run| {
                let (seen, hold, held) = (seen.clone(), hold.clone(), held.clone());
                async move {
                    let running = {
                        let mut seen = seen.lock().expect("not poisoned");
                        seen.push(run.job.namespace.to_string());
                        seen.len()
                    };
                    if running <= 4 {
                        held.add_permits(1);
                        drop(hold.acquire().await);
                    }
                    well(run).await
                }
            });
    bench.start(handlers);
    drop(waits.acquire_many(4).await.expect("four run"));
    // All checks that may run do, and none comes to its end.
    let write = bench.queue_in("d", JobKind::Write, 1).await;
    assert_eq!(bench.ended(write).await.state, JobState::Done);
    assert_eq!(order.lock().expect("not poisoned").len(), 4);
    go_on.add_permits(4);
    for check in checks {
        assert_eq!(bench.ended(check).await.state, JobState::Done);
    }
    let order = order.lock().expect("not poisoned").clone();
    let first: BTreeSet<&str> = order[..4].iter().map(String::as_str).collect();
    assert_eq!(first, BTreeSet::from(["a", "b", "c"]), "{order:?}");
    bench.stop().await;
}

#[tokio::test]
async fn what_is_postponed_counts_neither_way_and_its_namespace_is_left_alone_meanwhile() {
    let bench = Bench::open().await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    bench.start(Handlers::default().on(JobKind::Conflict, move |run: Run| {
        let runs = counted.clone();
        async move {
            if run.job.namespace.as_str() == "other" {
                return well(run).await;
            }
            runs.fetch_add(1, Ordering::Relaxed);
            Err(failure(Again::Postponed(Duration::from_secs(60))))
        }
    }));
    let first = bench.queue(JobKind::Conflict, 1).await;
    assert_eq!(bench.waiting(first).await.attempts, 0);
    let mut others = Vec::new();
    for _ in 0..20 {
        others.push(bench.queue(JobKind::Conflict, 1).await);
    }
    let elsewhere = bench.queue_in("other", JobKind::Conflict, 1).await;
    assert_eq!(bench.ended(elsewhere).await.state, JobState::Done);
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(runs.load(Ordering::Relaxed), 1, "nobody asks in vain again");
    for id in others {
        let job = bench.job(id).await;
        assert_eq!((job.state, job.attempts), (JobState::Queued, 0));
    }
    bench.stop().await;
}
