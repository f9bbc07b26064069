//! A view over texts in memory, without a database: for checks over corpora that are not the
//! fixture's, and for measurements in which only the cartridge is to cost anything. It keeps
//! the promises of the contract; it knows no namespace but its own.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::sync::Arc;

use halofy_cartridge::{Row, RowId, View, ViewFailure, ViewFuture};
use halofy_retrieval::{bm25, cosine, hash_embed, terms};

use super::facts::{CANARIES, FACTS};
use super::fixture::{DIMENSION, HOME};

/// The visible memories of one caller, in memory.
#[derive(Debug)]
pub struct MemoryView {
    memories: Vec<Memory>,
    /// In how many memories each term occurs.
    holders: BTreeMap<String, usize>,
}

#[derive(Debug)]
struct Memory {
    row: Row,
    terms: BTreeSet<String>,
    vector: Vec<f32>,
}

impl MemoryView {
    /// A view of these texts, oldest first, with the hash embedder.
    pub fn of<S: AsRef<str>>(contents: impl IntoIterator<Item = S>) -> Arc<Self> {
        let memory = |(at, content): (usize, S)| Memory::new(at, content.as_ref());
        let memories: Vec<Memory> = contents.into_iter().enumerate().map(memory).collect();
        let mut holders = BTreeMap::new();
        for term in memories.iter().flat_map(|memory| &memory.terms) {
            *holders.entry(term.clone()).or_default() += 1;
        }
        Arc::new(Self { memories, holders })
    }

    /// A view of `count` texts: the facts that the checks plant, and sentences made of their
    /// words, so that a question meets many that share a word with it.
    pub fn corpus(count: usize) -> Arc<Self> {
        let facts = FACTS.iter().map(|(fact, _)| (*fact).to_owned());
        let made = (0..).map(mixed);
        Self::of(facts.chain(made).take(count))
    }

    /// The questions that [`Self::corpus`] answers.
    pub fn questions() -> impl Iterator<Item = &'static str> + Clone {
        FACTS.iter().map(|(_, question)| *question)
    }

    fn rows_by(&self, limit: usize, score: impl Fn(&Memory) -> f64) -> Vec<(Row, f64)> {
        let scored = self.memories.iter().map(|memory| (memory, score(memory)));
        let mut scored: Vec<(&Memory, f64)> = scored.collect();
        // Stable, so ties keep their order.
        scored.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let first = scored.into_iter().take(limit);
        first
            .map(|(memory, score)| (memory.row.clone(), score))
            .collect()
    }
}

impl Memory {
    fn new(at: usize, content: &str) -> Self {
        Self {
            row: Row {
                id: RowId::Memory(at as u128),
                content: content.into(),
                namespace: HOME.into(),
            },
            terms: terms(content).into_iter().collect(),
            vector: hash_embed(content, DIMENSION),
        }
    }
}

/// A sentence whose words come from the facts and canaries, another one for each number.
fn mixed(number: usize) -> String {
    let facts: Vec<&str> = FACTS
        .iter()
        .chain(&CANARIES)
        .map(|(fact, _)| *fact)
        .collect();
    let word = |at: usize| {
        let of = facts[(number * 7 + at * 3) % facts.len()];
        of.split(' ').nth((number + at * 5) % 9).unwrap_or(of)
    };
    let words: Vec<&str> = (0..18).map(word).collect();
    format!("Note {number}: {}", words.join(" "))
}

fn answer<T: Send + 'static>(value: T) -> ViewFuture<'static, T> {
    Box::pin(ready(Ok(value)))
}

impl View for MemoryView {
    fn namespace(&self) -> &str {
        HOME
    }

    fn dimensions(&self) -> Option<usize> {
        Some(DIMENSION)
    }

    fn candidates(&self, limit: usize) -> ViewFuture<'_, Vec<Row>> {
        let newest = self.memories.iter().rev().take(limit);
        answer(newest.map(|memory| memory.row.clone()).collect())
    }

    fn lexical_candidates(&self, query: String, limit: usize) -> ViewFuture<'_, Vec<Row>> {
        let asked: BTreeSet<String> = terms(&query).into_iter().collect();
        let idf = |term: &String| {
            let holders = self.holders.get(term).copied().unwrap_or(0);
            bm25::idf(holders, self.memories.len())
        };
        let weight = |memory: &Memory| asked.intersection(&memory.terms).map(idf).sum::<f64>();
        let found = self.rows_by(limit, weight).into_iter();
        answer(
            found
                .filter(|(_, weight)| *weight > 0.0)
                .map(|(row, _)| row)
                .collect(),
        )
    }

    fn vector_search(&self, embedding: Vec<f32>, k: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        answer(self.rows_by(k, |memory| cosine(&memory.vector, &embedding)))
    }

    fn embed(&self, texts: Vec<String>) -> ViewFuture<'_, Vec<Vec<f32>>> {
        let embedded = texts.iter().map(|text| hash_embed(text, DIMENSION));
        answer(embedded.collect())
    }

    fn concepts(&self, _: String, _: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        answer(Vec::new())
    }

    fn entity_facts(&self, mention: String, hops: u8) -> ViewFuture<'_, Vec<(Row, Arc<str>)>> {
        if !(1..=2).contains(&hops) {
            let why = ViewFailure::InvalidArgument("hops is 1 or 2".to_owned());
            return Box::pin(ready(Err(why)));
        }
        let name = mention.trim().to_lowercase();
        let names = |memory: &&Memory| {
            let lower = memory.row.content.to_lowercase();
            !name.is_empty()
                && lower
                    .split(|c: char| !c.is_alphanumeric())
                    .any(|w| w == name)
        };
        let fact = |memory: &Memory| (memory.row.clone(), Arc::from(mention.as_str()));
        answer(self.memories.iter().filter(names).map(fact).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_corpus_has_as_many_different_texts_as_asked() {
        let view = MemoryView::corpus(500);
        let texts: BTreeSet<&str> = view.memories.iter().map(|m| &*m.row.content).collect();
        assert_eq!(texts.len(), 500);
        assert_eq!(&*view.memories[0].row.content, FACTS[0].0);
    }

    #[tokio::test]
    async fn each_arm_finds_the_fact_of_a_question() {
        let view = MemoryView::corpus(200);
        for (fact, question) in FACTS {
            let lexical = view.lexical_candidates(question.to_owned(), 1).await;
            assert_eq!(&*lexical.expect("it answers")[0].content, fact);
            let vectors = view.embed(vec![question.to_owned()]).await;
            let vector = vectors.expect("it answers").remove(0);
            let near = view.vector_search(vector, 3).await.expect("it answers");
            assert!(
                near.iter().any(|(row, _)| &*row.content == fact),
                "{question}"
            );
        }
        let named = view.entity_facts("ottilie".to_owned(), 1).await;
        assert_eq!(&*named.expect("it answers")[0].0.content, FACTS[2].0);
    }
}
