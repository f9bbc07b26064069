//! A whole JSON document that holds many records: a list, or an object around one.

use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use super::entry::Entry;
use super::lines::BOM;

/// A document is read whole; a longer export is to come as JSON Lines, which is not.
const MAX_DOCUMENT_BYTES: u64 = 256 * 1024 * 1024;

/// The fields that hold the records in the forms that are known, and what they are of.
const ENVELOPES: [&str; 4] = ["results", "memories", "episodes", "messages"];

/// The records of a document.
#[derive(Debug)]
pub(super) struct Document {
    /// The field that held them, if they stood in an object.
    pub(super) envelope: Option<&'static str>,
    /// The records.
    pub(super) records: Vec<Value>,
    /// How many there are elsewhere, if the document says that it is one page of more.
    pub(super) of: Option<u64>,
}

impl Document {
    /// # Errors
    /// When the file is no JSON document of a known form: nothing of it is used.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let name = path.display();
        let bytes = std::fs::metadata(path)
            .with_context(|| format!("cannot read {name}"))?
            .len();
        if bytes > MAX_DOCUMENT_BYTES {
            bail!(
                "{name} is {bytes} bytes; a JSON document of at most {MAX_DOCUMENT_BYTES} is \
                 read. Write its records as JSON Lines (`jq -c '.results[]'`), of any length"
            );
        }
        let text = read_text(path)?;
        let value: Value = serde_json::from_str(&text).with_context(|| {
            format!("{name} is not JSON, or is cut off; nothing of it was imported")
        })?;
        Self::of(value).with_context(|| format!("{name} holds no list of records"))
    }

    /// The records in a value.
    pub(super) fn of(value: Value) -> Result<Self> {
        let mut fields = match value {
            Value::Array(records) => {
                return Ok(Self {
                    envelope: None,
                    records,
                    of: None,
                });
            }
            Value::Object(fields) => fields,
            _ => bail!("it is neither a list nor an object"),
        };
        let found = ENVELOPES
            .into_iter()
            .find_map(|name| match fields.remove(name) {
                Some(Value::Array(records)) => Some((name, records)),
                _ => None,
            });
        let Some((envelope, records)) = found else {
            let names: Vec<_> = fields.keys().take(8).map(String::as_str).collect();
            bail!(
                "its fields are {}; looked for {}",
                names.join(", "),
                ENVELOPES.join(", ")
            );
        };
        let envelope = Some(envelope);
        let of = page_of(&fields, records.len());
        Ok(Self {
            envelope,
            records,
            of,
        })
    }
}

/// Both platforms list in pages; one page alone is easily taken for all.
fn page_of(fields: &Map<String, Value>, here: usize) -> Option<u64> {
    let count = ["count", "total_count"]
        .iter()
        .find_map(|name| fields.get(*name)?.as_u64());
    count.filter(|count| *count > here as u64)
}

/// A file's text, without a byte order mark.
///
/// # Errors
/// When it cannot be read, is empty or is not UTF-8.
pub(super) fn read_text(path: &Path) -> Result<String> {
    let name = path.display();
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .with_context(|| format!("cannot read {name}"))?;
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        bail!("{name} is UTF-16; save it as UTF-8");
    }
    let text = bytes.strip_prefix(BOM).unwrap_or(&bytes);
    match std::str::from_utf8(text) {
        Ok(text) if text.trim().is_empty() => bail!("{name} is empty"),
        Ok(text) => Ok(text.to_owned()),
        Err(error) => bail!("{name} is not UTF-8 text: see byte {}", error.valid_up_to()),
    }
}

/// Each record through `read`, which gets where it stands and what it is known by
/// without an id.
pub(super) fn entries<'a>(
    records: &'a [Value],
    name: &'a str,
    id: &'static str,
    read: impl Fn(String, Map<String, Value>, &str) -> Entry + 'a,
) -> impl Iterator<Item = Result<Entry>> + 'a {
    records.iter().enumerate().map(move |(index, record)| {
        let place = format!("{name}[{index}]");
        let Value::Object(fields) = record else {
            return Ok(Entry::refused(&place, Some("record"), "is no JSON object"));
        };
        let at = match fields.get(id).and_then(Value::as_str) {
            Some(id) => format!("{name}#{id}"),
            None => place.clone(),
        };
        Ok(read(at, fields.clone(), &place))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn records_are_found_in_a_list_or_under_a_known_name() {
        let found = |value| {
            let document = Document::of(value).expect("found");
            (document.envelope, document.records.len(), document.of)
        };
        assert_eq!(found(json!([1, 2])), (None, 2, None));
        let page = json!({"count": 9, "next": "u", "previous": null, "results": [1]});
        assert_eq!(found(page), (Some("results"), 1, Some(9)));
        let all = json!({"row_count": 1, "total_count": 1, "messages": [1]});
        assert_eq!(found(all), (Some("messages"), 1, None));
        assert!(Document::of(json!({"full_name": "A"})).is_err());
        assert!(Document::of(json!("x")).is_err());
    }
}
