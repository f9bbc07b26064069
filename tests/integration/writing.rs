//! What becomes of a write: the cases W1 and W3. Not here: crashes in the middle of
//! one.

use futures_util::future::join_all;
use halofy_tests::{Caller, Kernel, Role};
use serde_json::json;

/// One fact in five spellings.
const SPELLINGS: [&str; 5] = [
    "The office is in Bern.",
    "the office is in bern.",
    "  The  office\tis in   Bern. ",
    "THE OFFICE IS IN BERN.",
    "The\noffice\r\nis\u{a0}in Bern.",
];

async fn details_of_writes(kernel: &Kernel) -> Vec<String> {
    let rows = kernel
        .audit()
        .await
        .into_iter()
        .filter(|row| row.columns.op == "write");
    rows.filter_map(|row| row.columns.detail).collect()
}

#[tokio::test]
async fn w1_the_same_fact_five_times_is_one_row_and_five_audit_rows() {
    for texts in [[SPELLINGS[0]; 5], SPELLINGS] {
        let kernel = Kernel::start().await;
        let caller = kernel.key("acme", "user:u", Role::Agent).await;
        let id = caller
            .write(texts[0])
            .await
            .expect_status(200)
            .id()
            .to_owned();
        for (at, text) in texts.into_iter().enumerate().skip(1) {
            let again = caller.write(text).await.expect_status(200);
            assert_eq!(again.body["deduplicated"], json!([id]), "{text:?}");
            assert_eq!(again.body["stored"], json!([]), "{text:?}");
            let memory = caller.read(&id).await.expect_status(200).body;
            assert_eq!(memory["telemetry"]["accessCount"], at, "{text:?}");
            assert_eq!(memory["content"], texts[0], "the first wording stays");
        }
        assert_eq!(
            kernel
                .sql_value("select count(*) from memory_objects")
                .await,
            "1"
        );
        assert_eq!(caller.search("where is the office").await.ids(), [id]);
        let bumped = "deduplicated=1";
        assert_eq!(
            details_of_writes(&kernel).await,
            ["stored=1", bumped, bumped, bumped, bumped]
        );
    }
}

#[tokio::test]
async fn w1_what_differs_in_more_than_spacing_and_case_is_another_fact() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    let texts = [
        "The office is in Bern.",
        "The office is in Bern",
        "The office is in Basel.",
        "The off ice is in Bern.",
        "Is the office in Bern.",
    ];
    for text in texts {
        let answer = caller.write(text).await.expect_status(200);
        assert_eq!(answer.body["deduplicated"], json!([]), "{text:?}");
    }
    assert_eq!(
        kernel
            .sql_value("select count(*) from memory_objects")
            .await,
        "5"
    );
}

#[tokio::test]
async fn w1_a_fact_is_known_in_its_own_namespace_only_whoever_writes_it() {
    let kernel = Kernel::start().await;
    let mut ids = Vec::new();
    for (path, actor) in [
        ("acme", "user:a"),
        ("acme/eng", "user:a"),
        ("other", "user:a"),
    ] {
        let caller = kernel.key(path, actor, Role::Agent).await;
        let answer = caller.write(SPELLINGS[0]).await.expect_status(200);
        assert_eq!(answer.body["deduplicated"], json!([]), "{path}");
        ids.push(answer.id().to_owned());
    }
    let colleague = kernel.key("acme", "user:b", Role::Member).await;
    let answer = colleague.write(SPELLINGS[1]).await.expect_status(200);
    assert_eq!(answer.body["deduplicated"], json!([ids[0]]));
    assert_eq!(colleague.read(&ids[0]).await.body["actor"], "user:a");
}

#[tokio::test]
async fn w1_a_superseded_fact_may_be_believed_again() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    caller.write(SPELLINGS[0]).await.expect_status(200);
    kernel
        .sql("update memory_objects set t_valid_to = now(), closed_at = now()")
        .await;
    let again = caller.write(SPELLINGS[0]).await.expect_status(200);
    assert_eq!(again.body["deduplicated"], json!([]));
    let stats = caller.stats().await.expect_status(200);
    assert_eq!(
        stats.body["memories"],
        json!({ "current": 1, "disputed": 0, "superseded": 1 })
    );
}

#[tokio::test]
async fn w1_the_same_fact_at_once_is_stored_by_one_and_known_to_the_others() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    let answers = join_all((0..20).map(|at| caller.write(SPELLINGS[at % 5]))).await;
    let stored = |answer: &&halofy_tests::Answer| answer.body["stored"] != json!([]);
    assert_eq!(answers.iter().filter(stored).count(), 1);
    let id = answers[0].id();
    assert!(
        answers
            .iter()
            .all(|answer| answer.status == 200 && answer.id() == id)
    );
    assert_eq!(caller.read(id).await.body["telemetry"]["accessCount"], 19);
    let details = details_of_writes(&kernel).await;
    assert_eq!(
        details
            .iter()
            .filter(|detail| *detail == "deduplicated=1")
            .count(),
        19
    );
}

/// Writes so many facts at once; each answer must be a 200 with an id of its own.
async fn write_at_once(caller: &Caller, run: &str, facts: usize) -> Vec<String> {
    let texts: Vec<String> = (0..facts)
        .map(|at| format!("Parcel {at} of {run} is due."))
        .collect();
    let answers = join_all(texts.iter().map(|text| caller.write(text))).await;
    let ids: Vec<String> = answers
        .into_iter()
        .map(|answer| answer.expect_status(200).id().to_owned())
        .collect();
    for (id, text) in ids.iter().zip(&texts) {
        assert_eq!(
            caller.read(id).await.expect_status(200).body["content"],
            *text
        );
    }
    ids
}

#[tokio::test]
async fn w3_no_write_of_many_at_once_is_lost() {
    let kernel = Kernel::start().await;
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    let mut ids = write_at_once(&caller, "the first run", 3).await;
    ids.extend(write_at_once(&caller, "the second run", 50).await);
    ids.sort();
    let rows = kernel
        .sql_values("select id from memory_objects order by id")
        .await;
    assert_eq!(rows, ids);
    let audited = kernel
        .sql_values("select memory_id from audit_log where op = 'write' order by 1")
        .await;
    assert_eq!(audited, ids, "one row for each write, in its transaction");
    assert_eq!(caller.stats().await.body["memories"]["current"], 53);
    assert!(kernel.verify().await.ok);
}

#[tokio::test]
async fn w3_writers_in_different_namespaces_at_once_lose_nothing_either() {
    let kernel = Kernel::start().await;
    let mut callers = Vec::new();
    for path in ["acme", "acme/eng", "other"] {
        callers.push(kernel.key(path, "user:u", Role::Agent).await);
    }
    let written = join_all(
        callers
            .iter()
            .map(|caller| write_at_once(caller, "a run", 17)),
    )
    .await;
    assert_eq!(written.concat().len(), 51);
    assert_eq!(
        kernel
            .sql_value("select count(distinct id) from memory_objects")
            .await,
        "51"
    );
}
