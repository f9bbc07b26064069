//! LoCoMo (<https://github.com/snap-research/locomo>): ten long conversations and
//! questions about them, each with the turns that hold its evidence.

use std::path::Path;

use anyhow::{Context, Result};
use regex::Regex;
use serde_json::Value;

/// The data set's category of questions that have no answer.
const ADVERSARIAL: i64 = 5;

/// One conversation.
pub struct Conversation {
    /// The sample's own name.
    pub namespace: String,
    /// Evidence id and text of each turn.
    pub turns: Vec<(String, String)>,
    /// Question and evidence ids; the adversarial ones are left out.
    pub questions: Vec<(String, Vec<String>)>,
}

/// Reads `locomo10.json`.
///
/// # Errors
/// When the file cannot be read, or is another one.
pub fn read(path: &Path) -> Result<Vec<Conversation>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let samples: Vec<Value> =
        serde_json::from_slice(&bytes).context("this is not LoCoMo's locomo10.json")?;
    samples.iter().map(conversation).collect()
}

fn conversation(sample: &Value) -> Result<Conversation> {
    let namespace = sample["sample_id"]
        .as_str()
        .context("a sample has no sample_id")?
        .to_owned();
    let sessions = sample["conversation"]
        .as_object()
        .context("a sample has no conversation")?;
    let mut turns = Vec::new();
    for number in 1.. {
        // Some sessions have a date and no turns.
        if !sessions.contains_key(&format!("session_{number}_date_time")) {
            break;
        }
        let session = sessions.get(&format!("session_{number}"));
        turns.extend(
            session
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .map(turn),
        );
    }
    let ids = Regex::new(r"D\d+:\d+").context("the pattern of evidence ids")?;
    let questions = sample["qa"].as_array().into_iter().flatten();
    Ok(Conversation {
        namespace,
        turns,
        questions: questions.filter_map(|qa| question(qa, &ids)).collect(),
    })
}

fn turn(turn: &Value) -> (String, String) {
    let text = |field: &str| turn[field].as_str().unwrap_or_default();
    let mut content = format!("{}: {}", text("speaker"), text("text"));
    if let Some(caption) = turn["blip_caption"].as_str() {
        content += &format!(" [image: {caption}]");
    }
    (text("dia_id").to_owned(), content)
}

fn question(qa: &Value, ids: &Regex) -> Option<(String, Vec<String>)> {
    if qa["category"].as_i64() == Some(ADVERSARIAL) {
        return None;
    }
    let mut evidence: Vec<String> = Vec::new();
    for text in qa["evidence"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        evidence.extend(
            ids.find_iter(text)
                .map(|found| without_leading_zeros(found.as_str())),
        );
    }
    evidence.sort_unstable();
    evidence.dedup();
    let question = qa["question"].as_str()?.to_owned();
    (!evidence.is_empty()).then_some((question, evidence))
}

/// `D30:05` is turn 5 of session 30.
fn without_leading_zeros(id: &str) -> String {
    let mut parts = id[1..]
        .split(':')
        .map(|number| number.trim_start_matches('0'));
    let (session, turn) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    format!("D{session}:{turn}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn malformed_evidence_is_read_as_far_as_it_goes() {
        let ids = Regex::new(r"D\d+:\d+").expect("a pattern");
        let read = |evidence: Value| {
            question(
                &json!({"question": "q", "category": 1, "evidence": evidence}),
                &ids,
            )
            .map(|(_, ids)| ids)
        };
        assert_eq!(
            read(json!(["D8:6; D9:17"])),
            Some(vec!["D8:6".into(), "D9:17".into()])
        );
        assert_eq!(read(json!(["D30:05"])), Some(vec!["D30:5".into()]));
        assert_eq!(read(json!(["D"])), None);
    }
}
