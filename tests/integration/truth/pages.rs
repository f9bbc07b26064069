//! Long chains: what held is found however long one is, and its history comes page by page.

use halofy_tests::{Caller, Kernel};
use serde_json::{Value, json};

use super::{each, member};

const LINKS: usize = 2_500;

fn id_of(link: usize) -> String {
    format!("01ARZ3NDEKTSV4RRFFQ{link:07}")
}

/// Versions of one fact, a minute each, of so many characters.
async fn planted(kernel: &Kernel, links: usize, characters: usize) {
    let sql = format!(
        "insert into memory_objects (id, namespace, actor, kind, content, content_key, lexemes,
                 assertion_time, t_valid_from, t_valid_to, closed_at, supersedes, classification)
         select '01ARZ3NDEKTSV4RRFFQ' || lpad(n::text, 7, '0'), 'acme', 'user:member', 'fact',
                'Version ' || n || repeat('.', {characters}), sha256(n::text::bytea), '',
                since, since, until, until,
                case when n > 1 then '01ARZ3NDEKTSV4RRFFQ' || lpad((n - 1)::text, 7, '0') end,
                '{{\"sensitivity\":\"internal\"}}'
           from (select n, timestamptz '2025-01-01 00:00:00Z' + n * interval '1 minute' as since,
                        case when n < {links} then timestamptz '2025-01-01 00:00:00Z'
                             + (n + 1) * interval '1 minute' end as until
                   from generate_series(1, {links}) n) version"
    );
    kernel.sql(sql).await;
}

async fn page(caller: &Caller, after: Option<&str>) -> (Vec<Value>, bool) {
    let body = json!({ "id": id_of(1), "after": after });
    let answer = caller.call("history", body).await.expect_status(200);
    assert!(answer.text.len() < 4 << 20, "{} bytes", answer.text.len());
    let members = answer.body["history"].as_array().expect("a list").clone();
    (members, answer.body["truncated"].as_bool().expect("a flag"))
}

/// The chain from its beginning, and how many pages it took.
async fn all_pages(caller: &Caller) -> (Vec<Value>, usize) {
    let (mut chain, mut pages) = (Vec::<Value>::new(), 0);
    loop {
        let after = chain
            .last()
            .map(|last| last["id"].as_str().expect("an id").to_owned());
        let (members, truncated) = page(caller, after.as_deref()).await;
        assert!(!members.is_empty(), "a page has something");
        chain.extend(members);
        pages += 1;
        if !truncated {
            return (chain, pages);
        }
    }
}

#[tokio::test]
async fn a_member_of_a_long_chain_is_found_by_moment_from_any_other() {
    let kernel = Kernel::start().await;
    let caller = member(&kernel, "acme").await;
    planted(&kernel, LINKS, 0).await;
    let now = "2026-01-01T00:00:00Z";
    for asked in [1, 1_250, LINKS] {
        for (at, holds) in [
            ("2025-01-01T00:01:00Z", 1),
            ("2025-01-01T20:00:30Z", 1_200),
            ("2025-01-02T16:39:00Z", 2_439),
            (now, LINKS),
        ] {
            let body = json!({ "id": id_of(asked), "asOf": at });
            let read = caller.call("read", body).await.expect_status(200);
            assert_eq!(read.body["id"], id_of(holds), "{asked} at {at}");
        }
    }
}

#[tokio::test]
async fn a_long_history_comes_page_by_page_and_says_so() {
    let kernel = Kernel::start().await;
    let caller = member(&kernel, "acme").await;
    planted(&kernel, LINKS, 0).await;
    let (chain, pages) = all_pages(&caller).await;
    let expected: Vec<String> = (1..=LINKS).map(id_of).collect();
    assert_eq!(each(&chain, "id"), expected);
    assert_eq!(pages, 3);
    assert_eq!(
        page(&caller, Some(&id_of(LINKS))).await,
        (Vec::new(), false)
    );
    // Whoever asks for what comes behind something else is told that.
    for after in [id_of(LINKS + 1), "nothing".to_owned()] {
        let body = json!({ "id": id_of(1), "after": after });
        let refused = caller.call("history", body).await;
        assert_eq!(refused.expect_status(422).body["field"], "after");
    }
    let stranger = member(&kernel, "beta").await;
    let body = json!({ "id": id_of(1), "after": id_of(2) });
    let refused = stranger.call("history", body).await;
    refused.expect_problem(404, "not_found");
}

#[tokio::test]
async fn a_history_of_long_texts_is_cut_by_its_bytes() {
    let kernel = Kernel::start().await;
    let caller = member(&kernel, "acme").await;
    planted(&kernel, 100, 60_000).await;
    let (chain, pages) = all_pages(&caller).await;
    assert_eq!((chain.len(), pages), (100, 6));
}
