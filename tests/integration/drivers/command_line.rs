//! The path of `drivers/README.md` from a vendor's file to an agent's answer, as commands.

use halofy_tests::{Data, ranking_cartridge};
use serde_json::Value;

use crate::halofy;

#[tokio::test]
async fn from_a_vendors_file_to_an_agents_answer() {
    let data = Data::fresh().await;
    let program = halofy().on(&data);
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (wasm, key) = (path("my-engine.wasm"), path("vendor.key"));
    std::fs::write(&wasm, ranking_cartridge("my-engine", "0.1.0")).expect("a file");
    let run = async |arguments: &[&str]| {
        let finished = program.run(arguments).await;
        assert_eq!(finished.code, Some(0), "{arguments:?}: {finished:?}");
        finished.stdout
    };
    let json = async |arguments: &[&str]| -> Value {
        let with = [arguments, &["--json"]].concat();
        serde_json::from_str(&run(&with).await).expect("JSON")
    };
    run(&["cartridge", "inspect", &wasm]).await;
    run(&["cartridge", "keygen", "--out", &key]).await;
    run(&["cartridge", "sign", &wasm, "--key", &key]).await;
    let refused = program.run(&["cartridge", "push", &wasm]).await;
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("not trusted") || refused.stderr.contains("trust"),
        "{refused:?}"
    );
    let public = path("vendor.pub");
    run(&[
        "trust",
        "add",
        &public,
        "--vendor",
        "My Company",
        "--names",
        "my-*",
    ])
    .await;
    let pushed = json(&["cartridge", "push", &wasm]).await;
    assert_eq!(
        (&pushed["name"], &pushed["mounted"]),
        (&"my-engine".into(), &true.into())
    );
    run(&["policy", "set", "acme", "--retriever", "my-engine"]).await;
    let key = json(&[
        "keys",
        "create",
        "--namespace",
        "acme/eng",
        "--actor",
        "user:dana",
    ])
    .await;
    let key = key["key"].as_str().expect("a key").to_owned();
    run(&["write", "--key", &key, "The office is in Bern."]).await;
    let found = json(&["search", "--key", &key, "where is the office?", "--explain"]).await;
    assert_eq!(found["driver"], "my-engine");
    assert_eq!(found["explain"]["attempts"][0]["version"], "0.1.0");
    let rows = json(&["audit", "tail"]).await;
    let rows = rows.as_array().expect("rows");
    let search = rows.iter().find(|row| row["columns"]["op"] == "search");
    let seq = search.expect("a search")["seq"].to_string();
    let replayed = json(&["replay", &seq]).await;
    assert_eq!(replayed["same"], true, "{replayed}");
    let listed = run(&["drivers", "list"]).await;
    assert!(
        listed.contains("my-engine *") && listed.contains("signed by My Company"),
        "{listed}"
    );
    let ghost = ["policy", "set", "acme", "--retriever", "ghost", "--json"];
    let refused = program.run(&ghost).await.expect_code(1);
    assert!(refused.json()["error"].to_string().contains("unmounted"));
    let rows = json(&["audit", "tail", "-n", "1"]).await;
    let last = &rows[0]["columns"];
    assert_eq!(
        (&last["op"], &last["result"]),
        (&"policy_set".into(), &"error".into())
    );
    run(&["audit", "verify"]).await;
}
