//! What is loaded: LoCoMo, or made-up conversations of its shape.

use std::path::Path;

use halofy::locomo;

/// Conversations, and a question about each.
pub(crate) struct Corpus {
    /// For the report.
    pub(crate) name: String,
    /// Namespace, texts, questions.
    pub(crate) conversations: Vec<(String, Vec<String>, Vec<String>)>,
}

impl Corpus {
    pub(crate) fn load(file: Option<&Path>) -> Self {
        let Some(file) = file else {
            return Self::made_up();
        };
        let read = locomo::read(file).expect("locomo10.json");
        let conversations = read.into_iter().map(|one| {
            let texts = one.turns.into_iter().map(|(_, text)| text).collect();
            let questions = one
                .questions
                .into_iter()
                .map(|(question, _)| question)
                .collect();
            (one.namespace, texts, questions)
        });
        Self {
            name: "LoCoMo, 10 conversations".to_owned(),
            conversations: conversations.collect(),
        }
    }

    /// Ten conversations of 588 turns with words drawn by a fixed recurrence.
    fn made_up() -> Self {
        let mut state = 7_u32;
        let mut word = move || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            format!("w{}", (state >> 16) % 3_000)
        };
        let mut text = |words: usize| (0..words).map(|_| word()).collect::<Vec<_>>().join(" ");
        let conversations = (0..10).map(|number| {
            let texts = (0..588).map(|_| text(22)).collect();
            let questions = (0..150).map(|_| text(7)).collect();
            (format!("made-up-{number}"), texts, questions)
        });
        Self {
            name: "made up, 10 conversations of 588 turns".to_owned(),
            conversations: conversations.collect(),
        }
    }

    pub(crate) fn memories(&self) -> usize {
        self.conversations
            .iter()
            .map(|(_, texts, _)| texts.len())
            .sum()
    }
}
