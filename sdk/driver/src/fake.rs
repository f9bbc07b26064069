//! A view over memories in memory, for unit tests and native measurements. It keeps the
//! promises of the contract (order, handles, errors); it knows no namespaces but its own,
//! so what is hidden from a caller cannot be tested here.

use std::cell::{Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use halofy_retrieval::{bm25, cosine, hash_embed, terms};

use crate::types::{Candidate, EntityFact, Handle, ScoredCandidate, ViewError};
use crate::view::ScopedView;

/// The size of the vectors, unless [`FakeView::with_embedder`] says otherwise.
pub const DIMENSION: usize = 256;

/// One call that a cartridge made, with its arguments.
#[derive(Debug, Clone, PartialEq)]
#[allow(
    missing_docs,
    reason = "each is the function of the view and its arguments"
)]
pub enum Call {
    Namespace,
    Candidates { limit: u32 },
    LexicalCandidates { query: String, limit: u32 },
    VectorSearch { dimension: usize, k: u32 },
    Embed { texts: Vec<String> },
    Concepts { query: String, k: u32 },
    EntityFacts { mention: String, hops: u8 },
}

/// A function of the view that [`FakeView::failing`] can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the function of the view")]
pub enum Arm {
    Candidates,
    LexicalCandidates,
    VectorSearch,
    Embed,
    Concepts,
    EntityFacts,
}

/// What a handle stands for: a position, in the order in which they were added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Row {
    /// A memory.
    Memory(usize),
    /// A concept.
    Concept(usize),
}

type Embedder = Box<dyn Fn(&str) -> Vec<f32>>;

/// The view of one caller, for one call: [`FakeView::next_call`] begins another.
pub struct FakeView {
    namespace: String,
    embedder: Embedder,
    memories: Vec<Text>,
    concepts: Vec<Text>,
    /// Canonical name and all names in lower case, by canonical name.
    entities: BTreeMap<String, Vec<String>>,
    /// In how many memories each term occurs.
    holders: BTreeMap<String, usize>,
    broken: BTreeMap<Arm, ViewError>,
    admitted: RefCell<Vec<Row>>,
    calls: RefCell<Vec<Call>>,
}

struct Text {
    content: String,
    terms: BTreeSet<String>,
    vector: Vec<f32>,
}

impl FakeView {
    /// An empty view with the hash embedder.
    #[must_use]
    pub fn new(namespace: &str) -> Self {
        Self::with_embedder(namespace, |text| hash_embed(text, DIMENSION))
    }

    /// An empty view with an embedder of your own.
    #[must_use]
    pub fn with_embedder(namespace: &str, embedder: impl Fn(&str) -> Vec<f32> + 'static) -> Self {
        Self {
            namespace: namespace.to_owned(),
            embedder: Box::new(embedder),
            memories: Vec::new(),
            concepts: Vec::new(),
            entities: BTreeMap::new(),
            holders: BTreeMap::new(),
            broken: BTreeMap::new(),
            admitted: RefCell::default(),
            calls: RefCell::default(),
        }
    }

    /// Adds memories, oldest first.
    #[must_use]
    pub fn memories<S: AsRef<str>>(mut self, contents: impl IntoIterator<Item = S>) -> Self {
        for content in contents {
            let text = self.text(content.as_ref());
            for term in &text.terms {
                *self.holders.entry(term.clone()).or_default() += 1;
            }
            self.memories.push(text);
        }
        self
    }

    /// Adds a concept.
    #[must_use]
    pub fn concept(mut self, content: &str) -> Self {
        let text = self.text(content);
        self.concepts.push(text);
        self
    }

    /// Registers an entity with its aliases.
    #[must_use]
    pub fn entity(mut self, name: &str, aliases: &[&str]) -> Self {
        let names = aliases
            .iter()
            .chain([&name])
            .map(|name| name.to_lowercase())
            .collect();
        self.entities.insert(name.to_owned(), names);
        self
    }

    /// Makes one function of the view fail from now on.
    #[must_use]
    pub fn failing(mut self, arm: Arm, error: ViewError) -> Self {
        self.broken.insert(arm, error);
        self
    }

    /// The calls made so far, in order.
    pub fn calls(&self) -> Ref<'_, [Call]> {
        Ref::map(self.calls.borrow(), Vec::as_slice)
    }

    /// What `handle` stands for, if this call has given it out.
    #[must_use]
    pub fn row(&self, handle: Handle) -> Option<Row> {
        self.admitted.borrow().get(handle as usize).copied()
    }

    /// The content behind `handle`, if this call has given it out.
    #[must_use]
    pub fn content(&self, handle: Handle) -> Option<&str> {
        self.row(handle)
            .map(|row| self.text_of(row).content.as_str())
    }

    /// Forgets the handles and the calls, as the kernel does between two plans.
    pub fn next_call(&self) {
        self.admitted.borrow_mut().clear();
        self.calls.borrow_mut().clear();
    }

    fn text(&self, content: &str) -> Text {
        let vector = (self.embedder)(content);
        Text {
            content: content.to_owned(),
            terms: terms(content).into_iter().collect(),
            vector,
        }
    }

    fn text_of(&self, row: Row) -> &Text {
        match row {
            Row::Memory(at) => &self.memories[at],
            Row::Concept(at) => &self.concepts[at],
        }
    }

    fn enter(&self, arm: Arm, call: Call) -> Result<(), ViewError> {
        self.calls.borrow_mut().push(call);
        self.broken
            .get(&arm)
            .map_or(Ok(()), |error| Err(error.clone()))
    }

    fn admit(&self, row: Row) -> (Handle, String) {
        let mut admitted = self.admitted.borrow_mut();
        let at = admitted
            .iter()
            .position(|other| *other == row)
            .unwrap_or(admitted.len());
        if at == admitted.len() {
            admitted.push(row);
        }
        (at as Handle, self.text_of(row).content.clone())
    }

    fn candidate(&self, at: usize) -> Candidate {
        let (handle, content) = self.admit(Row::Memory(at));
        Candidate { handle, content }
    }

    /// The `k` nearest of `rows`, ties in order.
    fn nearest(&self, rows: Vec<Row>, vector: &[f32], k: u32) -> Vec<ScoredCandidate> {
        let score = |row| (row, cosine(&self.text_of(row).vector, vector));
        let mut scored: Vec<(Row, f64)> = rows.into_iter().map(score).collect();
        scored.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
        scored.truncate(k as usize);
        let admit = |(row, score)| {
            let (handle, content) = self.admit(row);
            ScoredCandidate {
                handle,
                content,
                score,
            }
        };
        scored.into_iter().map(admit).collect()
    }

    /// The entities that `holds`, and the memories that mention one of them.
    fn facts_of(&self, holds: impl Fn(&[String]) -> bool) -> Vec<(usize, &str)> {
        let asked: Vec<_> = self
            .entities
            .iter()
            .filter(|(_, names)| holds(names))
            .collect();
        let first = |text: &Text| {
            asked
                .iter()
                .find(|(_, names)| mentions(&text.content, names))
        };
        let rows = self.memories.iter().enumerate();
        rows.filter_map(|(at, text)| first(text).map(|(name, _)| (at, name.as_str())))
            .collect()
    }
}

impl ScopedView for FakeView {
    fn namespace(&self) -> String {
        self.calls.borrow_mut().push(Call::Namespace);
        self.namespace.clone()
    }

    fn candidates(&self, limit: u32) -> Result<Vec<Candidate>, ViewError> {
        self.enter(Arm::Candidates, Call::Candidates { limit })?;
        let newest = (0..self.memories.len()).rev().take(limit as usize);
        Ok(newest.map(|at| self.candidate(at)).collect())
    }

    fn lexical_candidates(&self, query: &str, limit: u32) -> Result<Vec<Candidate>, ViewError> {
        let call = Call::LexicalCandidates {
            query: query.to_owned(),
            limit,
        };
        self.enter(Arm::LexicalCandidates, call)?;
        let asked: BTreeSet<String> = terms(query).into_iter().collect();
        let idf = |term: &String| {
            let holders = self.holders.get(term).copied().unwrap_or(0);
            bm25::idf(holders, self.memories.len())
        };
        let weight = |text: &Text| asked.intersection(&text.terms).map(idf).sum::<f64>();
        let mut scored: Vec<_> = self.memories.iter().map(weight).enumerate().collect();
        scored.retain(|(_, weight)| *weight > 0.0);
        scored.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.cmp(b)));
        scored.truncate(limit as usize);
        Ok(scored
            .into_iter()
            .map(|(at, _)| self.candidate(at))
            .collect())
    }

    fn vector_search(&self, embedding: &[f32], k: u32) -> Result<Vec<ScoredCandidate>, ViewError> {
        self.enter(
            Arm::VectorSearch,
            Call::VectorSearch {
                dimension: embedding.len(),
                k,
            },
        )?;
        if self
            .memories
            .first()
            .is_some_and(|text| text.vector.len() != embedding.len())
        {
            return Err(ViewError::InvalidArgument(
                "the vector has another dimension".to_owned(),
            ));
        }
        let rows = (0..self.memories.len()).map(Row::Memory).collect();
        Ok(self.nearest(rows, embedding, k))
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ViewError> {
        let owned = texts.iter().map(|text| (*text).to_owned()).collect();
        self.enter(Arm::Embed, Call::Embed { texts: owned })?;
        Ok(texts.iter().map(|text| (self.embedder)(text)).collect())
    }

    fn concepts(&self, query: &str, k: u32) -> Result<Vec<ScoredCandidate>, ViewError> {
        self.enter(
            Arm::Concepts,
            Call::Concepts {
                query: query.to_owned(),
                k,
            },
        )?;
        let rows = (0..self.concepts.len()).map(Row::Concept).collect();
        Ok(self.nearest(rows, &(self.embedder)(query), k))
    }

    fn entity_facts(&self, mention: &str, hops: u8) -> Result<Vec<EntityFact>, ViewError> {
        let call = Call::EntityFacts {
            mention: mention.to_owned(),
            hops,
        };
        self.enter(Arm::EntityFacts, call)?;
        if !(1..=2).contains(&hops) {
            return Err(ViewError::InvalidArgument("hops is 1 or 2".to_owned()));
        }
        let needle = mention.trim().to_lowercase();
        let named = |names: &[String]| names.contains(&needle);
        let mut facts = self.facts_of(named);
        if hops == 2 {
            let first: Vec<&str> = facts
                .iter()
                .map(|(at, _)| &*self.memories[*at].content)
                .collect();
            let beside = |names: &[String]| first.iter().any(|content| mentions(content, names));
            let second = self.facts_of(|names| !named(names) && beside(names));
            let known: BTreeSet<usize> = facts.iter().map(|(at, _)| *at).collect();
            facts.extend(second.into_iter().filter(|(at, _)| !known.contains(at)));
        }
        let admit = |(at, entity): (usize, &str)| {
            let (handle, content) = self.admit(Row::Memory(at));
            EntityFact {
                handle,
                content,
                entity: entity.to_owned(),
            }
        };
        Ok(facts.into_iter().map(admit).collect())
    }
}

/// Whether one of the lower-case `names` stands in `content` with no letter or digit on
/// either side.
fn mentions(content: &str, names: &[String]) -> bool {
    let text = content.to_lowercase();
    let inner = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let stands = |name: &String, at: usize| {
        !inner(text[..at].chars().next_back()) && !inner(text[at + name.len()..].chars().next())
    };
    let found = |name: &String| {
        text.match_indices(name.as_str())
            .any(|(at, _)| stands(name, at))
    };
    names.iter().any(|name| !name.is_empty() && found(name))
}

#[cfg(test)]
#[path = "fake_tests.rs"]
mod tests;
