//! Markdown, one file or a folder of them: which files are read, and what a passage
//! becomes.
//!
//! Not here: where a passage begins and ends.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use halofy_core::MAX_CONTENT_BYTES;
use serde_json::{Map, Value, json};
use walkdir::{DirEntry, WalkDir};

use super::document::read_text;
use super::entry::{Draft, Entry, Skipped, renamed, under};
use super::passages::{self, Passage};
use super::times;

const EXTENSIONS: [&str; 2] = ["md", "markdown"];
/// The most bytes of a heading in a reference.
const MAX_SLUG_BYTES: usize = 200;

/// The files of an import.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// (the name within the import, the path), in order.
    pub(super) read: Vec<(String, PathBuf)>,
    /// What was passed over by its name.
    pub(super) skipped: Vec<Skipped>,
    /// Files that are no Markdown.
    pub(super) others: usize,
}

/// Whether a file's name says that it is Markdown.
pub(super) fn is_markdown(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        EXTENSIONS
            .iter()
            .any(|known| known.eq_ignore_ascii_case(extension))
    })
}

/// The Markdown in a folder, or the one file.
///
/// # Errors
/// When a folder cannot be read or holds no Markdown.
pub(super) fn files(root: &Path) -> Result<Files> {
    let mut files = Files::default();
    if !root.is_dir() {
        let name = root.file_name().unwrap_or(root.as_os_str());
        let name = name.to_string_lossy().into_owned();
        files.read.push((name, root.to_owned()));
        return Ok(files);
    }
    let real = root
        .canonicalize()
        .with_context(|| format!("cannot read {}", root.display()))?;
    let mut walk = WalkDir::new(root).sort_by_file_name().into_iter();
    while let Some(found) = walk.next() {
        let found = found.with_context(|| format!("cannot read all of {}", root.display()))?;
        let path = found.path().strip_prefix(root).unwrap_or(found.path());
        let name = path.to_string_lossy().into_owned();
        if found.depth() == 0 {
            continue;
        }
        if let Some(reason) = left_out(&found, &real) {
            if found.file_type().is_dir() {
                walk.skip_current_dir();
            }
            let at = name;
            files.skipped.push(Skipped { at, reason });
        } else if !found.file_type().is_dir() {
            match is_markdown(found.path()) {
                true => files.read.push((name, found.path().to_owned())),
                false => files.others += 1,
            }
        }
    }
    if files.read.is_empty() {
        bail!("{} holds no Markdown (*.md, *.markdown)", root.display());
    }
    Ok(files)
}

fn left_out(found: &DirEntry, root: &Path) -> Option<String> {
    if found.file_name().as_encoded_bytes().starts_with(b".") {
        return Some("is hidden".to_owned());
    }
    if !found.path_is_symlink() {
        return None;
    }
    let inside = found
        .path()
        .canonicalize()
        .is_ok_and(|to| to.starts_with(root));
    Some(match inside {
        true => "is a symbolic link; what it points to is read under its own name".to_owned(),
        false => "is a symbolic link out of the folder".to_owned(),
    })
}

/// The passages of one file, and notes of what could not be read as it was meant.
pub(super) fn entries(name: &str, path: &Path) -> Vec<Entry> {
    let text = match read_text(path) {
        Ok(text) => text,
        Err(error) => return vec![Entry::refused(name, None, format!("{error:#}"))],
    };
    let mut entries = Vec::new();
    let (matter, body_at) = match passages::front_matter(&text) {
        None => (Matter::default(), 0),
        Some((yaml, end)) => match Matter::read(&yaml) {
            Some(matter) => (matter, end),
            None => {
                let note = "what looks like front matter is no YAML mapping; kept as text";
                entries.push(Entry::Note(format!("{name}: {note}")));
                (Matter::default(), 0)
            }
        },
    };
    if let Some(date) = &matter.unread_date {
        let note = format!("the date {date} is no time that can be read; kept as metadata");
        entries.push(Entry::Note(format!("{name}: {note}")));
    }
    let body = &text[body_at..];
    let mut slugs = HashMap::new();
    let mut line = 1 + newlines(&text[..body_at]);
    for passage in passages::split(body, MAX_CONTENT_BYTES) {
        let raw = &body[passage.range.clone()];
        let (content, above) = trimmed(raw);
        let at = format!("{name}:{}", line + newlines(&raw[..above]));
        line += newlines(raw);
        if !content.is_empty() {
            let reference = reference(name, &passage, &mut slugs);
            let body = matter.body(name, content, passage, reference);
            let assumed_utc = matter.time.as_ref().is_some_and(|time| time.assumed_utc);
            entries.push(Entry::of_body(at, body, assumed_utc));
        }
    }
    if body.trim().is_empty() {
        entries.push(Entry::skipped(name, "holds nothing but front matter"));
    }
    entries
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// A passage without blank lines around it, and where it begins. The first line keeps
/// its indentation, which may be code's.
fn trimmed(raw: &str) -> (&str, usize) {
    let first = raw.len() - raw.trim_start().len();
    let start = raw[..first].rfind('\n').map_or(0, |newline| newline + 1);
    match raw.trim().is_empty() {
        true => ("", 0),
        false => (raw[start..].trim_end(), start),
    }
}

/// `path#heading`, as a forge would link it; the second of a name gets `-1`, and a
/// later part of a long passage `~2`.
fn reference(name: &str, passage: &Passage, slugs: &mut HashMap<String, usize>) -> String {
    let mut reference = name.to_owned();
    if let Some(heading) = passage.headings.last() {
        let slug = slug(heading);
        let first_part = passage.part.is_none_or(|(part, _)| part == 1);
        let seen = slugs.entry(slug.clone()).or_default();
        *seen += usize::from(first_part);
        reference += &format!("#{slug}");
        if *seen > 1 {
            reference += &format!("-{}", *seen - 1);
        }
    }
    match passage.part {
        Some((part, _)) if part > 1 => format!("{reference}~{part}"),
        _ => reference,
    }
}

fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().flat_map(char::to_lowercase);
    let slug: String = kept
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect();
    super::entry::clip(&slug, MAX_SLUG_BYTES).to_owned()
}

/// What a file says about itself.
#[derive(Debug, Default)]
struct Matter {
    title: Option<Value>,
    tags: Vec<Value>,
    date: Option<Value>,
    time: Option<times::Read>,
    unread_date: Option<String>,
    rest: Map<String, Value>,
}

impl Matter {
    /// `None` if it is no YAML mapping.
    fn read(yaml: &str) -> Option<Self> {
        let Ok(Value::Object(mut rest)) = serde_saphyr::from_str(yaml) else {
            return None;
        };
        let title = rest.remove("title");
        let tags = rest.remove("tags").map(tags).unwrap_or_default();
        let date = rest.remove("date");
        let (time, unread_date) = match times::foreign(date.as_ref()) {
            Ok(time) => (time, None),
            Err(_) => (None, date.as_ref().map(Value::to_string)),
        };
        let rest = renamed(rest, &[]);
        Some(Self {
            title,
            tags,
            date,
            time,
            unread_date,
            rest,
        })
    }

    fn body(&self, name: &str, content: &str, passage: Passage, reference: String) -> Value {
        let part = passage
            .part
            .map(|(part, of)| json!({"number": part, "of": of}));
        let fields = Map::from_iter([
            ("path".to_owned(), name.into()),
            ("title".to_owned(), self.title.clone().unwrap_or_default()),
            ("headings".to_owned(), passage.headings.into()),
            ("tags".to_owned(), self.tags.clone().into()),
            ("date".to_owned(), self.date.clone().unwrap_or_default()),
            ("part".to_owned(), part.unwrap_or_default()),
            ("frontMatter".to_owned(), self.rest.clone().into()),
        ]);
        Draft {
            content: content.to_owned(),
            event_time: self.time.as_ref().map(|time| time.text.clone()),
            metadata: under("document", renamed(fields, &[])),
            source: "document",
            reference,
            importer: "markdown/1",
            ..Draft::default()
        }
        .into_body()
    }
}

/// A list, or names between commas.
fn tags(value: Value) -> Vec<Value> {
    match value {
        Value::Array(tags) => tags,
        Value::String(text) => {
            let names = text.split(',').map(str::trim);
            names
                .filter(|name| !name.is_empty())
                .map(Value::from)
                .collect()
        }
        Value::Null => vec![],
        other => vec![other],
    }
}
