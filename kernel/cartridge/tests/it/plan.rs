//! What the kernel makes of a plan: content, order, `k`, budget, and what it drops.

use halofy_cartridge::{Capabilities, Limits, Plan};

use crate::guest::{Guest, READ, planning, returning};
use crate::memory_view::{Bench, MemoryView, query, short};

fn contents(plan: &Plan) -> Vec<&str> {
    plan.hits.iter().map(|hit| &*hit.row.content).collect()
}

async fn run(results: &[(u32, &str)]) -> Plan {
    Bench::new(&returning(results)).run().await.unwrap()
}

#[tokio::test]
async fn the_kernel_attaches_content_and_orders_by_score_then_admission() {
    let plan = run(&[(2, "0.5"), (1, "0.5"), (0, "0.25")]).await;
    assert_eq!(contents(&plan), ["two", "three", "one"]);
    assert_eq!(plan.stats.host_calls, 1);
    assert_eq!((plan.stats.rows, plan.stats.bytes), (3, 11));
    assert_eq!(plan.stats.violations(), 0);
    assert!(plan.stats.total >= plan.stats.instantiate);
}

// C20
#[tokio::test]
async fn a_ref_that_the_view_did_not_give_out_is_dropped_and_counted() {
    let plan = run(&[(0, "1"), (3, "9"), (4_294_967_295, "9")]).await;
    assert_eq!(contents(&plan), ["one"]);
    assert_eq!(plan.stats.dropped_unknown, 2);
}

#[tokio::test]
async fn a_ref_is_unknown_until_the_view_gives_it_out() {
    let forged =
        planning("(call $put (i32.const 0) (i32.const 0) (f64.const 1)) (call $ok (i32.const 1))");
    let plan = Bench::new(&forged).run().await.unwrap();
    assert!(plan.hits.is_empty());
    assert_eq!(plan.stats.dropped_unknown, 1);
}

// C8
#[tokio::test]
async fn of_duplicates_the_best_is_kept() {
    let plan = run(&[(0, "0.1"), (1, "0.5"), (0, "0.9"), (0, "0.3")]).await;
    assert_eq!(contents(&plan), ["one", "two"]);
    assert!((plan.hits[0].score - 0.9).abs() < f64::EPSILON);
    assert_eq!(plan.stats.dropped_duplicate, 2);
}

// C8
#[tokio::test]
async fn scores_that_are_not_finite_are_dropped_and_counted() {
    let plan = run(&[(0, "nan"), (1, "inf"), (2, "-inf"), (1, "1")]).await;
    assert_eq!(contents(&plan), ["two"]);
    assert_eq!(plan.stats.dropped_nonfinite, 3);
}

// C8
#[tokio::test]
async fn minus_zero_ties_with_zero() {
    let plan = run(&[(1, "0"), (0, "-0")]).await;
    assert_eq!(contents(&plan), ["one", "two"]);
    assert!(plan.hits.iter().all(|hit| hit.score.is_sign_positive()));
}

#[tokio::test]
async fn what_exceeds_k_is_cut_and_counted() {
    let bench = Bench::new(&returning(&[(0, "1"), (1, "2"), (2, "3")]));
    let view = MemoryView::of(&["one", "two", "three"]);
    let plan = bench
        .host
        .plan(&bench.cartridge, view.clone(), query(2, 1000));
    let plan = plan.await.unwrap();
    assert_eq!(contents(&plan), ["three", "two"]);
    assert_eq!(plan.stats.over_k, 1);
    let none = bench.host.plan(&bench.cartridge, view, query(0, 1000));
    assert!(none.await.unwrap().hits.is_empty());
}

#[tokio::test]
async fn the_budget_holds_and_the_top_hit_survives_alone() {
    let bench = Bench::new(&returning(&[(0, "3"), (1, "2"), (2, "1")]));
    let view = MemoryView::of(&["12345678", "123456789", "ÄÖÜß"]);
    let budget = |tokens| {
        bench
            .host
            .plan(&bench.cartridge, view.clone(), query(10, tokens))
    };
    let plan = budget(3).await.unwrap();
    assert_eq!(contents(&plan), ["12345678", "ÄÖÜß"]);
    assert_eq!(
        plan.hits.iter().map(|hit| hit.token_estimate).sum::<u64>(),
        3
    );
    assert_eq!(plan.stats.over_budget, 1);
    let plan = budget(0).await.unwrap();
    assert_eq!(contents(&plan), ["12345678"]);
    assert_eq!(plan.stats.over_budget, 2);
}

#[tokio::test]
async fn the_same_row_has_the_same_handle_through_every_function() {
    let body = format!(
        "{READ}
         (f32.store (i32.const 256) (f32.const 1)) (f32.store (i32.const 260) (f32.const 0))
         (call $vector-search (i32.const 256) (i32.const 2) (i32.const 3) (i32.const 512))
         (call $entity-facts (i32.const 256) (i32.const 0) (i32.const 1) (i32.const 544))
         ;; the first record of each list
         (local.set $i (i32.load (i32.load (i32.const 516))))
         (local.set $j (i32.load (i32.load (i32.const 548))))
         (call $put (i32.const 0) (local.get $i) (f64.const 1))
         (call $put (i32.const 1) (local.get $j) (f64.const 1))
         (call $put (i32.const 2) (i32.const 3) (f64.const 1))
         (call $ok (i32.const 3))"
    );
    let plan = Bench::new(&planning(&body)).run().await.unwrap();
    assert_eq!(contents(&plan), ["one"]);
    assert_eq!(
        (plan.stats.dropped_duplicate, plan.stats.dropped_unknown),
        (1, 1)
    );
    assert_eq!((plan.stats.rows, plan.stats.host_calls), (8, 3));
}

#[tokio::test]
async fn the_guest_reads_the_query_as_it_was_asked() {
    // One hit when the query is "who knows" with budget 1000 and k 10.
    let body = format!(
        "{READ} (call $put (i32.const 0) (i32.const 0) (f64.const 1))
         (call $ok (i32.and (i32.and
           (i32.eq (local.get $query_len) (i32.const 9))
           (i32.eq (i32.load8_u (local.get $query_ptr)) (i32.const 119)))
           (i32.and (i32.eq (local.get $budget) (i32.const 1000))
                    (i32.eq (local.get $k) (i32.const 10)))))"
    );
    let plan = Bench::new(&planning(&body)).run().await.unwrap();
    assert_eq!(contents(&plan), ["one"]);
}

#[tokio::test]
async fn capabilities_are_read_over_a_view_that_shows_nothing() {
    let guest = Guest {
        capabilities: "(call $candidates (i32.const 500) (i32.const 512))
            (i32.store8 (i32.const 16) (i32.eqz (i32.load (i32.const 520)))) (i32.const 16)",
        ..Guest::default()
    };
    let bench = Bench::new(&guest.build());
    let said = bench.host.capabilities(&bench.cartridge).await.unwrap();
    let expected = Capabilities {
        graph: true,
        streaming: false,
    };
    assert_eq!(said, expected);
}

#[tokio::test]
async fn the_same_query_over_the_same_view_gives_the_same_plan() {
    let bench = Bench::new(&returning(&[(0, "0.3"), (1, "0.3"), (2, "0.7")]));
    let first = bench.run().await.unwrap();
    for _ in 0..100 {
        assert_eq!(bench.run().await.unwrap().hits, first.hits);
    }
}

#[tokio::test]
async fn fuel_is_counted_where_it_is_asked_for_and_the_same_each_time() {
    let counting = Limits {
        count_fuel: true,
        ..short()
    };
    let bench = Bench::with(counting, &returning(&[(0, "1"), (1, "2")]));
    let fuel = bench.run().await.unwrap().stats.fuel;
    assert!(fuel > 20, "{fuel}");
    assert_eq!(bench.run().await.unwrap().stats.fuel, fuel);
    assert_eq!(run(&[(0, "1")]).await.stats.fuel, 0);
}
