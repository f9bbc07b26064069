//! What becomes of files that are imported, through the command and a kernel: every
//! form, a run that is broken off, and files that are not as they should be.

use std::path::{Path, PathBuf};

use halofy_tests::{Caller, Data, Finished, Kernel, Role};
use serde_json::{Value, json};

mod relay;

use relay::Relay;

/// A kernel, somebody who may import, and a folder for files.
struct Place {
    kernel: Kernel,
    relay: Relay,
    caller: Caller,
}

impl Place {
    async fn new() -> Self {
        let kernel = Kernel::start().await;
        let relay = Relay::before(&kernel).await;
        let caller = kernel.key("acme", "user:dana", Role::Member).await;
        Self {
            kernel,
            relay,
            caller,
        }
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.kernel.data().dir().join(name);
        let folder = path.parent().expect("a folder");
        std::fs::create_dir_all(folder).expect("the folder");
        std::fs::write(&path, bytes).expect("the file");
        path
    }

    async fn import(&self, path: &Path, flags: &[&str]) -> Finished {
        let path = path.display().to_string();
        let import = [
            "import",
            "--json",
            "--key",
            &self.caller.key,
            "--url",
            &self.relay.url,
            &path,
        ];
        let command = super::halofy().on(self.kernel.data());
        command.run(&[&import[..], flags].concat()).await
    }

    /// The columns of all memories, in the order of their content.
    async fn memories(&self, column: &str) -> Vec<String> {
        let sql = format!("select {column}::text from memory_objects order by content");
        self.kernel.sql_values(sql).await
    }
}

fn lines(of: &str, count: usize) -> String {
    (0..count)
        .map(|at| format!("{{\"content\":\"{of} {at:02} is due.\"}}\n"))
        .collect()
}

#[tokio::test]
async fn a_folder_of_markdown_is_imported_passage_by_passage() {
    let place = Place::new().await;
    let matter = "---\ntitle: Offices\ndate: 2026-03-01\ntags: [site, eu]\nowner: dana\n---\n";
    let text =
        format!("{matter}\nWhere we are.\n\n# Bern\n\nBy the river.\n\n## Desks\n\nTwelve.\n");
    let file = place.file("docs/a/offices.md", text);
    place.file("docs/b.markdown", "\u{feff}# Bern\n\nOld town.\n");
    place.file("docs/.hidden.md", "# no\n");
    place.file("docs/bytes.md", [0xff, 0xfe, b'x', 0]);
    place.file("docs/picture.png", "no");
    let outside = place.file("outside.md", "# no\n");
    let root = place.kernel.data().dir().join("docs");
    std::os::unix::fs::symlink(&outside, root.join("link.md")).expect("a link");

    let first = place.import(&root, &[]).await.expect_code(1).json();
    assert_eq!(first["refused"][0]["at"], "bytes.md");
    assert!(
        place.relay.bodies().is_empty(),
        "nothing before all is read"
    );

    let summary = place.import(&root, &["--keep-going"]).await;
    let summary = summary.expect_code(0).json();
    assert_eq!(summary["format"], "markdown");
    assert_eq!(summary["stored"], 4);
    assert_eq!(summary["assumedUtc"], 3);
    assert_eq!(
        summary["skipped"],
        json!([
            {"at": ".hidden.md", "reason": "is hidden"},
            {"at": "link.md", "reason": "is a symbolic link out of the folder"},
        ])
    );
    let mut bodies = place.relay.bodies();
    // Several are on their way at once.
    bodies.sort_by_key(|body| body["provenance"]["ref"].to_string());
    let references = bodies.iter().map(|body| &body["provenance"]["ref"]);
    let expected = [
        "a/offices.md",
        "a/offices.md#bern",
        "a/offices.md#desks",
        "b.markdown#bern",
    ];
    assert_eq!(references.collect::<Vec<_>>(), expected);
    assert_eq!(bodies[2]["provenance"]["source"], "document");
    assert_eq!(bodies[2]["eventTime"], "2026-03-01T00:00:00Z");
    let document = json!({
        "path": "a/offices.md", "title": "Offices", "headings": ["Bern", "Desks"],
        "tags": ["site", "eu"], "date": "2026-03-01", "frontMatter": {"foreign_owner": "dana"},
    });
    assert_eq!(bodies[2]["metadata"]["document"], document);
    assert_eq!(
        place.memories("content").await,
        [
            "# Bern\n\nBy the river.",
            "# Bern\n\nOld town.",
            "## Desks\n\nTwelve.",
            "Where we are."
        ]
        .map(str::to_owned)
    );

    // A passage that changed is all that is sent.
    let text = std::fs::read_to_string(&file).expect("the file");
    std::fs::write(&file, text.replace("Twelve", "Thirteen")).expect("the file");
    let again = place.import(&root, &["--keep-going"]).await.expect_code(0);
    let again = again.json();
    assert_eq!(again["importedBefore"], 3);
    assert_eq!(again["stored"], 1);
    assert_eq!(place.relay.bodies().len(), 1);
}

#[tokio::test]
async fn an_export_of_mem0_is_imported_and_its_users_stay_metadata() {
    let place = Place::new().await;
    let export = json!({"count": 5, "next": "u", "results": [
        {"id": "m-1", "memory": "Likes tea.", "hash": "h", "user_id": "alice",
         "agent_id": "shop", "run_id": null, "metadata": {"category": "taste", "userId": 7},
         "created_at": "2024-07-20T01:30:36.275141-07:00", "updated_at": null},
        {"id": "m-2", "memory": "Lives in Bern.", "created_at": "2024-07-21T10:00:00",
         "categories": ["home"], "structured_attributes": {"day": 21}},
    ]});
    let file = place.file("export.json", export.to_string());
    let summary = place
        .import(&file, &["--parallel", "1"])
        .await
        .expect_code(0)
        .json();
    assert_eq!(summary["format"], "mem0");
    assert_eq!(summary["stored"], 2);
    assert_eq!(summary["assumedUtc"], 1);
    let note = summary["notes"][0].as_str().expect("a note");
    assert!(note.contains("2 records of 5"), "{note}");
    let metadata = place.memories("metadata").await;
    let metadata: Value = serde_json::from_str(&metadata[0]).expect("JSON");
    assert_eq!(metadata["mem0"]["subject"], "alice");
    assert_eq!(metadata["mem0"]["metadata"]["foreign_userId"], 7);
    let times = place
        .memories("to_char(event_time at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS')")
        .await;
    assert_eq!(times, ["2024-07-20 08:30:36", "2024-07-21 10:00:00"]);
    let bodies = place.relay.bodies();
    let provenance = json!({"source": "swap-import", "ref": "m-1", "importer": "mem0/1"});
    assert_eq!(bodies[0]["provenance"], provenance);
}

#[tokio::test]
async fn episodes_of_graphiti_are_imported_with_the_time_they_speak_of() {
    let place = Place::new().await;
    let export = json!({"episodes": [
        {"uuid": "e-1", "name": "call", "group_id": "tenant-7", "labels": [],
         "source": "message", "source_description": "support", "entity_edges": ["x"],
         "content": "user: the printer is broken", "created_at": "2024-09-01T10:00:00Z",
         "valid_at": "2024-08-30T09:00:00+02:00"},
        {"uuid": "n-1", "labels": ["Entity"], "name": "printer", "summary": "broken"},
    ]});
    let file = place.file("episodes.json", export.to_string());
    let summary = place.import(&file, &[]).await.expect_code(0).json();
    assert_eq!(summary["format"], "graphiti");
    assert_eq!(summary["stored"], 1);
    assert_eq!(summary["skipped"][0]["at"], "episodes.json#n-1");
    assert_eq!(place.memories("kind").await, ["episode"]);
    let body = &place.relay.bodies()[0];
    assert_eq!(body["eventTime"], "2024-08-30T09:00:00+02:00");
    assert_eq!(body["metadata"]["graphiti"]["partition"], "tenant-7");
    assert_eq!(body["provenance"]["ref"], "e-1");
}

#[tokio::test]
async fn an_import_that_is_broken_off_goes_on_where_it_was_and_does_nothing_twice() {
    let place = Place::new().await;
    let file = place.file("parcels.jsonl", lines("Parcel", 20));
    place.relay.pass(7);
    let broken = place.import(&file, &["--parallel", "3"]).await;
    let broken = broken.expect_code(1).json();
    assert_eq!(broken["stored"], 7);
    assert!(broken["stopped"].is_string());
    assert_eq!(place.memories("content").await.len(), 7);

    place.relay.pass(usize::MAX);
    place.relay.bodies();
    let rest = place.import(&file, &[]).await.expect_code(0).json();
    assert_eq!(
        (&rest["importedBefore"], &rest["stored"]),
        (&json!(7), &json!(13))
    );
    assert_eq!(place.relay.bodies().len(), 13);

    let again = place.import(&file, &[]).await.expect_code(0).json();
    assert_eq!(again["importedBefore"], 20);
    assert!(place.relay.bodies().is_empty());

    let anew = place.import(&file, &["--restart"]).await.expect_code(0);
    assert_eq!(anew.json()["deduplicated"], 20);
    assert_eq!(place.memories("content").await.len(), 20);
}

#[tokio::test]
async fn the_same_file_under_another_key_is_another_import() {
    let mut place = Place::new().await;
    let file = place.file("parcels.jsonl", lines("Parcel", 3));
    place.import(&file, &[]).await.expect_code(0);
    place.caller = place.kernel.key("other", "user:eve", Role::Member).await;
    let summary = place.import(&file, &[]).await.expect_code(0).json();
    assert_eq!(summary["stored"], 3);
}

#[tokio::test]
async fn bad_lines_are_told_before_anything_is_written_or_left_out_when_asked() {
    let place = Place::new().await;
    let mut bytes = b"{\"content\":\"first\"}\nnot JSON\n\xff\xfe\n7\n\"bare\"\n".to_vec();
    bytes.extend(format!("\"{}\"\n", "x".repeat(3 << 20)).bytes());
    bytes.extend(b"{\"content\":\"late\",\"eventTime\":\"2026-03-01\"}\n{\"content\":\"cut");
    let file = place.file("mixed.jsonl", bytes);
    let told = place.import(&file, &[]).await.expect_code(1).json();
    let at = |summary: &Value| -> Vec<String> {
        let refused = summary["refused"].as_array().expect("a list");
        let at = refused.iter().map(|refused| {
            let text = |name: &str| refused[name].as_str().unwrap_or_default().to_owned();
            format!("{} {}", text("at"), text("field"))
        });
        at.collect()
    };
    let expected = [
        "mixed.jsonl:2 line",
        "mixed.jsonl:3 line",
        "mixed.jsonl:4 body",
        "mixed.jsonl:6 line",
        "mixed.jsonl:7 eventTime",
        "mixed.jsonl:8 line",
    ];
    assert_eq!(at(&told), expected);
    assert!(place.relay.bodies().is_empty());

    for before in [0, 2] {
        let passed = place.import(&file, &["--keep-going"]).await;
        let passed = passed.expect_code(0);
        assert!(passed.stderr.contains("6 records were left out"));
        let passed = passed.json();
        assert_eq!(at(&passed), expected);
        assert_eq!(passed["importedBefore"], before);
        assert_eq!(passed["written"], 2 - before);
    }
    assert_eq!(place.memories("content").await, ["bare", "first"]);
}

#[tokio::test]
async fn what_the_kernel_refuses_is_tried_again_by_the_next_run() {
    let place = Place::new().await;
    let bad = "{\"content\":\"odd\",\"kind\":\"rumour\"}\n";
    let text = format!("{}{bad}{}", lines("Early", 2), lines("Late", 2));
    let file = place.file("kinds.jsonl", text);
    let stopped = place.import(&file, &["--parallel", "1"]).await;
    let stopped = stopped.expect_code(1).json();
    assert_eq!(stopped["stored"], 2);
    assert_eq!(stopped["refused"][0]["at"], "kinds.jsonl:3");
    assert_eq!(stopped["refused"][0]["field"], "kind");

    for stored in [2, 0] {
        let passed = place.import(&file, &["--keep-going"]).await;
        let passed = passed.expect_code(0).json();
        assert_eq!(passed["stored"], stored);
        assert_eq!(passed["refused"].as_array().map(Vec::len), Some(1));
    }
    std::fs::write(
        &file,
        std::fs::read_to_string(&file)
            .expect("it")
            .replace("rumour", "fact"),
    )
    .expect("mended");
    let mended = place.import(&file, &[]).await.expect_code(0).json();
    assert_eq!(
        (&mended["importedBefore"], &mended["stored"]),
        (&json!(4), &json!(1))
    );
}

#[tokio::test]
async fn a_dry_run_prints_the_bodies_and_writes_nothing() {
    let place = Place::new().await;
    let file = place.file("note.md", "# A\n\nx\n\n# B\n\ny\n");
    let shown = place.import(&file, &["--dry-run"]).await.expect_code(0);
    let shown = shown.json();
    assert_eq!(shown["bodies"].as_array().map(Vec::len), Some(2));
    assert_eq!(shown["bodies"][1]["content"], "# B\n\ny");
    assert!(place.relay.bodies().is_empty());
    let note = place.kernel.data().dir().join("note.md.halofy-import");
    assert!(!note.exists());
}

#[tokio::test]
async fn a_file_that_cannot_be_read_whole_says_why_and_writes_nothing() {
    let place = Place::new().await;
    for (name, text, why) in [
        (
            "cut.json",
            "{\"results\":[{\"id\":\"1\",\"memory\":\"x\"},{\"id",
            "is cut off",
        ),
        ("empty.json", "", "is empty"),
        ("none.json", "[]", "holds no record"),
        ("other.json", "{\"full_name\":\"A\"}", "full_name"),
    ] {
        let file = place.file(name, text);
        let error = place.import(&file, &[]).await.expect_code(1).stderr;
        assert!(error.contains(why), "{name}: {error}");
    }
    assert!(place.relay.bodies().is_empty());
}

#[tokio::test]
async fn a_key_that_is_not_accepted_ends_the_import_at_once() {
    let mut place = Place::new().await;
    place.caller.key = format!("hm_{}", "0".repeat(64));
    let file = place.file("parcels.jsonl", lines("Parcel", 30));
    let ended = place.import(&file, &["--keep-going"]).await.expect_code(1);
    assert!(ended.json()["stopped"].is_string());
    assert!(
        place.relay.bodies().len() <= 16,
        "those under way, and no more"
    );
}

#[tokio::test]
async fn without_a_kernel_that_runs_the_command_opens_one_for_itself() {
    let data = Data::embedded();
    let command = super::halofy().on(&data);
    let created = command
        .run(&[
            "keys",
            "create",
            "--json",
            "--namespace",
            "acme",
            "--actor",
            "user:dana",
        ])
        .await;
    let created = created.expect_code(0).json();
    let key = created["key"].as_str().expect("a key");
    let file = data.dir().join("parcels.jsonl");
    std::fs::write(&file, lines("Parcel", 5)).expect("the file");
    let file = file.display().to_string();
    let finished = command.run(&["import", "--key", key, &file]).await;
    let finished = finished.expect_code(0);
    assert!(finished.stdout.contains("stored"), "{}", finished.stdout);
    assert!(finished.stderr.contains("read as JSON Lines"));
}
