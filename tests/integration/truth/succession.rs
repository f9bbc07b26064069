//! W4: many who replace the same fact at once, on one kernel and on two of one database.
//!
//! `HALOFY_TEST_SUPERSEDE_SECONDS` says how long the last test goes on; 5 unless set.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use halofy_tests::{Answer, Caller, Kernel};
use serde_json::{Value, json};

use super::{ids_in, member, told};
use crate::audit;
use crate::namespaces::unlimited;

const FACTS: usize = 10;
const WRITERS: usize = 16;

/// How a writer says what it replaces.
#[derive(Debug, Clone, Copy, PartialEq)]
enum By {
    Name,
    Slot,
}

/// Kernels of one database: two on a server, the one that the embedded database has.
async fn kernels() -> Vec<Kernel> {
    let first = Kernel::start().await;
    unlimited(&first, "acme").await;
    let mut kernels = vec![first];
    if kernels[0].data().is_on_server() {
        kernels.push(Kernel::with().on(kernels[0].data()).start().await);
    }
    kernels
}

/// The same key's holder, at each kernel.
async fn callers(kernels: &[Kernel]) -> Vec<Caller> {
    let first = member(&kernels[0], "acme").await;
    let at_each = kernels
        .iter()
        .map(|kernel| kernel.caller(&first.key, &first.key_id));
    at_each.collect()
}

async fn replace(caller: &Caller, content: &str, by: By, first: &str, slot: &str) -> Answer {
    let mut body = json!({ "content": content, "verbatim": true });
    match by {
        By::Name => body["supersedes"] = json!(first),
        By::Slot => body["slot"] = json!(slot),
    }
    caller.call("write", body).await
}

#[tokio::test]
async fn w4_of_many_who_replace_a_fact_at_once_each_replaces_the_one_before() {
    for only_one_kernel in [true, false] {
        let mut kernels = kernels().await;
        if only_one_kernel {
            kernels.truncate(1);
        }
        let callers = callers(&kernels).await;
        for (writers, by) in [(2, By::Name), (2, By::Slot), (20, By::Name), (20, By::Slot)] {
            let run = format!("{writers}-{by:?}-{}", kernels.len());
            let fields = match by {
                By::Name => json!({}),
                By::Slot => json!({ "slot": run }),
            };
            let first = told(&callers[0], &format!("{run} is first."), fields).await;
            let writing = (0..writers).map(|at| {
                let content = format!("{run} is told by {at}.");
                let (caller, first, run) = (&callers[at % callers.len()], &first, &run);
                async move { replace(caller, &content, by, first, run).await }
            });
            let answers = join_all(writing).await;
            each_was_told_the_truth(&kernels[0], &answers, &first).await;
        }
        one_chain_a_fact(&kernels[0], 4).await;
        effects_are_audited(&kernels[0]).await;
    }
}

/// Every writer got through and replaced one that nobody else replaced.
async fn each_was_told_the_truth(kernel: &Kernel, answers: &[Answer], first: &str) {
    let mut replaced = HashSet::from([String::new()]);
    let mut stored = HashSet::from([first.to_owned()]);
    for answer in answers {
        assert_eq!(answer.status, 200, "{}", answer.text);
        let victims = ids_in(&answer.body["superseded"]);
        assert_eq!(victims.len(), 1, "{}", answer.text);
        assert!(stored.insert(answer.id().to_owned()), "{}", answer.text);
        assert!(
            replaced.insert(victims[0].clone()),
            "twice: {}",
            answer.text
        );
        let row = kernel.sql(format!(
            "select m.supersedes, was.t_valid_to = m.t_valid_from, was.closed_at = m.assertion_time
               from memory_objects m join memory_objects was on was.id = m.supersedes
              where m.id = '{}'",
            answer.id()
        ));
        let truth = [Some(victims[0].clone()), Some("t".into()), Some("t".into())];
        assert_eq!(row.await, [truth], "{}", answer.text);
    }
    replaced.remove("");
    assert!(replaced.is_subset(&stored) && replaced.len() + 1 == stored.len());
}

/// A row as a chain needs it.
struct Link {
    predecessor: Option<String>,
    from: String,
    to: Option<String>,
}

/// Asserts that the memories of `acme` are so many chains: from each current row back to
/// the first, every row once, each interval beginning where the one before ends.
async fn one_chain_a_fact(kernel: &Kernel, facts: usize) {
    let rows = kernel.sql(
        "select id, supersedes, t_valid_from, t_valid_to from memory_objects
                            where namespace = 'acme' and status = 'active'",
    );
    let mut links = HashMap::new();
    let mut current = Vec::new();
    for row in rows.await {
        let [Some(id), predecessor, Some(from), to] = <[_; 4]>::try_from(row).expect("four") else {
            panic!("a row without id or beginning");
        };
        if to.is_none() {
            current.push(id.clone());
        }
        links.insert(
            id,
            Link {
                predecessor,
                from,
                to,
            },
        );
    }
    assert_eq!(current.len(), facts, "one current row a fact");
    for last in current {
        let mut link = links.remove(&last).expect("a row");
        while let Some(predecessor) = &link.predecessor {
            let before = links.remove(predecessor).expect("a row is met once");
            assert_eq!(
                before.to.as_deref(),
                Some(&*link.from),
                "before {predecessor}'s end"
            );
            link = before;
        }
    }
    assert!(links.is_empty(), "{} rows are in no chain", links.len());
}

/// What the audit log counts is what happened, and the log is whole.
async fn effects_are_audited(kernel: &Kernel) {
    let counted = |what: &str| {
        format!(
            "select coalesce(sum(substring(detail from '(?:^| ){what}=([0-9]+)')::int), 0)
               from audit_log where op = 'write' and result = 'ok'"
        )
    };
    let closed = "select count(*) from memory_objects where t_valid_to is not null";
    let rows = "select count(*) from memory_objects";
    let decided = "select count(*) from conflicts where decision = 'superseded'";
    let superseded = kernel.sql_value(counted("superseded")).await;
    assert_eq!(kernel.sql_value(closed).await, superseded);
    assert_eq!(kernel.sql_value(decided).await, superseded);
    assert_eq!(
        kernel.sql_value(rows).await,
        kernel.sql_value(counted("stored")).await
    );
    let report = audit::settled(kernel).await;
    assert!(report.ok, "{report:?}");
}

/// What the writers of a long run share.
struct Race {
    until: Instant,
    /// The last that somebody was told to hold, for each fact.
    latest: Vec<std::sync::Mutex<String>>,
    done: AtomicUsize,
    refused: AtomicUsize,
}

#[tokio::test]
async fn w4_two_kernels_that_replace_ten_facts_for_a_while_leave_ten_chains() {
    let seconds = std::env::var("HALOFY_TEST_SUPERSEDE_SECONDS");
    let seconds = seconds.map_or(5, |text| text.parse().expect("seconds"));
    let kernels = kernels().await;
    let callers = callers(&kernels).await;
    let mut latest = Vec::new();
    for fact in 0..FACTS {
        let content = format!("Fact {fact} is first.");
        let fields = match by(fact) {
            By::Name => json!({}),
            By::Slot => json!({ "slot": format!("slot {fact}") }),
        };
        latest.push(std::sync::Mutex::new(
            told(&callers[0], &content, fields).await,
        ));
    }
    let race = Arc::new(Race {
        until: Instant::now() + Duration::from_secs(seconds),
        latest,
        done: AtomicUsize::new(0),
        refused: AtomicUsize::new(0),
    });
    let writers = (0..WRITERS).map(|writer| {
        let (caller, race) = (callers[writer % callers.len()].clone(), race.clone());
        tokio::spawn(write_until_it_is_over(caller, race, writer))
    });
    for writer in join_all(writers).await {
        writer.expect("a writer does not panic");
    }
    let (done, refused) = (
        race.done.load(Ordering::Relaxed),
        race.refused.load(Ordering::Relaxed),
    );
    let kernels_run = kernels.len();
    eprintln!("{done} replaced and {refused} refused in {seconds} s by {kernels_run} kernel(s)");
    assert!(
        done > WRITERS && refused * 10 <= done,
        "{done} done, {refused} refused"
    );
    one_chain_a_fact(&kernels[0], FACTS).await;
    effects_are_audited(&kernels[0]).await;
    let closed = "select count(*) from memory_objects where t_valid_to is not null";
    assert_eq!(kernels[0].sql_value(closed).await, done.to_string());
}

fn by(fact: usize) -> By {
    match fact % 2 {
        0 => By::Name,
        _ => By::Slot,
    }
}

async fn write_until_it_is_over(caller: Caller, race: Arc<Race>, writer: usize) {
    let mut at = 0;
    while Instant::now() < race.until {
        let fact = (writer * 7 + at * 3) % FACTS;
        let content = format!("Fact {fact} is told by {writer} for the {at}th time.");
        let latest = lock(&race.latest[fact]).clone();
        let slot = format!("slot {fact}");
        let answer = replace(&caller, &content, by(fact), &latest, &slot).await;
        at += 1;
        if answer.status == 503 {
            // It lost too often, was told so, and stored nothing.
            race.refused.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        assert_eq!(answer.status, 200, "{}", answer.text);
        let lists: [&Value; 2] = [&answer.body["stored"], &answer.body["superseded"]];
        assert!(
            lists.iter().all(|list| ids_in(list).len() == 1),
            "{}",
            answer.text
        );
        race.done.fetch_add(1, Ordering::Relaxed);
        answer.id().clone_into(&mut lock(&race.latest[fact]));
    }
}

fn lock(latest: &std::sync::Mutex<String>) -> std::sync::MutexGuard<'_, String> {
    latest.lock().expect("no writer panics while it holds it")
}
