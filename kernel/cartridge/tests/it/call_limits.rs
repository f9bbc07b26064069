//! The limits of one cartridge's calls: defaults, what its manifest lowers, what an
//! operator overrides; and what a call that failed had used.

use std::time::Duration;

use halofy_cartridge::{CallLimits, Cartridge, Import, Limits, Overrides, PlanFailure};

use crate::guest::{NOTHING, READ, SPIN, planning};
use crate::manifest::section;
use crate::memory_view::{Bench, MemoryView, Mood, host, query, short};

pub(crate) fn overrides(json: &str) -> Overrides {
    serde_json::from_str(json).unwrap()
}

fn declaring(plan: &str, limits: &str) -> Vec<u8> {
    let mut bytes = planning(plan);
    let manifest = format!(r#"{{"name":"a","version":"1","wit":"1.0.0","limits":{limits}}}"#);
    bytes.extend(section(&manifest));
    bytes
}

fn limits_of(cartridge: &Cartridge) -> (u64, u64, Duration) {
    let limits = cartridge.limits();
    (limits.host_calls, limits.rows, limits.total_time)
}

#[test]
fn a_manifest_lowers_and_never_raises() {
    let asked = r#"{"hostCalls":3,"rows":999999999,"totalTimeMs":100}"#;
    let cartridge = host().load(&declaring(NOTHING, asked), "a").unwrap();
    let expected = (3, short().rows, Duration::from_millis(100));
    assert_eq!(limits_of(&cartridge), expected);
}

#[test]
fn an_operator_raises_up_to_the_ceiling_and_wins_over_the_manifest() {
    let asked = r#"{"hostCalls":3,"totalTimeMs":100}"#;
    let cartridge = host().load(&declaring(NOTHING, asked), "a").unwrap();
    let raised = cartridge.with_overrides(&overrides(
        r#"{"hostCalls":50000,"rows":999999999,"memoryBytes":99999999999}"#,
    ));
    let most = short().maxima();
    let expected = (50_000, most.rows, Duration::from_millis(100));
    assert_eq!(limits_of(&raised), expected);
    assert_eq!(raised.limits().memory, most.memory);
    // The next word replaces the last one; no word is the manifest's.
    let reset = raised.with_overrides(&Overrides::default());
    assert_eq!(limits_of(&reset), limits_of(&cartridge));
}

#[test]
fn defaults_above_the_ceiling_stay_what_the_operator_configured() {
    let limits = Limits {
        total_time: Duration::from_secs(60),
        ..short()
    };
    assert_eq!(limits.maxima().total_time, Duration::from_secs(60));
}

#[test]
fn imports_have_a_time_of_their_own_where_somebody_gave_one() {
    let defaults = CallLimits::default_of(&Limits::default());
    let set = overrides(r#"{"importTimeMs":200,"importTimesMs":{"embed":3000,"concepts":99000}}"#);
    let ceiling = Limits::default().maxima();
    let limits = defaults.overridden(&set, &ceiling);
    let ms = |import| limits.time_of(import).as_millis();
    assert_eq!(ms(Import::Candidates), 200);
    assert_eq!(ms(Import::Embed), 3_000);
    assert_eq!(ms(Import::Concepts), 5_000, "clamped to the ceiling");
    // A manifest that lowers the default keeps a lower bound of one import.
    let tight = defaults.overridden(&overrides(r#"{"importTimesMs":{"embed":50}}"#), &ceiling);
    let asked = overrides(r#"{"importTimeMs":100,"importTimesMs":{"embed":400}}"#);
    let lowered = tight.lowered_by(Some(&asked));
    assert_eq!(lowered.time_of(Import::Embed), Duration::from_millis(50));
    assert_eq!(
        lowered.time_of(Import::Concepts),
        Duration::from_millis(100)
    );
}

#[test]
fn a_limit_that_nobody_knows_or_of_nothing_is_refused() {
    for bad in [
        r#"{"memory":1}"#,
        r#"{"hostCalls":0}"#,
        r#"{"hostCalls":-1}"#,
        r#"{"importTimesMs":{"clock":5}}"#,
        r#"{"importTimesMs":{"embed":0}}"#,
        "7",
    ] {
        let error = host().load(&declaring(NOTHING, bad), "a").unwrap_err();
        assert_eq!(error.reason(), "manifest", "{bad}");
    }
    assert_eq!(overrides(r#"{"window":0}"#).check(), Err("window"));
}

#[test]
fn overrides_survive_json_and_say_only_what_was_set() {
    let json = r#"{"memoryBytes":1048576,"importTimesMs":{"vector-search":20}}"#;
    assert_eq!(serde_json::to_string(&overrides(json)).unwrap(), json);
    assert_eq!(serde_json::to_string(&Overrides::default()).unwrap(), "{}");
    // All limits, written down and taken back.
    let (limits, ceiling) = (CallLimits::default_of(&short()), short().maxima());
    let again = limits.overridden(&Overrides::from(&limits), &ceiling);
    assert_eq!(again, limits);
}

#[tokio::test]
async fn a_call_runs_under_its_cartridges_limits() {
    let thrice = format!("{READ} {READ} {READ} {NOTHING}");
    let bench = Bench::new(&declaring(&thrice, r#"{"hostCalls":2}"#));
    assert_eq!(bench.run().await.unwrap_err(), PlanFailure::HostCallLimit);
    let grows = "(if (i32.eq (i32.const -1) (memory.grow (i32.const 31))) (then unreachable))";
    let grows = planning(&format!("{grows} {NOTHING}"));
    let bench = Bench::new(&grows);
    bench.run().await.unwrap();
    let run = async |overrides: Overrides| {
        let cartridge = bench.cartridge.with_overrides(&overrides);
        let view = MemoryView::of(&["one"]);
        bench.host.plan(&cartridge, view, query(1, 1)).await
    };
    let narrow = run(overrides(r#"{"memoryBytes":2200000}"#)).await;
    assert_eq!(narrow.unwrap_err(), PlanFailure::OutOfMemory);
    let wide = run(overrides(r#"{"memoryBytes":2300000}"#)).await.unwrap();
    assert_eq!(wide.stats.memory, 34 << 16);
}

#[tokio::test]
async fn an_operator_can_give_one_driver_more_memory_than_the_default() {
    // 1,600 pages are 100 MiB; the default is 64.
    let grows = "(if (i32.eq (i32.const -1) (memory.grow (i32.const 1600))) (then unreachable))";
    let bench = Bench::new(&planning(&format!("{grows} {NOTHING}")));
    assert_eq!(bench.run().await.unwrap_err(), PlanFailure::OutOfMemory);
    let wide = bench
        .cartridge
        .with_overrides(&overrides(r#"{"memoryBytes":200000000}"#));
    let view = MemoryView::of(&["one"]);
    bench.host.plan(&wide, view, query(1, 1)).await.unwrap();
}

#[tokio::test]
async fn a_hanging_import_ends_after_its_own_time() {
    let bench = Bench::new(&planning(&format!("{READ} {NOTHING}")));
    let quick = overrides(r#"{"importTimesMs":{"candidates":10}}"#);
    let quick = bench.cartridge.with_overrides(&quick);
    let view = MemoryView::in_mood(Mood::Hanging);
    let failed = bench.host.plan_measured(&quick, view, query(1, 1)).await;
    let failed = failed.unwrap_err();
    assert_eq!(
        failed.failure.to_string(),
        "the cartridge ran out of time in candidates"
    );
    assert!(failed.stats.view >= Duration::from_millis(10));
    assert!(
        failed.stats.view < short().import_time,
        "{:?}",
        failed.stats
    );
}

#[tokio::test]
async fn a_call_that_failed_says_what_it_used() {
    let bench = Bench::new(&planning(&format!("{READ} {SPIN} {NOTHING}")));
    let view = MemoryView::of(&["one", "two", "three"]);
    let failed = bench
        .host
        .plan_measured(&bench.cartridge, view, query(1, 1))
        .await;
    let failed = failed.unwrap_err();
    assert_eq!(failed.failure.reason(), "timeout");
    let stats = failed.stats;
    assert_eq!((stats.host_calls, stats.rows, stats.bytes), (1, 3, 11));
    assert_eq!(stats.memory, 3 << 16);
    assert!(stats.guest >= short().total_time / 2, "{stats:?}");
    assert_eq!(stats.guest, stats.total - stats.instantiate - stats.view);
}

#[tokio::test]
async fn a_call_that_never_began_used_nothing() {
    let elsewhere = host().load(&planning(NOTHING), "probe").unwrap();
    let view = MemoryView::of(&[]);
    let failed = host().plan_measured(&elsewhere, view, query(1, 1)).await;
    assert_eq!(
        failed.unwrap_err().stats,
        halofy_cartridge::CallStats::default()
    );
}
