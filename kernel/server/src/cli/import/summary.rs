//! What became of an import, for people and for scripts.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::entry::{Refused, Skipped};
use super::input::Format;
use crate::cli::output::{self, line};

/// The outcome, counted: records until `records`, memories from `stored` on.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Summary {
    /// The form that the input was read as.
    pub(super) format: Format,
    /// Records that can be written.
    pub(super) records: usize,
    /// Of these, those that an earlier run wrote.
    pub(super) imported_before: usize,
    /// Of these, those that the kernel took in this run.
    pub(super) written: usize,
    pub(super) stored: usize,
    pub(super) deduplicated: usize,
    pub(super) superseded: usize,
    pub(super) disputed: usize,
    /// Candidates that the write path turned down, by its reason.
    pub(super) rejected: BTreeMap<String, usize>,
    /// Records that the kernel took to write later.
    pub(super) queued: usize,
    /// Records that were written in a lesser way, by its reason.
    pub(super) brownouts: BTreeMap<String, usize>,
    /// Records that could not be written.
    pub(super) refused: Vec<Refused>,
    /// What was left out on purpose.
    pub(super) skipped: Vec<Skipped>,
    /// Times without an offset that were taken as UTC.
    pub(super) assumed_utc: usize,
    pub(super) notes: Vec<String>,
    /// Why it ended before the last record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) stopped: Option<String>,
}

impl Summary {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            records: 0,
            imported_before: 0,
            written: 0,
            stored: 0,
            deduplicated: 0,
            superseded: 0,
            disputed: 0,
            rejected: BTreeMap::new(),
            queued: 0,
            brownouts: BTreeMap::new(),
            refused: vec![],
            skipped: vec![],
            assumed_utc: 0,
            notes: vec![],
            stopped: None,
        }
    }

    /// Counts what a write answered.
    pub(super) fn count(&mut self, answer: &Value) {
        let ids = |name: &str| answer[name].as_array().map_or(0, Vec::len);
        self.written += 1;
        self.stored += ids("stored");
        self.deduplicated += ids("deduplicated");
        self.superseded += ids("superseded");
        self.disputed += ids("disputed");
        self.queued += usize::from(answer.get("ticket").is_some());
        for rejected in answer["rejected"].as_array().into_iter().flatten() {
            let reason = rejected["reason"].as_str().unwrap_or("unknown");
            *self.rejected.entry(reason.to_owned()).or_default() += 1;
        }
        if let Some(brownout) = answer["brownout"].as_str() {
            *self.brownouts.entry(brownout.to_owned()).or_default() += 1;
        }
    }

    /// Prints it: one object, or a table and lists.
    pub(super) fn print(&self, json: bool) {
        if json {
            output::json(self);
            return;
        }
        output::table(["outcome", "count"], self.rows());
        for refused in &self.refused {
            let field = refused.field.as_ref();
            let field = field.map_or(String::new(), |field| format!("{field} "));
            line(format_args!(
                "refused {}: {field}{}",
                refused.at, refused.reason
            ));
        }
        for skipped in &self.skipped {
            line(format_args!("skipped {}: {}", skipped.at, skipped.reason));
        }
        if self.assumed_utc > 0 {
            line(format_args!(
                "{} timestamps without offset taken as UTC",
                self.assumed_utc
            ));
        }
        for note in &self.notes {
            line(note);
        }
        if let Some(why) = &self.stopped {
            line(format_args!("stopped: {why}"));
        }
    }

    fn rows(&self) -> Vec<[String; 2]> {
        let counts = [
            ("records", self.records),
            ("imported before", self.imported_before),
            ("stored", self.stored),
            ("deduplicated", self.deduplicated),
            ("superseded", self.superseded),
            ("disputed", self.disputed),
            ("queued", self.queued),
        ];
        // Always told; the others only where there is something to tell.
        let told = |name: &str| matches!(name, "records" | "stored" | "deduplicated");
        let counts = counts
            .into_iter()
            .filter(|(name, count)| *count > 0 || told(name));
        let mut rows: Vec<_> = counts
            .map(|(name, count)| [name.to_owned(), count.to_string()])
            .collect();
        for (what, counts) in [("rejected", &self.rejected), ("degraded", &self.brownouts)] {
            let counts = counts.iter();
            rows.extend(counts.map(|(why, count)| [format!("{what}: {why}"), count.to_string()]));
        }
        for (name, count) in [
            ("refused", self.refused.len()),
            ("skipped", self.skipped.len()),
        ] {
            rows.push([name.to_owned(), count.to_string()]);
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_outcome_of_an_answer_is_counted() {
        let mut summary = Summary::new(Format::Jsonl);
        summary.count(&json!({
            "stored": ["1", "2"], "deduplicated": ["3"], "superseded": ["4"], "disputed": ["2"],
            "rejected": [{"candidate": "x", "reason": "ungrounded"}], "brownout": "llm_budget",
        }));
        summary.count(&json!({"ticket": "job_1", "state": "queued"}));
        let counted = serde_json::to_value(&summary).expect("JSON");
        for (name, count) in [
            ("written", json!(2)),
            ("stored", json!(2)),
            ("deduplicated", json!(1)),
            ("superseded", json!(1)),
            ("disputed", json!(1)),
            ("queued", json!(1)),
            ("rejected", json!({"ungrounded": 1})),
            ("brownouts", json!({"llm_budget": 1})),
        ] {
            assert_eq!(counted[name], count, "{name}");
        }
    }
}
