//! A vendor's own fixture: memories, and for each question what must come first. What must
//! not live here: the checks that every cartridge passes.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use halofy_cartridge::{Cartridge, CartridgeHost, PlanQuery};
use halofy_gate::conformance::MemoryView;
use serde::{Deserialize, Serialize};

/// The file that `halofy cartridge test DIR` runs if it is there.
pub(super) const FILE: &str = "rankings.toml";

const DEFAULT_BUDGET: u32 = 2_000;

/// The content of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rankings {
    /// What the caller sees, oldest first.
    memories: Vec<String>,
    /// What is asked.
    question: Vec<Question>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    text: String,
    /// The memories that must come first, in this order, by their position from 0.
    expect: Vec<usize>,
    #[serde(default)]
    token_budget: Option<u32>,
}

/// What became of one question.
#[derive(Debug, Serialize)]
pub(super) struct Ranking {
    pub(super) question: String,
    pub(super) passed: bool,
    pub(super) detail: String,
}

impl Rankings {
    /// Reads the file.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        let read: Self = toml::from_str(&text).with_context(|| format!("{shown} is not right"))?;
        for question in &read.question {
            for at in &question.expect {
                let memories = read.memories.len();
                anyhow::ensure!(
                    *at < memories,
                    "{shown}: {:?} expects memory {at}, and there are {memories}",
                    question.text
                );
            }
        }
        Ok(read)
    }

    /// Asks every question.
    pub(super) async fn run(&self, host: &CartridgeHost, cartridge: &Cartridge) -> Vec<Ranking> {
        let view = MemoryView::of(&self.memories);
        let mut rankings = Vec::new();
        for question in &self.question {
            let query = PlanQuery {
                text: question.text.as_str().into(),
                token_budget: question.token_budget.unwrap_or(DEFAULT_BUDGET),
                k: u32::try_from(question.expect.len().max(10)).unwrap_or(u32::MAX),
            };
            let planned = host.plan(cartridge, Arc::clone(&view) as _, query).await;
            let found = planned.map(|plan| {
                let hits = plan.hits.into_iter().take(question.expect.len());
                hits.map(|hit| hit.row.content.to_string()).collect()
            });
            rankings.push(self.judge(question, found.map_err(|failure| failure.to_string())));
        }
        rankings
    }

    fn judge(&self, question: &Question, found: Result<Vec<String>, String>) -> Ranking {
        let wanted: Vec<&str> = question
            .expect
            .iter()
            .map(|at| self.memories[*at].as_str())
            .collect();
        let (passed, detail) = match found {
            Ok(found) if found == wanted => (true, format!("first {}: as expected", wanted.len())),
            Ok(found) => (false, format!("expected {wanted:?}, found {found:?}")),
            Err(failure) => (false, failure),
        };
        Ranking {
            question: question.text.clone(),
            passed,
            detail,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Rankings> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join(FILE);
        std::fs::write(&path, text)?;
        Rankings::read(&path)
    }

    #[test]
    fn a_question_is_judged_by_what_comes_first() -> Result<()> {
        let text = "memories = [\"a\", \"b\"]\n[[question]]\ntext = \"q\"\nexpect = [1]\n";
        let rankings = read(text)?;
        let judged = |found| rankings.judge(&rankings.question[0], found).passed;
        assert!(judged(Ok(vec!["b".to_owned()])));
        assert!(!judged(Ok(vec!["a".to_owned()])));
        assert!(!judged(Ok(Vec::new())));
        assert!(!judged(Err("it trapped".to_owned())));
        Ok(())
    }

    #[test]
    fn a_memory_that_is_not_there_cannot_be_expected() {
        let text = "memories = [\"a\"]\n[[question]]\ntext = \"q\"\nexpect = [1]\n";
        let error = read(text).expect_err("there is one memory").to_string();
        assert!(
            error.contains("expects memory 1, and there are 1"),
            "{error}"
        );
    }
}
