//! Jobs: leases under claims, cancels, kills and erasures (W8, W9), tickets, and the
//! operator's commands. Here are leases and states on the store itself, as in `erasure`, `turns`
//! and `ends`; `tickets` and `outages` ask a kernel.
//!
//! The jobs are of a kind that nothing runs, so that no worker gets in between.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use halofy_core::{JobId, JobKind, JobState, Namespace};
use halofy_store::{
    Failed, Job, JobChange, JobFilter, Lease, NewJob, Stale, Store, StoreConfig, StoreError,
    Transaction, Turn, VectorSpace,
};
use halofy_tests::Data;
use serde_json::{Value, json};
use ulid::Ulid;

mod ends;
mod erasure;
mod outages;
mod tickets;
mod turns;

const LEASE: Duration = Duration::from_secs(60);

async fn open(data: &Data) -> Arc<Store> {
    let mut config = StoreConfig::new(data.location());
    config.max_connections = 6;
    let space = VectorSpace {
        embedder: "none".to_owned(),
        dimension: 2,
    };
    Arc::new(Store::open(config, space).await.expect("a store"))
}

async fn close(store: Arc<Store>) {
    let store = Arc::try_unwrap(store).map_err(drop);
    store.expect("nobody else has it").close().await;
}

fn namespace(path: &str) -> Namespace {
    path.parse().expect("a namespace")
}

/// Queues a job and gives its id.
async fn queue(store: &Store, path: &str, payload: Value, max_attempts: u32) -> JobId {
    let id = JobId::new(Ulid::generate());
    let mut tx = store.begin().await.expect("a transaction");
    let job = NewJob {
        id,
        kind: JobKind::Embed,
        namespace: &namespace(path),
        actor: "user:u",
        key: None,
        payload: &payload,
        max_attempts,
    };
    tx.job_insert(&job).await.expect("queued");
    tx.commit().await.expect("committed");
    id
}

async fn claim_some(store: &Store, lease: Duration, limit: usize) -> Vec<Job> {
    let claimed = store.job_claim(JobKind::Embed, Turn::default(), lease, limit);
    claimed.await.expect("claimed")
}

async fn claim(store: &Store, lease: Duration) -> Job {
    let mut claimed = claim_some(store, lease, 1).await;
    claimed.pop().expect("a job is due")
}

async fn reap(store: &Store, stale: Stale) -> Vec<(JobId, JobState)> {
    let mut tx = store.begin().await.expect("a transaction");
    let reaped = tx.jobs_reap(stale).await.expect("reaped");
    tx.commit().await.expect("committed");
    reaped.into_iter().map(|job| (job.id, job.state)).collect()
}

async fn state(store: &Store, id: JobId) -> JobState {
    let job = store.job_read(&id).await.expect("read");
    job.expect("the job").state
}

/// Does one thing in a transaction, and commits it if it went well.
async fn commit<T>(
    store: &Store,
    work: impl AsyncFnOnce(&mut Transaction<'_>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut tx = store.begin().await?;
    let done = work(&mut tx).await?;
    tx.commit().await?;
    Ok(done)
}

async fn retry(store: &Store, id: JobId) -> JobChange {
    let retried = commit(store, async |tx| tx.job_retry(&id).await).await;
    retried.expect("a change")
}

async fn cancel(store: &Store, id: JobId) -> JobChange {
    let cancelled = commit(store, async |tx| tx.job_cancel(&id).await).await;
    cancelled.expect("a change")
}

/// Asserts that whoever holds this can change nothing.
async fn expect_lost(store: &Store, lease: &Lease) {
    let value = json!({ "late": true });
    let outcomes = [
        store.job_extend(lease, LEASE).await,
        store.job_release(lease).await,
        commit(store, async |tx| tx.job_hold(lease).await).await,
        commit(store, async |tx| tx.job_progress(lease, &value).await).await,
        commit(store, async |tx| tx.job_finish(lease, &value).await).await,
        commit(store, async |tx| {
            tx.job_fail(lease, "late", Failed::Dead).await
        })
        .await,
    ];
    for (at, outcome) in outcomes.into_iter().enumerate() {
        assert!(
            matches!(outcome, Err(StoreError::LeaseLost)),
            "{at}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn of_many_claims_at_once_each_job_goes_to_one() {
    let data = Data::fresh().await;
    let mut stores = vec![open(&data).await];
    if data.is_on_server() {
        stores.push(open(&data).await);
    }
    let mut queued = BTreeSet::new();
    for n in 0..30 {
        queued.insert(queue(&stores[0], "acme", json!({ "n": n }), 5).await);
    }
    let claims = (0..12).map(|at| {
        let store = stores[at % stores.len()].clone();
        async move { claim_some(&store, LEASE, 3).await }
    });
    let mut claimed: Vec<Job> = join_all(claims).await.concat();
    // Rows that another claim had locked were passed over.
    while claimed.len() < queued.len() {
        let rest = claim_some(&stores[0], LEASE, 100).await;
        assert!(!rest.is_empty(), "{} of 30", claimed.len());
        claimed.extend(rest);
    }
    let ids: BTreeSet<JobId> = claimed.iter().map(Job::id).collect();
    assert_eq!((ids, claimed.len()), (queued, 30));
    assert!(claimed.iter().all(|job| job.attempts == 1));
    for store in stores {
        close(store).await;
    }
}

#[tokio::test]
async fn a_claim_takes_what_is_due_of_its_kind_the_longest_due_first() {
    let data = Data::fresh().await;
    let store = open(&data).await;
    let first = queue(&store, "acme", json!({}), 5).await;
    let second = queue(&store, "acme", json!({}), 5).await;
    let others = store
        .job_claim(JobKind::Write, Turn::default(), LEASE, 10)
        .await;
    assert!(others.expect("claimed").is_empty());
    let job = claim(&store, LEASE).await;
    assert_eq!(job.id(), first);
    let later = Failed::Retry(Duration::from_secs(3_600));
    let failed = commit(&store, async |tx| {
        tx.job_fail(&job.lease, "why", later).await
    })
    .await;
    failed.expect("failed");
    assert_eq!(claim(&store, LEASE).await.id(), second);
    let due = claim_some(&store, LEASE, 10).await;
    assert!(due.is_empty(), "the first is due in an hour");
    let job = store
        .job_read(&first)
        .await
        .expect("read")
        .expect("the job");
    assert_eq!((job.state, job.attempts), (JobState::Queued, 1));
    assert_eq!(job.error.as_deref(), Some("why"));
    close(store).await;
}

#[tokio::test]
async fn w8_a_worker_that_lost_its_lease_can_change_nothing_any_more() {
    let data = Data::fresh().await;
    let store = open(&data).await;
    let id = queue(&store, "acme", json!({}), 5).await;
    let late = claim(&store, Duration::ZERO).await;
    assert_eq!(reap(&store, Stale::Expired).await, [(id, JobState::Queued)]);
    expect_lost(&store, &late.lease).await;
    let now = claim(&store, LEASE).await;
    assert_eq!((now.id(), now.attempts), (id, 2));
    expect_lost(&store, &late.lease).await;

    // An effect in the transaction of the fence goes with it.
    let effect = commit(&store, async |tx| {
        let other = NewJob {
            id: JobId::new(Ulid::generate()),
            kind: JobKind::Embed,
            namespace: &namespace("effect"),
            actor: "user:u",
            key: None,
            payload: &json!({}),
            max_attempts: 1,
        };
        tx.job_insert(&other).await?;
        tx.job_finish(&late.lease, &json!({})).await
    });
    assert!(matches!(effect.await, Err(StoreError::LeaseLost)));
    let jobs = store.raw_sql("select namespace, state from jobs").await;
    let only = vec![vec![Some("acme".to_owned()), Some("running".to_owned())]];
    assert_eq!(jobs.expect("rows"), only);

    let result = json!({ "stored": [] });
    let done = commit(&store, async |tx| tx.job_finish(&now.lease, &result).await).await;
    done.expect("finished");
    expect_lost(&store, &now.lease).await;
    let job = store.job_read(&id).await.expect("read").expect("the job");
    assert_eq!((job.state, job.result), (JobState::Done, Some(result)));
    close(store).await;
}

#[tokio::test]
async fn w8_leases_that_run_out_end_in_one_terminal_state() {
    let data = Data::fresh().await;
    let store = open(&data).await;
    let id = queue(&store, "acme", json!({}), 2).await;
    let kept = queue(&store, "acme", json!({}), 2).await;
    for expected in [JobState::Queued, JobState::Dead] {
        let job = claim(&store, Duration::ZERO).await;
        assert_eq!(job.id(), id);
        let other = claim(&store, LEASE).await;
        assert_eq!(other.id(), kept);
        assert_eq!(reap(&store, Stale::Expired).await, [(id, expected)]);
        store.job_release(&other.lease).await.expect("released");
    }
    assert_eq!(reap(&store, Stale::Expired).await, []);
    assert_eq!(state(&store, id).await, JobState::Dead);
    let job = store.job_read(&kept).await.expect("read").expect("the job");
    assert_eq!(
        (job.state, job.attempts),
        (JobState::Queued, 0),
        "released untried"
    );
    close(store).await;
}

#[tokio::test]
async fn w8_data_are_the_same_after_the_store_was_closed_with_jobs_running() {
    let data = Data::fresh().await;
    let store = open(&data).await;
    let id = queue(&store, "acme", json!({}), 5).await;
    let job = claim(&store, LEASE).await;
    let progress = json!({ "done": 1 });
    let noted = commit(&store, async |tx| {
        tx.job_progress(&job.lease, &progress).await
    })
    .await;
    noted.expect("noted");
    close(store).await;

    let store = open(&data).await;
    assert_eq!(reap(&store, Stale::Expired).await, [], "the lease holds");
    assert_eq!(reap(&store, Stale::All).await, [(id, JobState::Queued)]);
    let again = claim(&store, LEASE).await;
    assert_eq!((again.attempts, again.progress), (2, Some(progress)));
    close(store).await;
}

#[tokio::test]
async fn retry_and_cancel_apply_to_the_states_that_they_are_for() {
    let data = Data::fresh().await;
    let store = open(&data).await;
    let id = queue(&store, "acme", json!({}), 1).await;
    assert!(
        matches!(retry(&store, id).await, JobChange::Unfit(_)),
        "queued"
    );
    assert!(
        matches!(cancel(&store, id).await, JobChange::Changed(_)),
        "queued"
    );
    assert!(
        matches!(cancel(&store, id).await, JobChange::Unfit(_)),
        "cancelled"
    );
    assert!(
        matches!(retry(&store, id).await, JobChange::Changed(_)),
        "cancelled"
    );

    let job = claim(&store, LEASE).await;
    let progress = json!({ "stored": ["a"] });
    let noted = commit(&store, async |tx| {
        tx.job_progress(&job.lease, &progress).await
    })
    .await;
    noted.expect("noted");
    assert!(
        matches!(retry(&store, id).await, JobChange::Unfit(_)),
        "running"
    );
    assert!(
        matches!(cancel(&store, id).await, JobChange::Changed(_)),
        "running"
    );
    expect_lost(&store, &job.lease).await;

    assert!(
        matches!(retry(&store, id).await, JobChange::Changed(_)),
        "cancelled"
    );
    let job = claim(&store, LEASE).await;
    assert_eq!(
        (job.attempts, job.progress.clone()),
        (1, Some(progress)),
        "with all its tries"
    );
    let dead = commit(&store, async |tx| {
        tx.job_fail(&job.lease, "no", Failed::Dead).await
    })
    .await;
    dead.expect("dead");
    assert!(
        matches!(cancel(&store, id).await, JobChange::Unfit(_)),
        "dead"
    );
    assert!(
        matches!(retry(&store, id).await, JobChange::Changed(_)),
        "dead"
    );
    let job = claim(&store, LEASE).await;
    let done = commit(&store, async |tx| {
        tx.job_finish(&job.lease, &json!({})).await
    })
    .await;
    done.expect("done");
    assert!(
        matches!(cancel(&store, id).await, JobChange::Unfit(_)),
        "done"
    );
    assert!(
        matches!(retry(&store, id).await, JobChange::Unfit(_)),
        "done"
    );
    let nobody = JobId::new(Ulid::generate());
    assert!(matches!(retry(&store, nobody).await, JobChange::Missing));
    assert!(matches!(cancel(&store, nobody).await, JobChange::Missing));
    close(store).await;
}

#[tokio::test]
async fn jobs_are_listed_by_state_kind_and_subtree_newest_first() {
    let data = Data::fresh().await;
    let store = open(&data).await;
    let mut ids = Vec::new();
    for path in ["acme", "acme/eng", "other"] {
        ids.push(queue(&store, path, json!({}), 5).await);
    }
    cancel(&store, ids[1]).await;
    let list = async |filter: JobFilter| -> Vec<JobId> {
        let jobs = store.job_list(&filter).await.expect("listed");
        jobs.iter().map(|job| job.id).collect()
    };
    let all = || JobFilter {
        limit: 10,
        ..JobFilter::default()
    };
    assert_eq!(list(all()).await, [ids[2], ids[1], ids[0]]);
    assert_eq!(list(JobFilter { limit: 1, ..all() }).await, [ids[2]]);
    let states = vec![JobState::Queued, JobState::Dead];
    assert_eq!(list(JobFilter { states, ..all() }).await, [ids[2], ids[0]]);
    let kinds = vec![JobKind::Write];
    assert_eq!(list(JobFilter { kinds, ..all() }).await, []);
    let under = Some(namespace("acme"));
    assert_eq!(list(JobFilter { under, ..all() }).await, [ids[1], ids[0]]);
    let counts = store.jobs_unsettled().await.expect("counted");
    let expected = [
        (JobState::Queued, 2),
        (JobState::Running, 0),
        (JobState::Dead, 0),
    ];
    assert_eq!(counts, expected);
    close(store).await;
}
