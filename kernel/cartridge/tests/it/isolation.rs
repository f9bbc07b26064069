//! One call never sees, stops or starves another.

use std::sync::Arc;
use std::time::{Duration, Instant};

use halofy_cartridge::{CartridgeHost, Limits, PlanFailure};

use crate::call_limits::overrides;
use crate::guest::{Guest, NOTHING, READ, SPIN, planning, returning};
use crate::memory_view::{Bench, MemoryView, Mood, host, query, short};

fn spinner() -> Vec<u8> {
    planning(&format!("{SPIN} {NOTHING}"))
}

// C15
#[tokio::test]
async fn a_marker_left_behind_is_never_seen_by_another_call() {
    // One hit when a global, a table or any place of memory was marked before.
    let guest = Guest {
        module: "(global $mark (mut i32) (i32.const 0)) (table $t 8 funcref) (elem declare func $put)",
        plan: "(local.set $i (global.get $mark))
            (if (i32.eqz (ref.is_null (table.get $t (i32.const 3)))) (then (local.set $i (i32.const 1))))
            (local.set $i (i32.or (local.get $i) (i32.load (i32.const 40000))))
            (local.set $i (i32.or (local.get $i) (i32.load (i32.const 130000))))
            (drop (memory.grow (i32.const 8)))
            (local.set $i (i32.or (local.get $i) (i32.load (i32.const 600000))))
            (global.set $mark (i32.const 1)) (table.set $t (i32.const 3) (ref.func $put))
            (i32.store (i32.const 40000) (i32.const 1)) (i32.store (i32.const 130000) (i32.const 1))
            (i32.store (i32.const 600000) (i32.const 1))
            (call $candidates (i32.const 500) (i32.const 512))
            (call $put (i32.const 0) (i32.const 0) (f64.const 1))
            (call $ok (local.get $i))",
        ..Guest::default()
    };
    let bench = Bench::new(&guest.build());
    for _ in 0..2_000 {
        assert!(bench.run().await.unwrap().hits.is_empty());
    }
}

// C3
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_unharmed_while_others_spin_and_time_out() {
    let host = Arc::new(host());
    let spin = Arc::new(host.load(&spinner(), "spin").unwrap());
    let good = host.load(&returning(&[(0, "1")]), "good").unwrap();
    let spinners: Vec<_> = (0..4)
        .map(|_| {
            let (host, spin) = (Arc::clone(&host), Arc::clone(&spin));
            tokio::spawn(async move {
                let view = MemoryView::of(&["one"]);
                host.plan(&spin, view, query(1, 1)).await.unwrap_err()
            })
        })
        .collect();
    let began = Instant::now();
    let mut calls = 0;
    while began.elapsed() < short().total_time {
        let view = MemoryView::of(&["one"]);
        let plan = host.plan(&good, view, query(1, 1)).await.unwrap();
        assert_eq!(plan.hits.len(), 1);
        calls += 1;
    }
    assert!(calls > 20, "{calls} calls beside four spinners");
    for spinner in spinners {
        assert_eq!(spinner.await.unwrap().reason(), "timeout");
    }
}

// C16
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_house_is_overload_and_not_the_cartridges_fault() {
    let limits = Limits {
        calls: 2,
        queue_time: Duration::from_millis(20),
        ..short()
    };
    let host = Arc::new(CartridgeHost::new(limits).unwrap());
    let spin = Arc::new(host.load(&spinner(), "spin").unwrap());
    let run = || {
        let (host, spin) = (Arc::clone(&host), Arc::clone(&spin));
        async move { host.plan(&spin, MemoryView::of(&[]), query(1, 1)).await }
    };
    let running = [tokio::spawn(run()), tokio::spawn(run())];
    while host.free_places() > 0 {
        tokio::task::yield_now().await;
    }
    let failure = run().await.unwrap_err();
    assert_eq!(failure, PlanFailure::Overloaded);
    assert!(!failure.is_cartridge_fault());
    for call in running {
        assert_eq!(call.await.unwrap().unwrap_err().reason(), "timeout");
    }
    assert_eq!(host.free_places(), 2);
}

// C16
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_101_calls_on_100_places_one_is_told_to_come_back() {
    let limits = Limits {
        calls: 100,
        queue_time: Duration::from_millis(10),
        import_time: Duration::from_secs(5),
        total_time: Duration::from_secs(5),
        ..short()
    };
    let host = Arc::new(CartridgeHost::new(limits).unwrap());
    let reads = planning(&format!("{READ} {NOTHING}"));
    let reads = Arc::new(host.load(&reads, "reads").unwrap());
    let calls: Vec<_> = (0..100)
        .map(|_| {
            let (host, reads) = (Arc::clone(&host), Arc::clone(&reads));
            tokio::spawn(async move {
                let view = MemoryView::in_mood(Mood::Hanging);
                host.plan(&reads, view, query(1, 1)).await
            })
        })
        .collect();
    while host.free_places() > 0 {
        tokio::task::yield_now().await;
    }
    let view = MemoryView::of(&["one"]);
    let failed = host.plan_measured(&reads, view, query(1, 1)).await;
    let failed = failed.unwrap_err();
    assert_eq!(failed.failure, PlanFailure::Overloaded);
    assert!(!failed.failure.is_cartridge_fault());
    for call in &calls {
        call.abort();
    }
    for call in calls {
        assert!(call.await.unwrap_err().is_cancelled());
    }
    assert_eq!(host.free_places(), 100);
    let view = MemoryView::of(&["one"]);
    host.plan(&reads, view, query(1, 1)).await.unwrap();
}

// C4
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_runs_while_another_is_stopped_finishes() {
    let host = Arc::new(CartridgeHost::new(Limits::default()).unwrap());
    let spin = Arc::new(host.load(&spinner(), "spin").unwrap());
    let quick = overrides(r#"{"totalTimeMs":20}"#);
    let spin = Arc::new(spin.with_overrides(&quick));
    // Counts for long, then answers.
    let counts = "(loop $l (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br_if $l (i32.lt_u (local.get $i) (i32.const 300000000))))";
    let one = "(call $put (i32.const 0) (i32.const 0) (f64.const 1)) (call $ok (i32.const 1))";
    let counts = host.load(&planning(&format!("{READ} {counts} {one}")), "counts");
    let counts = counts
        .unwrap()
        .with_overrides(&overrides(r#"{"totalTimeMs":10000}"#));
    let running = tokio::spawn({
        let host = Arc::clone(&host);
        async move {
            host.plan(&counts, MemoryView::of(&["one"]), query(1, 1))
                .await
        }
    });
    let mut stopped = 0;
    while !running.is_finished() {
        let view = MemoryView::of(&["one"]);
        let failure = host.plan(&spin, view, query(1, 1)).await.unwrap_err();
        assert_eq!(failure.reason(), "timeout");
        stopped += 1;
    }
    assert_eq!(running.await.unwrap().unwrap().hits.len(), 1);
    assert!(stopped > 0);
}

// C20
#[tokio::test]
async fn a_ref_of_another_call_means_nothing_in_this_one() {
    let bench = Bench::new(&returning(&[(0, "1"), (2, "9")]));
    assert_eq!(bench.run().await.unwrap().hits.len(), 2);
    let plan = bench.plan(MemoryView::of(&["other"])).await.unwrap();
    assert_eq!(plan.hits.len(), 1);
    assert_eq!(&*plan.hits[0].row.content, "other");
    assert_eq!(plan.stats.dropped_unknown, 1);
}

// C10
#[tokio::test]
async fn the_pool_is_intact_after_many_traps() {
    let bench = Bench::new(&planning("unreachable"));
    for _ in 0..2_000 {
        assert_eq!(bench.run().await.unwrap_err().reason(), "trap");
    }
    assert_eq!(bench.host.free_places(), short().calls);
}

#[tokio::test]
async fn a_call_that_is_dropped_gives_its_place_back() {
    let bench = Bench::new(&spinner());
    for _ in 0..20 {
        let call = tokio::time::timeout(Duration::from_millis(15), bench.run());
        assert!(call.await.is_err());
    }
    assert_eq!(bench.host.free_places(), short().calls);
    let good = bench.host.load(&planning(NOTHING), "good").unwrap();
    let view = MemoryView::of(&[]);
    bench.host.plan(&good, view, query(1, 1)).await.unwrap();
}

#[tokio::test]
async fn a_cartridge_of_another_host_is_not_run() {
    let elsewhere = host().load(&planning(NOTHING), "probe").unwrap();
    let call = host();
    let failure = call
        .plan(&elsewhere, MemoryView::of(&[]), query(1, 1))
        .await;
    assert_eq!(failure.unwrap_err().reason(), "host");
}

#[test]
fn the_ticker_beats_and_stops_with_its_host() {
    let host = host();
    let before = host.heartbeat();
    std::thread::sleep(Duration::from_millis(100));
    assert!(host.heartbeat() > before);
    let began = Instant::now();
    drop(host);
    assert!(began.elapsed() < Duration::from_millis(100));
}
