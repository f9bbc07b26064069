//! R1: a filter over an approximate index must not cost results. A crowd of foreign
//! rows stands near the question, a few own rows stand far from it.

use std::sync::Arc;

use halofy_store::{Scope, Store, Validness};
use halofy_tests::{Kernel, Mood, Role, ScriptedEmbedder};
use serde_json::json;

const DIMENSION: usize = 8;
const CROWD: u32 = 20_000;
const OWN: u32 = 50;
/// More rows than are scanned exactly.
const LARGE: u32 = 20_500;
const K: usize = 20;
/// The question's vector, and so what the crowd is near to.
const QUESTION: [f32; DIMENSION] = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];

/// Inserts `rows` memories of `namespace` whose vectors begin with `head` and go on
/// with noise below `noise`.
fn plant(namespace: &str, first_id: u32, rows: u32, head: &str, noise: f32) -> String {
    let filled = head.split(", ").count();
    let tail = format!(", random() * {noise}").repeat(DIMENSION - filled);
    format!(
        "insert into memory_objects (id, namespace, actor, kind, content, content_key, lexemes,
                assertion_time, t_valid_from, classification, embedding)
         select lpad(({first_id} + n)::text, 26, '0'), '{namespace}', 'user:p', 'fact',
                'planted ' || n, sha256(('{namespace}' || n)::bytea), ''::tsvector, now(), now(),
                '{{\"sensitivity\":\"internal\"}}', array[{head}{tail}]::float8[]::vector
           from generate_series(1, {rows}) n;"
    )
}

/// A kernel whose every question has the vector of [`QUESTION`], with rows planted.
async fn crowded(plants: &[String]) -> Kernel {
    let embedder = ScriptedEmbedder::new(DIMENSION);
    embedder.becomes(Mood::Says(QUESTION.to_vec()));
    // One connection, so that its counters tell what the store's queries did.
    let kernel = Kernel::with()
        .embedder(embedder)
        .connections(1)
        .start()
        .await;
    let index = "select pg_get_indexdef('memory_objects_embedding_idx'::regclass)";
    let create = kernel.sql_value(index).await;
    let plants = plants.concat();
    // Building the index over rows that are there takes a tenth of the time.
    kernel
        .sql(format!(
            "set local statement_timeout = 0;
             select setseed(0.5);
             drop index memory_objects_embedding_idx;
             {plants}
             {create};
             analyze memory_objects"
        ))
        .await;
    kernel
}

fn crowd() -> String {
    plant("crowd", 0, CROWD, "1", 0.1)
}

/// Own rows at cosines from about 0.2 to 0.4, all different.
fn own() -> String {
    plant("mine", 1_000_000, OWN, "0.2 + n * 0.004, 1", 0.05)
}

/// What a scan of every row says.
async fn exact(kernel: &Kernel, namespace: &str, question: &[f32], k: usize) -> Vec<String> {
    let question = format!("{question:?}");
    kernel
        .sql_values(format!(
            "set local enable_indexscan = off;
             select id from memory_objects
              where namespace = '{namespace}' and status = 'active' and t_valid_to is null
              order by (embedding <=> '{question}') + 0, id limit {k}"
        ))
        .await
}

async fn nearest(kernel: &Kernel, namespace: &str, question: &[f32], k: usize) -> Vec<String> {
    let namespace = super::super::namespaces::namespace(namespace);
    let (scope, question) = (Scope::anybody_in(&namespace), question.to_vec());
    let work = async move |store: Arc<Store>| {
        store
            .candidates_nearest(&scope, &question, k, Validness::Current)
            .await
    };
    let found = kernel.on_store(work).await.expect("rows");
    found.iter().map(|row| row.id.to_string()).collect()
}

#[tokio::test]
async fn r1_a_few_own_rows_are_found_behind_a_crowd_of_foreign_ones() {
    let kernel = crowded(&[crowd(), own()]).await;
    let mine = kernel.key("mine", "user:u", Role::Agent).await;
    let ask = json!({ "query": "lighthouse", "k": K, "tokenBudget": 100_000 });
    for left in [50, 20, 7] {
        let surplus = format!(
            "delete from memory_objects where id in (select id from memory_objects
              where namespace = 'mine' order by md5(id) offset {left})"
        );
        kernel.sql(surplus).await;
        let expected = exact(&kernel, "mine", &QUESTION, K).await;
        assert_eq!(expected.len(), K.min(left));
        assert_eq!(
            nearest(&kernel, "mine", &QUESTION, K).await,
            expected,
            "{left} left"
        );
        let found = mine.call("search", ask.clone()).await.expect_status(200);
        assert_eq!(found.ids(), expected, "{left} left");
    }
}

/// Scans that the index of vectors has answered so far.
async fn index_scans(kernel: &Kernel) -> u64 {
    kernel.sql("select pg_stat_force_next_flush()").await;
    let count = "select idx_scan from pg_stat_user_indexes
                  where indexrelname = 'memory_objects_embedding_idx'";
    kernel.sql_value(count).await.parse().expect("a count")
}

#[tokio::test]
async fn r1_a_large_visible_set_goes_through_the_index_and_loses_nothing() {
    let large = plant("large", 2_000_000, LARGE, "0.2 + random() * 0.6, 1", 1.0);
    let kernel = crowded(&[crowd(), large]).await;
    let before = index_scans(&kernel).await;
    let mut questions = vec![QUESTION.to_vec()];
    for at in 1..DIMENSION {
        let mut question = vec![0.3; DIMENSION];
        question[at] = 1.0;
        questions.push(question);
    }
    for question in &questions {
        for k in [1, K, 100] {
            let expected = exact(&kernel, "large", question, k).await;
            assert_eq!(expected.len(), k);
            assert_eq!(
                nearest(&kernel, "large", question, k).await,
                expected,
                "{question:?} {k}"
            );
        }
    }
    assert!(
        index_scans(&kernel).await > before,
        "the index was not asked"
    );
}
