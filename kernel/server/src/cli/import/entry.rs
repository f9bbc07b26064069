//! One record of an import: where it stands, and the body of `POST /v1/mem/write`
//! that it becomes. The only place that builds such a body from a foreign record.
//!
//! Not here: reading files, and what each foreign form calls its fields.

use halofy_core::Content;
use halofy_gate::claim_in_header;
use serde::Serialize;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The most bytes of `provenance.ref`.
const MAX_REF_BYTES: usize = 1024;

/// What the input holds at one place.
#[derive(Debug)]
pub(super) enum Entry {
    /// To be written.
    Record(Record),
    /// Cannot be written as it is.
    Refused(Refused),
    /// Left out on purpose.
    Skipped(Skipped),
    /// Worth saying, and nothing to write.
    Note(String),
}

/// A body for the write path.
#[derive(Debug)]
pub(super) struct Record {
    /// `file:line`, or `file#id`.
    pub(super) at: String,
    /// What is sent.
    pub(super) body: Value,
    /// Whether its time had no offset and was taken as UTC.
    pub(super) assumed_utc: bool,
}

/// A record that cannot be written, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Refused {
    /// `file:line`, or `file#id`.
    pub(super) at: String,
    /// The field at fault, if one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) field: Option<String>,
    /// What is wrong with it.
    pub(super) reason: String,
}

/// Something that is left out on purpose, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Skipped {
    /// `file:line`, `file#id` or a path.
    pub(super) at: String,
    /// Why.
    pub(super) reason: String,
}

/// What a foreign record says, in the words of the write path.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) content: String,
    pub(super) kind: Option<&'static str>,
    pub(super) event_time: Option<String>,
    pub(super) metadata: Map<String, Value>,
    /// Already a fact: no model need look for facts in it.
    pub(super) verbatim: bool,
    /// `document`, `swap-import`, …
    pub(super) source: &'static str,
    pub(super) reference: String,
    /// The importer and the version of its mapping, such as `mem0/1`.
    pub(super) importer: &'static str,
}

impl Entry {
    pub(super) fn refused(at: &str, field: Option<&str>, reason: impl Into<String>) -> Self {
        Self::Refused(Refused {
            at: at.to_owned(),
            field: field.map(str::to_owned),
            reason: reason.into(),
        })
    }

    pub(super) fn skipped(at: &str, reason: impl Into<String>) -> Self {
        Self::Skipped(Skipped {
            at: at.to_owned(),
            reason: reason.into(),
        })
    }

    /// The record with this body, or its first fault. The kernel checks again: here it
    /// is told before anything is written.
    pub(super) fn of_body(at: String, body: Value, assumed_utc: bool) -> Self {
        match fault(&body) {
            Some((field, reason)) => Self::refused(&at, Some(field), reason),
            None => Self::Record(Record {
                at,
                body,
                assumed_utc,
            }),
        }
    }
}

impl Draft {
    /// The body of `POST /v1/mem/write`.
    pub(super) fn into_body(self) -> Value {
        let mut body = Map::new();
        body.insert("content".to_owned(), self.content.into());
        if let Some(kind) = self.kind {
            body.insert("kind".to_owned(), kind.into());
        }
        if let Some(time) = self.event_time {
            body.insert("eventTime".to_owned(), time.into());
        }
        if !self.metadata.is_empty() {
            body.insert("metadata".to_owned(), self.metadata.into());
        }
        if self.verbatim {
            body.insert("verbatim".to_owned(), true.into());
        }
        let provenance = json!({
            "source": self.source,
            "ref": clip(&self.reference, MAX_REF_BYTES),
            "importer": self.importer,
        });
        body.insert("provenance".to_owned(), provenance);
        Value::Object(body)
    }
}

fn fault(body: &Value) -> Option<(&'static str, String)> {
    let Some(fields) = body.as_object() else {
        return Some(("body", "is neither a JSON object nor a string".to_owned()));
    };
    match fields.get("content") {
        None => return Some(("content", "is missing".to_owned())),
        Some(Value::String(text)) => {
            if let Err(invalid) = Content::parse(text) {
                return Some(("content", invalid.problem));
            }
        }
        Some(_) => return Some(("content", "is not a string".to_owned())),
    }
    match fields.get("eventTime") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if OffsetDateTime::parse(text, &Rfc3339).is_ok() => None,
        Some(_) => Some((
            "eventTime",
            "must be RFC 3339 with an offset, such as 2026-03-01T12:00:00Z".to_owned(),
        )),
    }
}

/// At most so many bytes of a text, cut between two characters.
pub(super) fn clip(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// A foreign value under names that speak of no identity, at any depth: who somebody
/// was elsewhere says nothing of who writes here, and the kernel takes no such claim.
pub(super) fn neutral(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut out = Map::new();
            for (name, value) in fields {
                out.insert(neutral_name(name), neutral(value));
            }
            Value::Object(out)
        }
        Value::Array(items) => Value::Array(items.into_iter().map(neutral).collect()),
        other => other,
    }
}

fn neutral_name(name: String) -> String {
    match claim_in_header(&name) {
        Some(_) => format!("foreign_{name}"),
        None => name,
    }
}

/// A foreign record's fields, those in `names` under our name for them (theirs, ours),
/// all neutral, without those that say nothing.
pub(super) fn renamed(record: Map<String, Value>, names: &[(&str, &str)]) -> Map<String, Value> {
    let mut out = Map::new();
    for (name, value) in record {
        let ours = names.iter().find(|(theirs, _)| *theirs == name);
        let name = ours.map_or(name, |(_, ours)| (*ours).to_owned());
        if !says_nothing(&value) {
            out.insert(neutral_name(name), neutral(value));
        }
    }
    out
}

/// `{"mem0": {…}}`, or nothing if there is nothing in it.
pub(super) fn under(name: &str, fields: Map<String, Value>) -> Map<String, Value> {
    match fields.is_empty() {
        true => Map::new(),
        false => Map::from_iter([(name.to_owned(), fields.into())]),
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_in_foreign_metadata_claims_an_identity() {
        let foreign = json!({"user_id": 1, "a": [{"Agent-Id": {"org_id": 2}}], "team": "x"});
        let expected = json!({
            "foreign_user_id": 1,
            "a": [{"foreign_Agent-Id": {"foreign_org_id": 2}}],
            "team": "x",
        });
        assert_eq!(neutral(foreign), expected);
    }

    #[test]
    fn a_fault_is_named_by_its_field() {
        let field = |body: Value| fault(&body).map(|(field, _)| field);
        assert_eq!(field(json!(7)), Some("body"));
        assert_eq!(field(json!({})), Some("content"));
        assert_eq!(field(json!({"content": " "})), Some("content"));
        assert_eq!(field(json!({"content": ["x"]})), Some("content"));
        let naive = json!({"content": "x", "eventTime": "2026-03-01T12:00:00"});
        assert_eq!(field(naive), Some("eventTime"));
        let good = json!({"content": "x", "eventTime": "2026-03-01T12:00:00+01:00"});
        assert_eq!(field(good), None);
    }

    #[test]
    fn a_reference_is_cut_between_characters() {
        assert_eq!(clip("aé", 2), "a");
        assert_eq!(clip("aé", 3), "aé");
    }
}
