//! C7, C10, C11: very many calls in a process of their own, whose resident memory stays
//! where it was. Not with the other tests, whose memory would be measured too.
//!
//! `HALOFY_SOAK_CALLS` gives the number of good calls: 20,000 where it is not set.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "the other tests use the rest of these two files")]

#[path = "../it/guest.rs"]
mod guest;
#[path = "../it/memory_view.rs"]
mod memory_view;

use std::time::Duration;

use guest::planning;
use halofy_cartridge::Limits;
use memory_view::{Bench, MemoryView, short};

/// What the allocator may keep for itself.
const SLACK_KIB: u64 = 8 << 10;

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn assert_flat(bench: &Bench, calls: u64, expected: &str) {
    let view = MemoryView::of(&["one", "two", "three"]);
    let mut settled = 0;
    // The first calls touch each place of the pool once.
    let warm = calls / 10;
    for n in 0..calls {
        let outcome = bench.plan(view.clone()).await;
        let said = outcome
            .as_ref()
            .map_or_else(|failure| failure.reason(), |_| "ok");
        assert_eq!(said, expected, "call {n}");
        if n == warm {
            settled = resident_kib();
        }
    }
    let now = resident_kib();
    eprintln!("{calls} calls ({expected}): {settled} KiB, then {now} KiB");
    assert!(now < settled + SLACK_KIB, "{settled} KiB grew to {now} KiB");
    assert_eq!(bench.host.free_places(), short().calls);
}

/// One test, so that nothing else of this process is measured.
#[tokio::test]
async fn memory_stays_flat_over_traps_and_over_good_calls() {
    // Each writes into a megabyte before it ends.
    let dirty = "(drop (memory.grow (i32.const 16)))
        (memory.fill (i32.const 131072) (i32.const 7) (i32.const 1000000))";
    let traps = Bench::new(&planning(&format!("{dirty} unreachable")));
    assert_flat(&traps, 10_000, "trap").await;
    let calls = std::env::var("HALOFY_SOAK_CALLS").map(|calls| calls.parse().unwrap());
    let one = "(call $put (i32.const 0) (i32.const 0) (f64.const 1)) (call $ok (i32.const 1))";
    let read = "(call $candidates (i32.const 500) (i32.const 512))";
    let good = Bench::new(&planning(&format!("{read} {one}")));
    assert_flat(&good, calls.unwrap_or(20_000), "ok").await;
    // 64 texts that are all the same 30,000 bytes, again and again: 1.9 MB to copy for
    // each of 50 questions, all of them refused.
    let texts = "(loop $l
        (i32.store (i32.add (i32.const 65536) (local.get $i)) (i32.const 1024))
        (i32.store (i32.add (i32.const 65540) (local.get $i)) (i32.const 30000))
        (local.set $i (i32.add (local.get $i) (i32.const 8)))
        (br_if $l (i32.lt_u (local.get $i) (i32.const 512))))";
    let embed = "(call $embed (i32.const 65536) (i32.const 64) (i32.const 512))";
    let few = Limits {
        host_calls: 50,
        total_time: Duration::from_secs(10),
        ..short()
    };
    let copies = planning(&format!("{texts} (loop $m {embed} (br $m)) unreachable"));
    let copies = Bench::with(few, &copies);
    assert_flat(&copies, 20, "host_call_limit").await;
}
