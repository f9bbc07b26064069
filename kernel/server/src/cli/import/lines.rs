//! A file of lines, one record a line, read in bounded memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use super::entry::Entry;
use crate::http::MAX_BODY_BYTES;

/// The byte order mark of UTF-8, which some editors put first.
pub(super) const BOM: &[u8] = b"\xef\xbb\xbf";

/// The lines of a file that are not blank, with their numbers from 1.
pub(super) struct Lines {
    file: BufReader<File>,
    number: usize,
}

/// A line: its text, or what is wrong with it.
pub(super) type Line = (usize, Result<String, String>);

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = BufReader::with_capacity(64 * 1024, file);
        Ok(Self { file, number: 0 })
    }

    fn read(&mut self) -> io::Result<Option<Line>> {
        loop {
            let mut bytes = Vec::new();
            let limit = MAX_BODY_BYTES as u64 + 1;
            let read = (&mut self.file).take(limit).read_until(b'\n', &mut bytes)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if bytes.len() > MAX_BODY_BYTES && !bytes.ends_with(b"\n") {
                let rest = self.skip_line()?;
                let all = bytes.len() as u64 + rest;
                let why = format!("is {all} bytes; at most {MAX_BODY_BYTES} are taken");
                return Ok(Some((self.number, Err(why))));
            }
            if self.number == 1 && bytes.starts_with(BOM) {
                bytes.drain(..BOM.len());
            }
            match String::from_utf8(bytes) {
                Ok(text) if text.trim().is_empty() => {}
                Ok(text) => return Ok(Some((self.number, Ok(text)))),
                Err(_) => return Ok(Some((self.number, Err("is not UTF-8 text".to_owned())))),
            }
        }
    }

    /// Passes over the rest of a line, however long, and counts it.
    fn skip_line(&mut self) -> io::Result<u64> {
        let mut skipped = 0;
        loop {
            let buffer = self.file.fill_buf()?;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(buffer.len(), |at| at + 1);
            self.file.consume(taken);
            skipped += taken as u64;
            if end.is_some() || taken == 0 {
                return Ok(skipped);
            }
        }
    }
}

impl Iterator for Lines {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Each line as JSON, through `read`, or what is wrong with it.
pub(super) fn entries<'a>(
    path: &Path,
    name: &'a str,
    read: impl Fn(String, Value) -> Entry + 'a,
) -> Result<impl Iterator<Item = Result<Entry>> + 'a> {
    let lines = Lines::open(path)?;
    Ok(lines.map(move |line| {
        let (number, text) = line.with_context(|| format!("{name} cannot be read on"))?;
        let at = format!("{name}:{number}");
        let value = text.and_then(|text| {
            serde_json::from_str(&text).map_err(|error| format!("is not JSON: {}", column(&error)))
        });
        Ok(match value {
            Ok(value) => read(at, value),
            Err(why) => Entry::refused(&at, Some("line"), why),
        })
    }))
}

/// The reader's words without its line, which is always the first.
fn column(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let problem = text.split(" at line ").next().unwrap_or(&text);
    format!("{problem} at column {}", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Vec<Line> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("f");
        std::fs::write(&path, bytes).expect("written");
        let lines = Lines::open(&path).expect("opened");
        lines.map(|line| line.expect("read")).collect()
    }

    #[test]
    fn a_mark_and_blank_lines_are_passed_over_and_numbers_stay() {
        let read = lines(b"\xef\xbb\xbf1\r\n\n  \n2");
        let expected = vec![(1, Ok("1\r\n".to_owned())), (4, Ok("2".to_owned()))];
        assert_eq!(read, expected);
        assert!(lines(b"").is_empty());
    }

    #[test]
    fn a_line_that_is_not_text_costs_only_itself() {
        let read = lines(b"1\n\xff\n3\n");
        assert_eq!(read[1], (2, Err("is not UTF-8 text".to_owned())));
        assert_eq!(read[2].0, 3);
    }

    #[test]
    fn a_line_of_any_length_costs_only_itself() {
        let mut bytes = vec![b'x'; 5 * MAX_BODY_BYTES];
        bytes.extend(b"\nok\n");
        let read = lines(&bytes);
        let why = format!("is {} bytes; at most", bytes.len() - 3);
        assert!(
            read[0]
                .1
                .as_ref()
                .is_err_and(|error| error.starts_with(&why))
        );
        assert_eq!(read[1], (2, Ok("ok\n".to_owned())));

        let whole = [vec![b'x'; MAX_BODY_BYTES - 1], b"\n".to_vec()].concat();
        assert!(lines(&whole)[0].1.is_ok());
    }
}
