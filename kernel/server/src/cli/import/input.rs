//! What is imported: which form it has, and its records in order.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::document::{self, Document};
use super::entry::Entry;
use super::lines::{self, Lines};
use super::markdown::{self, Files};
use super::{graphiti, mem0};

/// The forms that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    /// By the file's extension and what is in it.
    Auto,
    /// A body of POST /v1/mem/write a line, or a bare JSON string.
    Jsonl,
    /// A file, or a folder of them, cut at headings.
    Markdown,
    /// What mem0's get_all returns, its platform lists, or OpenMemory backs up.
    Mem0,
    /// Episodes of Graphiti or Zep, or messages of Zep.
    Graphiti,
}

/// An input that was found to have a form.
#[derive(Debug)]
pub(super) struct Input {
    /// Its form; never `Auto`.
    pub(super) format: Format,
    /// The file's or folder's own name.
    name: String,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Files(Files),
    Lines(PathBuf),
    Document(Document),
}

/// Records one after another; an error ends them.
pub(super) type Entries<'a> = Box<dyn Iterator<Item = Result<Entry>> + 'a>;

impl Input {
    /// # Errors
    /// When there is nothing, or nothing of the form that is asked for.
    pub(super) fn open(path: &Path, asked: Format) -> Result<Self> {
        let shown = path.display();
        let found = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?;
        let markdown = match asked {
            Format::Auto => found.is_dir() || markdown::is_markdown(path),
            asked => asked == Format::Markdown,
        };
        if found.is_dir() && !markdown {
            bail!("{shown} is a folder; only Markdown is read from one");
        }
        if !found.is_dir() && !found.is_file() {
            bail!("{shown} is neither a file nor a folder");
        }
        if found.is_file() && found.len() == 0 {
            bail!("{shown} is empty");
        }
        let (format, source) = match markdown {
            true => (Format::Markdown, Source::Files(markdown::files(path)?)),
            false => json_source(path, asked)?,
        };
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name = name.to_string_lossy().into_owned();
        Ok(Self {
            format,
            name,
            source,
        })
    }

    /// The records, from the first. The files are read anew each time.
    ///
    /// # Errors
    /// When a file cannot be opened.
    pub(super) fn entries(&self) -> Result<Entries<'_>> {
        let name = self.name.as_str();
        let format = self.format;
        Ok(match &self.source {
            Source::Files(files) => Box::new(file_entries(files)),
            Source::Lines(path) => Box::new(lines::entries(path, name, move |at, value| {
                line_entry(format, at, value)
            })?),
            Source::Document(document) => {
                let read = record_of(format);
                let records = document::entries(&document.records, name, id(format), read);
                Box::new(notes(document).into_iter().chain(records))
            }
        })
    }
}

fn file_entries(files: &Files) -> impl Iterator<Item = Result<Entry>> + '_ {
    let skipped = files.skipped.iter().cloned().map(Entry::Skipped);
    let others = (files.others > 0).then(|| {
        let note = format!("{} files are no Markdown and were left out", files.others);
        Entry::Note(note)
    });
    let read = files
        .read
        .iter()
        .flat_map(|(name, path)| markdown::entries(name, path));
    skipped.chain(others).chain(read).map(Ok)
}

fn notes(document: &Document) -> Option<Result<Entry>> {
    let (here, of) = (document.records.len(), document.of?);
    Some(Ok(Entry::Note(format!(
        "the file holds {here} records of {of}: it is one page of an export"
    ))))
}

fn line_entry(format: Format, at: String, value: Value) -> Entry {
    match (format, value) {
        (Format::Mem0 | Format::Graphiti, Value::Object(fields)) => {
            let reference = at.clone();
            record_of(format)(at, fields, &reference)
        }
        (Format::Mem0 | Format::Graphiti, _) => {
            Entry::refused(&at, Some("line"), "is no JSON object")
        }
        (_, Value::String(content)) => Entry::of_body(at, json!({ "content": content }), false),
        (_, body) => Entry::of_body(at, body, false),
    }
}

/// The reader of one record.
fn record_of(format: Format) -> impl Fn(String, Map<String, Value>, &str) -> Entry {
    move |at, fields, reference| match format {
        Format::Graphiti => graphiti::entry(at, fields, reference),
        _ => mem0::entry(at, fields, reference),
    }
}

fn id(format: Format) -> &'static str {
    match format {
        Format::Graphiti => "uuid",
        _ => "id",
    }
}

fn json_source(path: &Path, asked: Format) -> Result<(Format, Source)> {
    let lines = || Source::Lines(path.to_owned());
    if asked == Format::Jsonl {
        return Ok((asked, lines()));
    }
    let of_lines = path.extension().is_some_and(|extension| {
        extension.eq_ignore_ascii_case("jsonl") || extension.eq_ignore_ascii_case("ndjson")
    });
    let first = first_line(path)?;
    let form = first.as_ref().and_then(form_of);
    if form.is_some() || of_lines {
        let format = match asked {
            Format::Auto => form.unwrap_or(Format::Jsonl),
            asked => asked,
        };
        return Ok((format, lines()));
    }
    let document = Document::read(path)?;
    let Some(record) = document.records.first() else {
        bail!("{} holds no record", path.display());
    };
    let format = match (asked, document.envelope) {
        (Format::Auto, Some("memories")) => Format::Mem0,
        (Format::Auto, Some("episodes" | "messages")) => Format::Graphiti,
        (Format::Auto, _) => match form_of(record) {
            Some(Format::Jsonl) => bail!(
                "{} is a list of bodies; write one a line (`jq -c '.[]'`) to import them",
                path.display()
            ),
            Some(format) => format,
            None => bail!(
                "{}: the records are of no form that is known ({}); say --format if they are",
                path.display(),
                names(record)
            ),
        },
        (asked, _) => asked,
    };
    Ok((format, Source::Document(document)))
}

/// The first line that is not blank, if it is JSON by itself.
fn first_line(path: &Path) -> Result<Option<Value>> {
    let Some(line) = Lines::open(path)?.next() else {
        bail!("{} is empty", path.display());
    };
    let (_, text) = line.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.ok().and_then(|text| serde_json::from_str(&text).ok()))
}

/// The form that one record has by its fields.
fn form_of(record: &Value) -> Option<Format> {
    let fields = match record {
        Value::String(_) => return Some(Format::Jsonl),
        Value::Object(fields) => fields,
        _ => return None,
    };
    let has = |name: &str| fields.contains_key(name);
    if has("memory") && !has("content") || has("content") && has("id") && has("state") {
        return Some(Format::Mem0);
    }
    if has("uuid") && (has("content") || has("labels") || has("fact")) {
        return Some(Format::Graphiti);
    }
    has("content").then_some(Format::Jsonl)
}

fn names(record: &Value) -> String {
    let Value::Object(fields) = record else {
        return "no objects".to_owned();
    };
    let names: Vec<_> = fields.keys().take(8).map(String::as_str).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(name: &str, text: &str) -> Result<Input> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join(name);
        std::fs::write(&path, text).expect("written");
        Input::open(&path, Format::Auto)
    }

    fn found(name: &str, text: &str) -> Format {
        opened(name, text).expect("opened").format
    }

    #[test]
    fn the_form_is_told_by_name_and_shape() {
        let mem0 = r#"{"id":"1","memory":"x","hash":"h"}"#;
        let episode = r#"{"uuid":"1","content":"x","group_id":"g"}"#;
        assert_eq!(found("a.md", "# x"), Format::Markdown);
        assert_eq!(found("a.jsonl", r#"{"content":"x"}"#), Format::Jsonl);
        assert_eq!(found("a.jsonl", r#""x""#), Format::Jsonl);
        assert_eq!(found("a.jsonl", "{\n"), Format::Jsonl);
        assert_eq!(found("a.txt", r#"{"content":"x"}"#), Format::Jsonl);
        assert_eq!(found("a.jsonl", mem0), Format::Mem0);
        assert_eq!(found("a.jsonl", episode), Format::Graphiti);
        assert_eq!(found("a.json", &format!("[{mem0}]")), Format::Mem0);
        assert_eq!(
            found("a.json", &format!("{{\n\"results\":[{mem0}]}}")),
            Format::Mem0
        );
        let backup = r#"{"user":{},"memories":[{"id":"1","content":"x"}]}"#;
        assert_eq!(found("a.json", backup), Format::Mem0);
        assert_eq!(
            found("a.json", &format!("[\n{episode}\n]")),
            Format::Graphiti
        );
        let episodes = format!("{{\"episodes\":[{episode}]}}");
        assert_eq!(found("a.json", &episodes), Format::Graphiti);
    }

    #[test]
    fn what_has_no_known_form_is_an_error_that_says_so() {
        for (name, text, why) in [
            ("a.json", "", "is empty"),
            ("a.json", "\n \n", "is empty"),
            ("a.json", "[]", "holds no record"),
            ("a.json", "[{\"id\":1,\"mem", "is cut off"),
            ("a.json", r#"{"full_name":"A"}"#, "its fields are full_name"),
            ("a.json", r#"[{"full_name":"A"}]"#, "full_name"),
            ("a.json", r#"[{"content":"x"}]"#, "one a line"),
        ] {
            let error = format!("{:#}", opened(name, text).expect_err(text));
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
