//! An episode of Graphiti, or an episode or message of Zep, in the words of the write
//! path.
//!
//! The forms: `EpisodicNode` (`uuid name group_id source source_description content
//! created_at valid_at`), Zep's graph episode (`uuid content created_at source role …`)
//! and message (`uuid content role role_type name created_at`). Their groups, users and
//! roles are no identities here.

use serde_json::{Map, Value};

use super::entry::{Draft, Entry, renamed, under};
use super::times;

/// (theirs, ours). The rest keeps its name, made neutral.
const RENAMED: [(&str, &str); 13] = [
    ("group_id", "partition"),
    ("graph_id", "partition"),
    ("source", "form"),
    ("source_description", "description"),
    ("user_id", "subject"),
    ("session_id", "thread"),
    ("thread_id", "thread"),
    ("role", "speakerRole"),
    ("role_type", "speakerRoleType"),
    ("created_at", "recordedAt"),
    ("document_id", "document"),
    ("entity_edges", "edges"),
    ("reference_time", "referenceTime"),
];

/// When it happened: the first of these that is there.
const TIMES: [&str; 3] = ["valid_at", "reference_time", "created_at"];

/// One record of an export. `reference` is what it is known by if it has no uuid.
pub(super) fn entry(at: String, mut record: Map<String, Value>, reference: &str) -> Entry {
    if let Some(reason) = derived(&record) {
        return Entry::skipped(&at, reason);
    }
    let content = match record.remove("content") {
        Some(Value::String(text)) => text,
        // An episode of JSON that was not kept as a text.
        Some(value @ (Value::Object(_) | Value::Array(_))) => value.to_string(),
        _ => return Entry::refused(&at, Some("content"), "is missing, or is no text"),
    };
    let mut time = None;
    for name in TIMES {
        match times::foreign(record.get(name)) {
            Ok(None) => {}
            Ok(read) => {
                time = read;
                break;
            }
            Err(why) => return Entry::refused(&at, Some(name), why),
        }
    }
    // The event's time says it already, and the others say nothing of the episode.
    for name in ["valid_at", "labels", "processed"] {
        record.remove(name);
    }
    let uuid = record.remove("uuid");
    let uuid = uuid.as_ref().and_then(Value::as_str).unwrap_or(reference);
    let assumed_utc = time.as_ref().is_some_and(|time| time.assumed_utc);
    let draft = Draft {
        content,
        kind: Some("episode"),
        event_time: time.map(|time| time.text),
        source: "swap-import",
        reference: uuid.to_owned(),
        importer: "graphiti/1",
        metadata: under("graphiti", renamed(record, &RENAMED)),
        ..Draft::default()
    };
    Entry::of_body(at, draft.into_body(), assumed_utc)
}

/// Whether it is not an episode but something that Graphiti made of episodes.
fn derived(record: &Map<String, Value>) -> Option<&'static str> {
    let labels = record.get("labels").and_then(Value::as_array);
    let labelled = |name: &str| {
        let labels = labels.into_iter().flatten();
        labels.filter_map(Value::as_str).any(|label| label == name)
    };
    if record.contains_key("fact") || record.contains_key("source_node_uuid") {
        return Some("an edge that Graphiti derived, not an episode");
    }
    let node = labelled("Entity") || labelled("Community");
    (node && !record.contains_key("content"))
        .then_some("a node that Graphiti derived, not an episode")
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

    fn body(record: Value) -> Value {
        match read(record) {
            Entry::Record(record) => record.body,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_episodic_node_becomes_a_body() {
        let body = body(json!({
            "uuid": "e-1", "name": "call 7", "group_id": "tenant-1", "labels": [],
            "created_at": "2024-09-01T10:00:00Z", "valid_at": "2024-08-30T09:00:00Z",
            "source": "message", "source_description": "support chat",
            "content": "user: the printer is broken", "entity_edges": [],
        }));
        let expected = json!({
            "content": "user: the printer is broken",
            "kind": "episode",
            "eventTime": "2024-08-30T09:00:00Z",
            "metadata": {"graphiti": {
                "name": "call 7", "partition": "tenant-1", "form": "message",
                "description": "support chat", "recordedAt": "2024-09-01T10:00:00Z",
            }},
            "provenance": {"source": "swap-import", "ref": "e-1", "importer": "graphiti/1"},
        });
        assert_eq!(body, expected);
    }

    #[test]
    fn a_message_of_zep_becomes_a_body() {
        let body = body(json!({
            "uuid": "m-1", "content": "Hello", "role": "user", "name": "Jane",
            "created_at": "2024-09-01T10:00:00Z", "processed": true,
        }));
        assert_eq!(body["content"], "Hello");
        assert_eq!(body["eventTime"], "2024-09-01T10:00:00Z");
        assert_eq!(body["metadata"]["graphiti"]["speakerRole"], "user");
        assert_eq!(body["metadata"]["graphiti"]["name"], "Jane");
    }

    #[test]
    fn what_graphiti_derived_is_left_out_and_said() {
        let edge = json!({"uuid": "1", "fact": "A knows B", "source_node_uuid": "2"});
        assert!(matches!(read(edge), Entry::Skipped(_)));
        let node = json!({"uuid": "1", "labels": ["Entity"], "summary": "A"});
        assert!(matches!(read(node), Entry::Skipped(_)));
        assert!(matches!(read(json!({"uuid": "1"})), Entry::Refused(_)));
    }
}
