//! The worker against a store: each test runs handlers of its own. Whose turn it is has a file
//! of its own.

mod turns;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use halofy_core::{JobId, JobKind, JobState, Namespace};
use halofy_store::{
    AuditFilter, JobChange, JobRecord, Location, NewJob, Store, StoreConfig, Turn, VectorSpace,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use time::OffsetDateTime;
use tokio::sync::Notify;
use ulid::Ulid;

use super::handler::Outcome;
use super::lease::LEASE;
use super::{Again, Finished, Handlers, JobFailure, Jobs, MAX_ATTEMPTS, Run, finish};
use crate::sequencer::Wake;

struct Bench {
    store: Arc<Store>,
    jobs: Jobs,
    _dir: TempDir,
}

impl Bench {
    async fn open() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let location = Location::Embedded(dir.path().join("data"));
        let space = VectorSpace {
            embedder: "none".to_owned(),
            dimension: 2,
        };
        let store = Store::open(StoreConfig::new(location), space).await;
        Self {
            store: Arc::new(store.expect("a store")),
            jobs: Jobs::new(),
            _dir: dir,
        }
    }

    fn start(&self, handlers: Handlers) {
        self.jobs
            .start(self.store.clone(), Wake::default(), handlers);
    }

    async fn queue(&self, kind: JobKind, max_attempts: u32) -> JobId {
        self.queue_in("acme", kind, max_attempts).await
    }

    async fn queue_in(&self, namespace: &str, kind: JobKind, max_attempts: u32) -> JobId {
        let id = JobId::new(Ulid::generate());
        let namespace = Namespace::parse(namespace).expect("a namespace");
        let mut tx = self.store.begin().await.expect("a transaction");
        let job = NewJob {
            id,
            kind,
            namespace: &namespace,
            actor: "kernel",
            key: None,
            payload: &json!({ "n": 1 }),
            max_attempts,
        };
        tx.job_insert(&job).await.expect("queued");
        tx.commit().await.expect("committed");
        self.jobs.queued();
        id
    }

    async fn job(&self, id: JobId) -> JobRecord {
        let read = self.store.job_read(&id).await.expect("read");
        read.expect("the job")
    }

    async fn ended(&self, id: JobId) -> JobRecord {
        let end = async {
            loop {
                let job = self.job(id).await;
                if job.state.is_end() {
                    return job;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(30), end).await;
        ended.expect("the job comes to an end")
    }

    /// The job once a try of it has ended, and it waits for the next one.
    async fn waiting(&self, id: JobId) -> JobRecord {
        let waits = async {
            loop {
                let job = self.job(id).await;
                if job.state == JobState::Queued && job.run_after > OffsetDateTime::now_utc() {
                    return job;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let waits = tokio::time::timeout(Duration::from_secs(30), waits).await;
        waits.expect("the job waits")
    }

    /// What the audit log says of this job's ends.
    async fn audited(&self, id: JobId) -> Vec<String> {
        let filter = AuditFilter {
            under: None,
            limit: 1_000,
        };
        let rows = self.store.audit_tail(&filter).await.expect("the log");
        let name = format!("job={id} ");
        let of_job = rows.into_iter().filter(|row| row.columns.op == "job");
        of_job
            .filter_map(|row| Some(row.columns.detail?.strip_prefix(&name)?.to_owned()))
            .collect()
    }

    async fn stop(self) {
        self.jobs.stop().await;
        let store = Arc::try_unwrap(self.store);
        let store = store.map_err(drop).expect("nobody else has the store");
        store.close().await;
    }
}

async fn well(_: Run) -> Outcome {
    Ok(Finished::With(json!({ "done": true })))
}

fn failure(again: Again) -> JobFailure {
    JobFailure {
        again,
        reason: "tired",
        why: "the handler is tired".to_owned(),
    }
}

#[tokio::test]
async fn a_queued_job_is_run_at_once_and_its_end_is_audited() {
    let bench = Bench::open().await;
    bench.start(Handlers::default().on(JobKind::Write, well));
    let id = bench.queue(JobKind::Write, MAX_ATTEMPTS).await;
    let job = bench.ended(id).await;
    assert_eq!((job.state, job.attempts), (JobState::Done, 1));
    assert_eq!(job.result, Some(json!({ "done": true })));
    assert_eq!(
        bench.audited(id).await,
        ["kind=write state=done attempts=1"]
    );
    bench.stop().await;
}

#[tokio::test]
async fn a_job_of_a_kind_without_a_handler_waits() {
    let bench = Bench::open().await;
    bench.start(Handlers::default().on(JobKind::Write, well));
    let waits = bench.queue(JobKind::Embed, MAX_ATTEMPTS).await;
    let runs = bench.queue(JobKind::Write, MAX_ATTEMPTS).await;
    bench.ended(runs).await;
    assert_eq!(bench.job(waits).await.state, JobState::Queued);
    bench.stop().await;
}

#[tokio::test]
async fn a_handler_may_end_its_job_in_the_transaction_of_its_last_effect() {
    let bench = Bench::open().await;
    let store = bench.store.clone();
    bench.start(Handlers::default().on(JobKind::Write, move |run: Run| {
        let store = store.clone();
        async move {
            let mut tx = store.begin().await?;
            tx.job_hold(&run.job.lease).await?;
            finish(&mut tx, &run.job, &json!({ "mine": 1 }), &[]).await?;
            tx.commit().await?;
            Ok(Finished::Already)
        }
    }));
    let id = bench.queue(JobKind::Write, MAX_ATTEMPTS).await;
    let job = bench.ended(id).await;
    assert_eq!(job.result, Some(json!({ "mine": 1 })));
    bench.jobs.stop().await;
    let rows = bench.audited(id).await;
    assert_eq!(rows, ["kind=write state=done attempts=1"]);
}

#[tokio::test]
async fn what_failed_for_the_moment_is_tried_again() {
    let bench = Bench::open().await;
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    bench.start(Handlers::default().on(JobKind::Write, move |run: Run| {
        let tries = counted.clone();
        async move {
            assert_eq!(run.job.payload, json!({ "n": 1 }));
            match tries.fetch_add(1, Ordering::Relaxed) {
                0 => Err(failure(Again::Soon)),
                _ => well(run).await,
            }
        }
    }));
    let id = bench.queue(JobKind::Write, MAX_ATTEMPTS).await;
    let job = bench.ended(id).await;
    assert_eq!((job.state, job.attempts), (JobState::Done, 2));
    assert_eq!(job.error, None);
    assert_eq!(
        bench.audited(id).await,
        ["kind=write state=done attempts=2"]
    );
    bench.stop().await;
}

#[tokio::test]
async fn what_fails_for_good_or_too_often_is_dead() {
    let bench = Bench::open().await;
    let handlers = Handlers::default()
        .on(JobKind::Write, |_| async { Err(failure(Again::Never)) })
        .on(JobKind::Embed, |_| async { Err(failure(Again::Soon)) });
    bench.start(handlers);
    for (kind, tries, attempts) in [(JobKind::Write, 5, 1), (JobKind::Embed, 2, 2)] {
        let id = bench.queue(kind, tries).await;
        let job = bench.ended(id).await;
        assert_eq!((job.state, job.attempts), (JobState::Dead, attempts));
        assert_eq!(job.error.as_deref(), Some("the handler is tired"));
        let row = format!("kind={kind} state=dead attempts={attempts} reason=tired");
        assert_eq!(bench.audited(id).await, [row]);
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_panic_is_a_failure_of_the_job_and_not_the_end_of_the_worker() {
    let bench = Bench::open().await;
    let handlers = Handlers::default()
        .on(JobKind::Embed, |_| async { panic!("on purpose") })
        .on(JobKind::Write, well);
    bench.start(handlers);
    let id = bench.queue(JobKind::Embed, 1).await;
    assert_eq!(bench.ended(id).await.state, JobState::Dead);
    let row = "kind=embed state=dead attempts=1 reason=panicked";
    assert_eq!(bench.audited(id).await, [row]);
    let next = bench.queue(JobKind::Write, 1).await;
    assert_eq!(bench.ended(next).await.state, JobState::Done);
    bench.stop().await;
}

#[tokio::test]
async fn a_job_that_is_cancelled_while_it_runs_can_have_no_effect_any_more() {
    let bench = Bench::open().await;
    let (began, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begins, waits, store) = (began.clone(), go_on.clone(), bench.store.clone());
    let refused = Arc::new(AtomicU32::new(0));
    let counted = refused.clone();
    bench.start(Handlers::default().on(JobKind::Write, move |run: Run| {
        let (begins, waits) = (begins.clone(), waits.clone());
        let (store, refused) = (store.clone(), counted.clone());
        async move {
            begins.notify_one();
            waits.notified().await;
            let mut tx = store.begin().await?;
            if tx.job_hold(&run.job.lease).await.is_err() {
                refused.fetch_add(1, Ordering::Relaxed);
            }
            drop(tx);
            well(run).await
        }
    }));
    let id = bench.queue(JobKind::Write, MAX_ATTEMPTS).await;
    began.notified().await;
    let mut tx = bench.store.begin().await.expect("a transaction");
    let change = tx.job_cancel(&id).await.expect("cancelled");
    assert!(matches!(change, JobChange::Changed(_)));
    tx.commit().await.expect("committed");
    go_on.notify_one();
    bench.jobs.stop().await;
    let job = bench.job(id).await;
    assert_eq!(
        (job.state, job.result),
        (JobState::Cancelled, None::<Value>)
    );
    assert_eq!(refused.load(Ordering::Relaxed), 1);
    assert_eq!(bench.audited(id).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_worker_that_stops_gives_its_job_back_untried() {
    let bench = Bench::open().await;
    let began = Arc::new(Notify::new());
    let begins = began.clone();
    bench.start(Handlers::default().on(JobKind::Write, move |run: Run| {
        let begins = begins.clone();
        async move {
            begins.notify_one();
            run.give_up.cancelled().await;
            Err(failure(Again::Soon))
        }
    }));
    let id = bench.queue(JobKind::Write, MAX_ATTEMPTS).await;
    began.notified().await;
    bench.jobs.stop().await;
    let job = bench.job(id).await;
    assert_eq!((job.state, job.attempts), (JobState::Queued, 0));
    bench.stop().await;
}

#[tokio::test]
async fn what_a_killed_kernel_left_is_run_by_the_next_and_dies_with_its_last_try() {
    let bench = Bench::open().await;
    let again = bench.queue(JobKind::Write, 2).await;
    let dies = bench.queue(JobKind::Write, 1).await;
    let claimed = bench
        .store
        .job_claim(JobKind::Write, Turn::default(), LEASE, 10)
        .await;
    assert_eq!(claimed.expect("claimed").len(), 2);
    bench.start(Handlers::default().on(JobKind::Write, well));
    let job = bench.ended(again).await;
    assert_eq!((job.state, job.attempts), (JobState::Done, 2));
    let job = bench.ended(dies).await;
    assert_eq!((job.state, job.attempts), (JobState::Dead, 1));
    let row = "kind=write state=dead attempts=1 reason=worker_gone";
    assert_eq!(bench.audited(dies).await, [row]);
    bench.stop().await;
}

#[tokio::test]
async fn many_jobs_share_few_places_and_each_is_run_once() {
    let bench = Bench::open().await;
    let (now, most, runs) = (
        Arc::new(AtomicU32::new(0)),
        Arc::new(AtomicU32::new(0)),
        Arc::new(AtomicU32::new(0)),
    );
    let (counted, highest, total) = (now.clone(), most.clone(), runs.clone());
    bench.start(Handlers::default().on(JobKind::Write, move |run: Run| {
        let (now, most, runs) = (counted.clone(), highest.clone(), total.clone());
        async move {
            runs.fetch_add(1, Ordering::Relaxed);
            let running = now.fetch_add(1, Ordering::Relaxed) + 1;
            most.fetch_max(running, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(30)).await;
            now.fetch_sub(1, Ordering::Relaxed);
            well(run).await
        }
    }));
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(bench.queue(JobKind::Write, 1).await);
    }
    for id in ids {
        assert_eq!(bench.ended(id).await.state, JobState::Done);
    }
    assert_eq!(runs.load(Ordering::Relaxed), 20);
    let most = most.load(Ordering::Relaxed);
    assert!((2..=4).contains(&most), "{most} at once");
    bench.stop().await;
}
