//! A record of mem0 in the words of the write path.
//!
//! The forms: an item of `Memory.get_all()` and of the platform's listing (`memory`),
//! of an OpenMemory backup (`content`), and of an export whose schema names a text.
//! What mem0 knows as a user, an agent or a run is no identity here.

use serde_json::{Map, Value};

use super::entry::{Draft, Entry, renamed, under};
use super::times;

/// The fields that get another name, because their own would claim an identity or
/// says less: (mem0's, ours).
const RENAMED: [(&str, &str); 10] = [
    ("user_id", "subject"),
    ("agent_id", "assistant"),
    ("run_id", "run"),
    ("session_id", "session"),
    ("actor_id", "speaker"),
    ("role", "speakerRole"),
    ("attributed_to", "attributedTo"),
    ("created_at", "createdAt"),
    ("updated_at", "updatedAt"),
    ("expiration_date", "expires"),
];

/// The names that the text goes by, the usual one first.
const TEXTS: [&str; 4] = ["memory", "content", "text", "data"];

/// One record of an export. `reference` is what it is known by if it has no id.
pub(super) fn entry(at: String, mut record: Map<String, Value>, reference: &str) -> Entry {
    if record.get("state").and_then(Value::as_str) == Some("deleted") {
        return Entry::skipped(&at, "was deleted in mem0");
    }
    let text = TEXTS
        .iter()
        .find_map(|name| Some((*name, record.remove(*name)?)));
    let Some((name, Value::String(content))) = text else {
        return Entry::refused(&at, Some("memory"), "is missing, or is no text");
    };
    let time = match times::foreign(record.get("created_at")) {
        Ok(time) => time,
        Err(why) => return Entry::refused(&at, Some("created_at"), why),
    };
    let id = record.remove("id").unwrap_or_default();
    let id = id
        .as_str()
        .map(str::to_owned)
        .unwrap_or_else(|| id.to_string());
    let reference = if id == "null" {
        reference.to_owned()
    } else {
        id
    };
    let assumed_utc = time.as_ref().is_some_and(|time| time.assumed_utc);
    let draft = Draft {
        content,
        event_time: time.map(|time| time.text),
        metadata: under("mem0", renamed(record, &RENAMED)),
        verbatim: true,
        source: "swap-import",
        reference,
        importer: "mem0/1",
        ..Draft::default()
    };
    match Entry::of_body(at, draft.into_body(), assumed_utc) {
        // In the words of the file.
        Entry::Refused(mut refused) if refused.field.as_deref() == Some("content") => {
            refused.field = Some(name.to_owned());
            Entry::Refused(refused)
        }
        entry => entry,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(record: Value) -> Entry {
        let Value::Object(record) = record else {
            panic!("an object");
        };
        entry("x.json#1".to_owned(), record, "x.json[1]")
    }

    #[test]
    fn an_item_of_get_all_becomes_a_body() {
        let entry = read(json!({
            "id": "0a14d8f0", "memory": "Likes tea", "hash": "9f2b",
            "metadata": {"category": "taste", "user_id": "x"},
            "created_at": "2024-07-20T01:30:36.275141-07:00", "updated_at": null,
            "user_id": "alice", "agent_id": "shop", "run_id": "r1", "score": null,
        }));
        let Entry::Record(record) = entry else {
            panic!("{entry:?}");
        };
        assert!(!record.assumed_utc);
        let expected = json!({
            "content": "Likes tea",
            "eventTime": "2024-07-20T01:30:36.275141-07:00",
            "metadata": {"mem0": {
                "subject": "alice", "assistant": "shop", "run": "r1", "hash": "9f2b",
                "createdAt": "2024-07-20T01:30:36.275141-07:00",
                "metadata": {"category": "taste", "foreign_user_id": "x"},
            }},
            "verbatim": true,
            "provenance": {"source": "swap-import", "ref": "0a14d8f0", "importer": "mem0/1"},
        });
        assert_eq!(record.body, expected);
    }

    #[test]
    fn what_openmemory_deleted_stays_deleted() {
        let deleted = json!({"id": "1", "content": "x", "state": "deleted"});
        assert!(matches!(read(deleted), Entry::Skipped(_)));
        let archived = json!({"id": "1", "content": "x", "state": "archived", "app": "a"});
        assert!(matches!(read(archived), Entry::Record(_)));
    }

    #[test]
    fn a_fault_is_named_as_the_file_names_it() {
        for (record, field) in [
            (json!({"id": "1"}), "memory"),
            (json!({"memory": " "}), "memory"),
            (json!({"content": ""}), "content"),
            (json!({"memory": "x", "created_at": "soon"}), "created_at"),
        ] {
            let Entry::Refused(refused) = read(record) else {
                panic!("refused");
            };
            assert_eq!(refused.field.as_deref(), Some(field));
        }
    }
}
