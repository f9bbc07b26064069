//! A view that hangs, panics or is down, and guests that ask it for too much.

use std::sync::atomic::Ordering;

use halofy_cartridge::{Limits, PlanFailure};

use crate::guest::{NOTHING, READ, planning};
use crate::memory_view::{Bench, MemoryView, Mood, short};

const RESULT: &str = "(i32.const 512)";

/// Returns one hit when the answer at 512 is an error of this case.
fn expects_error(call: &str, case: u32) -> Vec<u8> {
    planning(&format!(
        "{READ} {call}
         (call $put (i32.const 0) (i32.const 0) (f64.const 1))
         (call $ok (i32.and (i32.eq (i32.load8_u {RESULT}) (i32.const 1))
           (i32.eq (i32.load8_u (i32.const 516)) (i32.const {case}))))"
    ))
}

async fn assert_told(call: &str, case: u32) {
    let plan = Bench::new(&expects_error(call, case)).run().await.unwrap();
    assert_eq!(plan.hits.len(), 1, "{call}");
}

// C5
#[tokio::test]
async fn an_import_that_never_answers_is_a_timeout_that_names_it() {
    let view = MemoryView::in_mood(Mood::Hanging);
    let bench = Bench::new(&planning(&format!("{READ} {NOTHING}")));
    let failure = bench.plan(view).await.unwrap_err();
    assert_eq!(
        failure,
        PlanFailure::Timeout {
            during: "candidates"
        }
    );
    assert!(!failure.is_cartridge_fault());
}

// C5
#[tokio::test]
async fn every_import_that_never_answers_ends_and_is_named() {
    for (import, call) in [
        ("candidates", READ),
        (
            "lexical-candidates",
            "(call $lexical-candidates (i32.const 256) (i32.const 4) (i32.const 9) (i32.const 512))",
        ),
        (
            "vector-search",
            "(f32.store (i32.const 256) (f32.const 1))
             (call $vector-search (i32.const 256) (i32.const 2) (i32.const 9) (i32.const 512))",
        ),
        (
            "embed",
            "(call $embed (i32.const 256) (i32.const 1) (i32.const 512))",
        ),
        (
            "concepts",
            "(call $concepts (i32.const 256) (i32.const 4) (i32.const 9) (i32.const 512))",
        ),
        (
            "entity-facts",
            "(call $entity-facts (i32.const 256) (i32.const 4) (i32.const 1) (i32.const 512))",
        ),
    ] {
        let bench = Bench::new(&planning(&format!("{call} {NOTHING}")));
        let view = MemoryView::in_mood(Mood::Hanging);
        let failure = bench.plan(view).await.unwrap_err();
        assert_eq!(failure, PlanFailure::Timeout { during: import });
        bench.run().await.unwrap();
    }
}

#[tokio::test]
async fn a_panic_of_the_view_ends_the_call_and_nothing_else() {
    for mood in [Mood::Panicking, Mood::PanickingLater] {
        let bench = Bench::new(&planning(&format!("{READ} {NOTHING}")));
        let failure = bench.plan(MemoryView::in_mood(mood)).await.unwrap_err();
        assert_eq!(failure.reason(), "host");
        assert!(!failure.is_cartridge_fault());
        bench.run().await.unwrap();
    }
    let bench = Bench::new(&planning(&format!("(call $namespace {RESULT}) {NOTHING}")));
    let failure = bench.plan(MemoryView::in_mood(Mood::Panicking)).await;
    assert_eq!(failure.unwrap_err().reason(), "host");
}

#[tokio::test]
async fn a_view_that_is_down_is_an_error_that_the_guest_can_handle() {
    let copes = planning(&format!(
        "{READ} (if (i32.ne (i32.load8_u {RESULT}) (i32.const 1)) (then unreachable)) {NOTHING}"
    ));
    let bench = Bench::new(&copes);
    bench.plan(MemoryView::in_mood(Mood::Down)).await.unwrap();
}

// C7
#[tokio::test]
async fn a_limit_beyond_the_window_is_clamped_before_the_view_is_asked() {
    let asks = planning(&format!(
        "(call $candidates (i32.const -1) {RESULT}) {NOTHING}"
    ));
    let view = MemoryView::of(&["one"]);
    let bench = Bench::new(&asks);
    bench.plan(view.clone()).await.unwrap();
    assert_eq!(view.largest_limit.load(Ordering::Relaxed), 1_000);
}

#[tokio::test]
async fn arguments_out_of_range_are_told_to_the_guest() {
    let invalid = 1;
    assert_told(
        "(call $entity-facts (i32.const 0) (i32.const 0) (i32.const 3) (i32.const 512))",
        invalid,
    )
    .await;
    assert_told(
        "(call $entity-facts (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 512))",
        invalid,
    )
    .await;
    // Three numbers where the stored vectors have two; then two zeros; then NaN.
    assert_told(
        "(call $vector-search (i32.const 256) (i32.const 3) (i32.const 1) (i32.const 512))",
        invalid,
    )
    .await;
    assert_told(
        "(call $vector-search (i32.const 256) (i32.const 2) (i32.const 1) (i32.const 512))",
        invalid,
    )
    .await;
    assert_told(
        "(f32.store (i32.const 256) (f32.const nan))
         (call $vector-search (i32.const 256) (i32.const 2) (i32.const 1) (i32.const 512))",
        invalid,
    )
    .await;
    // 65 texts, one more than the limit; a query of 64 KiB and a byte.
    assert_told(
        "(call $embed (i32.const 1024) (i32.const 65) (i32.const 512))",
        invalid,
    )
    .await;
    assert_told(
        "(call $concepts (i32.const 1024) (i32.const 65537) (i32.const 1) (i32.const 512))",
        invalid,
    )
    .await;
}

#[tokio::test]
async fn a_call_that_uses_up_its_rows_is_told_so_and_keeps_what_it_has() {
    let limits = Limits { rows: 5, ..short() };
    let bench = Bench::with(limits, &expects_error(READ, 2));
    let plan = bench.run().await.unwrap();
    assert_eq!(plan.hits.len(), 1);
    assert_eq!(plan.stats.rows, 3);
    let limits = Limits {
        row_bytes: 20,
        ..short()
    };
    let bench = Bench::with(limits, &expects_error(READ, 2));
    assert_eq!(bench.run().await.unwrap().hits.len(), 1);
}

#[tokio::test]
async fn rows_of_a_refused_list_are_not_admitted() {
    let limits = Limits { rows: 2, ..short() };
    let forges = planning(&format!(
        "{READ} (call $put (i32.const 0) (i32.const 0) (f64.const 1)) (call $ok (i32.const 1))"
    ));
    let plan = Bench::with(limits, &forges).run().await.unwrap();
    assert!(plan.hits.is_empty());
    assert_eq!(plan.stats.dropped_unknown, 1);
}
