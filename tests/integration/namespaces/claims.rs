//! N3: a request cannot say who sends it, by whatever verb and in whatever place.

use halofy_tests::{Answer, Caller, Kernel, Role};
use reqwest::Method;
use serde_json::{Value, json};

const VERBS: [&str; 5] = ["write", "search", "read", "stats", "ticket"];

/// Identities as people spell them.
const FIELDS: [&str; 14] = [
    "namespace",
    "Namespace",
    "actor",
    "actor_id",
    "agentId",
    "agent_id",
    "user_id",
    "userId",
    "tenant",
    "tenant-id",
    "org_id",
    "role",
    "principal",
    "key_id",
];

/// Where a request can name somebody.
#[derive(Debug, Clone, Copy)]
enum Place {
    Top,
    Metadata,
    DeepInMetadata,
    Header,
    Query,
}

const PLACES: [Place; 5] = [
    Place::Top,
    Place::Metadata,
    Place::DeepInMetadata,
    Place::Header,
    Place::Query,
];

/// A body that the verb would take.
fn body(verb: &str) -> Value {
    match verb {
        "write" => json!({ "content": "The harbour opens at nine." }),
        "search" => json!({ "query": "harbour" }),
        "read" => json!({ "id": "01ARZ3NDEKTSV4RRFFQ69G5FAV" }),
        "ticket" => json!({ "ticket": "job_01ARZ3NDEKTSV4RRFFQ69G5FAV" }),
        _ => json!({}),
    }
}

async fn claim(caller: &Caller, verb: &str, place: Place, field: &str) -> Answer {
    let mut path = format!("/v1/mem/{verb}");
    let mut body = body(verb);
    let mut headers = Vec::new();
    let header = format!("X-{field}");
    match place {
        Place::Top => body[field] = json!("bob"),
        Place::Metadata => body["metadata"] = json!({ field: "bob" }),
        Place::DeepInMetadata => body["metadata"] = json!({ "a": [{ "b": { field: ["bob"] } }] }),
        Place::Header => headers.push((header.as_str(), "bob")),
        Place::Query => path += &format!("?x=1&{field}=bob"),
    }
    caller
        .raw(Method::POST, &path, &headers, body.to_string())
        .await
}

#[tokio::test]
async fn n3_no_verb_takes_an_identity_from_any_place_of_a_request() {
    let kernel = Kernel::start().await;
    super::unlimited(&kernel, "acme").await;
    let alice = kernel.key("acme/alice", "user:alice", Role::Agent).await;
    let before = kernel.audit().await.len();
    for verb in VERBS {
        for place in PLACES {
            for field in FIELDS {
                let answer = claim(&alice, verb, place, field).await;
                assert_eq!(
                    answer.status, 403,
                    "{verb} {place:?} {field}: {}",
                    answer.text
                );
                answer.expect_problem(403, "identity_claimed");
            }
        }
    }
    assert_eq!(
        kernel
            .sql_value("select count(*) from memory_objects")
            .await,
        "0"
    );
    let rows = kernel.audit().await.split_off(before);
    assert_eq!(
        rows.len(),
        VERBS.len() * PLACES.len() * FIELDS.len(),
        "one row for each call"
    );
    for (at, row) in rows.iter().enumerate() {
        let row = &row.columns;
        assert_eq!(row.op, VERBS[at / (PLACES.len() * FIELDS.len())]);
        assert_eq!(
            (row.actor.as_str(), row.namespace.as_str()),
            ("user:alice", "acme/alice")
        );
        assert_eq!(row.key_id.as_ref(), Some(&alice.key_id));
        assert_eq!(row.result, "denied");
        let detail = row.detail.as_deref().unwrap_or_default();
        assert!(
            detail.starts_with("reason=identity_claimed field="),
            "{detail}"
        );
        assert!(!detail.contains("bob"), "{detail}");
    }
}

#[tokio::test]
async fn n3_spellings_of_proxies_and_escapes_are_claims_too() {
    let kernel = Kernel::start().await;
    let alice = kernel.key("acme/alice", "user:alice", Role::Agent).await;
    let write = || body("write").to_string();
    for header in [
        "X-Forwarded-User",
        "X-Auth-Request-User",
        "Remote-User",
        "X-Halofy-Namespace",
    ] {
        let answer = alice
            .raw(Method::POST, "/v1/mem/write", &[(header, "bob")], write())
            .await;
        answer.expect_problem(403, "identity_claimed");
    }
    for query in [
        "name%73pace=bob",
        "USER_ID=bob",
        "user%5Fid",
        "a=1;b=2&on-behalf-of=bob",
    ] {
        let path = format!("/v1/mem/write?{query}");
        let answer = alice.raw(Method::POST, &path, &[], write()).await;
        assert_eq!(answer.status, 403, "{query}: {}", answer.text);
    }
    for text in [
        r#"{"content":"x","metadata":{"\u0075ser_id":"bob"}}"#,
        r#"{"content":"x","metadata":{"USER-ID":"bob"}}"#,
        r#"{"content":"x","metadata":{"u_s_e_r":"bob"}}"#,
    ] {
        let answer = alice.raw(Method::POST, "/v1/mem/write", &[], text).await;
        assert_eq!(answer.status, 403, "{text}: {}", answer.text);
    }
    // The second spelling of a field cannot hide a claim in the first.
    let twice = r#"{"content":"x","metadata":{"user_id":"bob"},"metadata":{}}"#;
    alice
        .raw(Method::POST, "/v1/mem/write", &[], twice)
        .await
        .expect_invalid("metadata");
    assert_eq!(
        kernel
            .sql_value("select count(*) from memory_objects")
            .await,
        "0"
    );
}

#[tokio::test]
async fn n3_speaking_of_an_identity_is_no_claim() {
    let kernel = Kernel::start().await;
    let alice = kernel.key("acme/alice", "user:alice", Role::Agent).await;
    let body = json!({
        "content": "The namespace of the user is set by the actor's role.",
        "metadata": { "team": "namespace", "tags": ["user_id", "role"] },
    });
    let headers = [("User-Agent", "someone"), ("X-Request-Id", "abc")];
    let path = "/v1/mem/write?trace=user_id";
    let answer = alice
        .raw(Method::POST, path, &headers, body.to_string())
        .await;
    let id = answer.expect_status(200).id().to_owned();
    let memory = alice.read(&id).await.expect_status(200).body;
    assert_eq!(memory["namespace"], "acme/alice");
    assert_eq!(memory["actor"], "user:alice");
    assert_eq!(memory["metadata"], body["metadata"]);
}

#[tokio::test]
async fn n3_a_claim_without_a_key_is_audited_as_nobodys() {
    let kernel = Kernel::start().await;
    let nobody = kernel.caller("hm_0000", "none");
    claim(&nobody, "write", Place::Top, "namespace")
        .await
        .expect_problem(401, "unauthenticated");
    let row = kernel.last_audit().await.columns;
    assert_eq!(
        (row.actor.as_str(), row.namespace.as_str()),
        ("unknown", "unknown")
    );
    assert_eq!(
        (row.op.as_str(), row.result.as_str(), row.key_id),
        ("write", "denied", None)
    );
}
