//! What the kernel says again itself: a copy is erased with what it says, and what it says
//! with it, by whichever of them is named, and whatever happens at the same time.

use halofy_tests::{Caller, Kernel};
use serde_json::{Value, json};

use super::{admin, disputes, ids_in, resolve, tell, told};

const CANARY: &str = "Rome is zanzibar.";

/// Has one fact closed, said again, closed, and said again: its three rows, in order.
async fn said_three_times(kernel: &Kernel, admin: &Caller) -> Vec<String> {
    let first = told(admin, CANARY, json!({ "slot": "rome" })).await;
    for round in 0..2 {
        let content = format!("Rome is new, says {round}.");
        told(admin, &content, json!({ "slot": "rome" })).await;
        undo_last(admin).await;
    }
    let copies = format!("select id from memory_objects where content = '{CANARY}' order by id");
    let ids = kernel.sql_values(copies).await;
    assert_eq!((ids.len(), &ids[0]), (3, &first));
    ids
}

async fn undo_last(admin: &Caller) {
    let open = disputes(admin, json!({ "all": true })).await;
    let last = open[0]["id"].as_str().expect("an id").to_owned();
    resolve(admin, &last, "undo").await.expect_status(200);
}

#[tokio::test]
async fn whichever_of_its_copies_is_named_all_of_a_memory_is_erased() {
    let kernel = Kernel::start().await;
    for named in 0..3 {
        let namespace = format!("acme/{named}");
        let admin = admin(&kernel, &namespace).await;
        let ids = said_three_times(&kernel, &admin).await;
        let other = told(&admin, "Rome is far.", json!({})).await;
        let body = json!({ "id": ids[named] });
        let forgotten = admin.call("forget", body).await.expect_status(200).body;
        let mut erased = ids_in(&forgotten["erased"]);
        erased.sort();
        assert_eq!(erased, ids, "{named}");
        let left = format!(
            "select count(*) from memory_objects
              where namespace = '{namespace}' and content like '%zanzibar%'"
        );
        assert_eq!(kernel.sql_value(left).await, "0", "{named}");
        for id in &ids {
            admin.read(id).await.expect_problem(404, "not_found");
        }
        admin.read(&other).await.expect_status(200);
        kernel
            .sql("delete from memory_objects where content like '%says%'")
            .await;
    }
}

#[tokio::test]
async fn an_erasure_beside_an_undo_leaves_no_copy() {
    let kernel = Kernel::start().await;
    crate::namespaces::unlimited(&kernel, "acme").await;
    for run in 0..20 {
        let admin = admin(&kernel, &format!("acme/{run}")).await;
        let fields = json!({ "slot": "rome", "provenance": { "ref": "canary.md" } });
        let first = told(&admin, CANARY, fields).await;
        tell(&admin, "Rome is new.", json!({ "slot": "rome" })).await;
        let decided = disputes(&admin, json!({ "all": true })).await;
        let dispute = decided[0]["id"].as_str().expect("an id");
        let target = match run % 2 {
            0 => json!({ "id": first }),
            _ => json!({ "sourceRef": "canary.md" }),
        };
        let (undone, forgotten) = tokio::join!(
            resolve(&admin, dispute, "undo"),
            admin.call("forget", target)
        );
        forgotten.expect_status(200);
        assert!([200, 404].contains(&undone.status), "{}", undone.text);
        let left = "select count(*) from memory_objects where content like '%zanzibar%'";
        assert_eq!(kernel.sql_value(left).await, "0", "{run}");
    }
    let ended: Vec<Value> = Vec::new();
    let waiting = disputes(&admin(&kernel, "acme").await, json!({})).await;
    assert_eq!(waiting, ended);
}
