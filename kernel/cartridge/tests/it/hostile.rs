//! Guests that spin, trap, grow, recurse or answer nonsense. Each is stopped with
//! the reason that the audit log will name, and the host goes on.

use std::time::{Duration, Instant};

use halofy_cartridge::{Limits, PlanFailure};

use crate::guest::{Guest, NOTHING, READ, SPIN, planning};
use crate::memory_view::{Bench, MemoryView, short};

async fn failure(component: &[u8]) -> PlanFailure {
    let bench = Bench::new(component);
    let failure = bench.run().await.unwrap_err();
    // The host is none the worse: a good cartridge runs on the same one.
    let good = bench.host.load(&planning(NOTHING), "good").unwrap();
    let view = MemoryView::of(&["one"]);
    let query = crate::memory_view::query(1, 1);
    bench.host.plan(&good, view, query).await.unwrap();
    failure
}

async fn assert_stopped_in_time(guest: Guest<'_>) {
    let bench = Bench::new(&guest.build());
    let began = Instant::now();
    let failure = bench.run().await.unwrap_err();
    assert_eq!(failure, PlanFailure::Timeout { during: "guest" });
    let limit = short().total_time + Duration::from_millis(500);
    assert!(began.elapsed() < limit, "{:?}", began.elapsed());
}

// C2
#[tokio::test]
async fn spinning_in_plan_is_stopped_within_the_deadline() {
    assert_stopped_in_time(Guest {
        plan: &format!("{SPIN} {NOTHING}"),
        ..Guest::default()
    })
    .await;
}

// C2
#[tokio::test]
async fn spinning_in_a_start_function_is_stopped_within_the_deadline() {
    assert_stopped_in_time(Guest {
        start: SPIN,
        ..Guest::default()
    })
    .await;
}

// C2
#[tokio::test]
async fn spinning_in_the_allocator_is_stopped_within_the_deadline() {
    assert_stopped_in_time(Guest {
        realloc: SPIN,
        ..Guest::default()
    })
    .await;
}

// C2
#[tokio::test]
async fn spinning_in_the_allocator_under_an_import_is_stopped_within_the_deadline() {
    // The first allocation is the query's; the next ones are the rows'.
    let spin_later = format!("(if (i32.gt_u (global.get $heap) (i32.const 131072)) (then {SPIN}))");
    assert_stopped_in_time(Guest {
        plan: &format!("{READ} {NOTHING}"),
        realloc: &spin_later,
        ..Guest::default()
    })
    .await;
}

// C2
#[tokio::test]
async fn spinning_after_the_answer_is_stopped_within_the_deadline() {
    assert_stopped_in_time(Guest {
        post_return: SPIN,
        ..Guest::default()
    })
    .await;
}

// C2
#[tokio::test]
async fn spinning_in_capabilities_is_stopped() {
    let guest = Guest {
        capabilities: &format!("{SPIN} (i32.const 16)"),
        ..Guest::default()
    };
    let bench = Bench::new(&guest.build());
    let failure = bench.host.capabilities(&bench.cartridge).await.unwrap_err();
    assert_eq!(failure.reason(), "timeout");
}

#[tokio::test]
async fn asking_the_view_for_ever_is_stopped() {
    let asks = planning(&format!("(loop $l {READ} (br $l)) {NOTHING}"));
    let generous = Limits {
        host_calls: 1_000_000_000,
        rows: u64::MAX / 2,
        row_bytes: u64::MAX / 2,
        ..short()
    };
    // Never to allocate keeps memory from ending it first.
    let none = MemoryView::of(&[]);
    let bench = Bench::with(generous, &asks);
    let failure = bench.plan(none).await.unwrap_err();
    assert_eq!(failure, PlanFailure::Timeout { during: "guest" });
}

#[tokio::test]
async fn a_trap_is_named() {
    let failure = failure(&planning("unreachable")).await;
    assert!(
        matches!(&failure, PlanFailure::Trap(why) if why.contains("unreachable")),
        "{failure}"
    );
    assert!(failure.is_cartridge_fault());
}

#[tokio::test]
async fn a_trap_in_a_start_function_is_named() {
    let guest = Guest {
        start: "unreachable",
        ..Guest::default()
    };
    assert_eq!(failure(&guest.build()).await.reason(), "trap");
}

// C6
#[tokio::test]
async fn memory_that_is_refused_is_named_whatever_the_guest_traps_on() {
    let grow =
        "(loop $l (br_if $l (i32.ne (i32.const -1) (memory.grow (i32.const 64))))) unreachable";
    assert_eq!(failure(&planning(grow)).await, PlanFailure::OutOfMemory);
}

// C6
#[tokio::test]
async fn memory_counts_over_all_memories_of_a_call() {
    let guest = Guest {
        module: "(memory $a 300) (memory $b 300) (memory $c 300)",
        plan: "(i32.store $c (i32.const 0) (i32.const 1)) (call $ok (i32.const 0))",
        ..Guest::default()
    };
    Bench::new(&guest.build()).run().await.unwrap();
    let guest = Guest {
        module: "(memory $a 400) (memory $b 400) (memory $c 400)",
        ..guest
    };
    assert_eq!(failure(&guest.build()).await, PlanFailure::OutOfMemory);
}

#[tokio::test]
async fn a_refusal_that_the_guest_copes_with_is_no_failure() {
    let copes = format!("(drop (memory.grow (i32.const 60000))) {NOTHING}");
    Bench::new(&planning(&copes)).run().await.unwrap();
}

// C6
#[tokio::test]
async fn a_table_that_is_refused_is_out_of_memory() {
    let guest = Guest {
        module: "(table $t 1 funcref)",
        plan: "(if (i32.eq (i32.const -1) (table.grow $t (ref.null func) (i32.const 10000000)))
            (then unreachable)) (call $ok (i32.const 0))",
        ..Guest::default()
    };
    assert_eq!(failure(&guest.build()).await, PlanFailure::OutOfMemory);
}

// C6
#[tokio::test]
async fn filling_memory_in_a_loop_is_stopped_in_time() {
    assert_stopped_in_time(Guest {
        plan: "(drop (memory.grow (i32.const 960)))
            (loop $l (memory.fill (i32.const 0) (i32.const 7) (i32.const 62914560)) (br $l))
            (call $ok (i32.const 0))",
        ..Guest::default()
    })
    .await;
}

// C9
#[tokio::test]
async fn recursion_without_end_is_a_stack_overflow() {
    let guest = Guest {
        module: "(func $down (param i32) (result i32)
            (i32.add (i32.const 1) (call $down (i32.add (local.get 0) (i32.const 1)))))",
        plan: "(call $ok (call $down (i32.const 0)))",
        ..Guest::default()
    };
    assert_eq!(failure(&guest.build()).await, PlanFailure::StackOverflow);
}

// C9
#[tokio::test]
async fn every_import_works_at_the_deepest_point_of_the_stack() {
    for import in [
        "(call $namespace (i32.const 512))",
        READ,
        "(call $lexical-candidates (i32.const 256) (i32.const 4) (i32.const 9) (i32.const 512))",
        "(call $vector-search (i32.const 256) (i32.const 2) (i32.const 9) (i32.const 512))",
        "(call $embed (i32.const 256) (i32.const 0) (i32.const 512))",
        "(call $concepts (i32.const 256) (i32.const 4) (i32.const 9) (i32.const 512))",
        "(call $entity-facts (i32.const 256) (i32.const 4) (i32.const 1) (i32.const 512))",
    ] {
        let down = format!(
            "(func $down (param i32) {import} (call $down (i32.add (local.get 0) (i32.const 1))))"
        );
        let guest = Guest {
            module: &down,
            plan: "(call $down (i32.const 0)) (call $ok (i32.const 0))",
            ..Guest::default()
        };
        let bench = Bench::with(
            Limits {
                host_calls: 1_000_000,
                total_time: Duration::from_secs(10),
                ..short()
            },
            &guest.build(),
        );
        let failure = bench.plan(MemoryView::of(&[])).await.unwrap_err();
        assert_eq!(failure, PlanFailure::StackOverflow, "{import}");
    }
}

// C7
#[tokio::test]
async fn too_many_calls_of_the_view_are_stopped() {
    let asks =
        planning("(loop $l (call $candidates (i32.const 0) (i32.const 512)) (br $l)) unreachable");
    let few = Limits {
        host_calls: 100,
        ..short()
    };
    let failure = Bench::with(few, &asks).run().await.unwrap_err();
    assert_eq!(failure, PlanFailure::HostCallLimit);
}

// C8
#[tokio::test]
async fn values_that_break_the_contract_are_invalid_results() {
    let result =
        |list: &str| format!("(i32.store (i32.const 64) (i32.const 0)) {list} (i32.const 64)");
    for (what, body) in [
        ("a list of 2^32-1", "(call $ok (i32.const -1))".to_owned()),
        (
            "a list past the memory",
            "(call $ok (i32.const 100000))".to_owned(),
        ),
        (
            "an unaligned list",
            result(
                "(i32.store (i32.const 68) (i32.const 65537)) (i32.store (i32.const 72) (i32.const 1))",
            ),
        ),
        ("an address past the memory", "(i32.const -8)".to_owned()),
        ("an unaligned address", "(i32.const 65)".to_owned()),
        (
            "a bad discriminant",
            "(i32.store8 (i32.const 64) (i32.const 7)) (i32.const 64)".to_owned(),
        ),
        (
            "an error that is not UTF-8",
            "(i32.store (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (i32.const 1))
             (i32.store (i32.const 72) (i32.const 256)) (i32.store (i32.const 76) (i32.const 1))
             (i32.store8 (i32.const 256) (i32.const 255)) (i32.const 64)"
                .to_owned(),
        ),
    ] {
        let failure = failure(&planning(&body)).await;
        assert_eq!(failure.reason(), "invalid_result", "{what}: {failure}");
    }
}

// C7, C8
#[tokio::test]
async fn arguments_that_break_the_contract_are_invalid() {
    let asks = "(call $lexical-candidates (i32.const 256) (i32.const -1) (i32.const 1) (i32.const 512)) \
                (call $ok (i32.const 0))";
    assert_eq!(failure(&planning(asks)).await.reason(), "invalid_result");
    // 10,000 texts that are all the same 60,000 bytes.
    let texts = "(loop $l
            (i32.store (i32.add (i32.const 65536) (local.get $i)) (i32.const 0))
            (i32.store (i32.add (i32.const 65540) (local.get $i)) (i32.const 60000))
            (local.set $i (i32.add (local.get $i) (i32.const 8)))
            (br_if $l (i32.lt_u (local.get $i) (i32.const 80000))))";
    let embeds = format!(
        "(drop (memory.grow (i32.const 2))) {texts}
         (call $embed (i32.const 65536) (i32.const 10000) (i32.const 512)) (call $ok (i32.const 0))"
    );
    let failure = failure(&planning(&embeds)).await;
    assert!(
        matches!(&failure, PlanFailure::InvalidResult(why) if why.contains("fuel")),
        "{failure}"
    );
}

#[tokio::test]
async fn an_error_of_the_cartridge_is_passed_on() {
    let says = |case: u32| {
        planning(&format!(
            r#"(i32.store (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (i32.const {case}))
             (i32.store (i32.const 72) (i32.const 256)) (i32.store (i32.const 76) (i32.const 2))
             (i32.store16 (i32.const 256) (i32.const 0x6968)) (i32.const 64)"#
        ))
    };
    assert_eq!(
        failure(&says(0)).await,
        PlanFailure::Unavailable("hi".into())
    );
    assert_eq!(failure(&says(1)).await, PlanFailure::Other("hi".into()));
}

#[tokio::test]
async fn the_words_of_an_error_are_cut_to_one_short_line() {
    let says = planning(
        "(i32.store (i32.const 64) (i32.const 1)) (i32.store (i32.const 68) (i32.const 1))
         (i32.store (i32.const 72) (i32.const 256)) (i32.store (i32.const 76) (i32.const 5000))
         (memory.fill (i32.const 256) (i32.const 10) (i32.const 5000)) (i32.const 64)",
    );
    assert_eq!(failure(&says).await, PlanFailure::Other(" ".repeat(200)));
}
