//! The reference: what memories and decisions there are after a call, and what each call
//! answers, worked out in memory and without any code of the kernel. What is chosen by the
//! kernel alone, names and moments, is handed in.
//!
//! Here: the state, and what is read from it. What changes it is in `changes.rs`.

use std::collections::BTreeSet;

use super::operation::{Place, Text, Verdict};

/// Microseconds since 1970, UTC.
pub(super) type Moment = i64;

/// One version of one fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) place: Place,
    pub(super) text: Text,
    /// The first wording stays.
    pub(super) loud: bool,
    /// Of the one who wrote it.
    pub(super) rank: i16,
    /// The highest of those who said it again, if it is higher.
    pub(super) raised: Option<i16>,
    pub(super) slot: Option<u8>,
    pub(super) document: Option<u8>,
    pub(super) told_at: Moment,
    pub(super) from: Moment,
    pub(super) to: Option<Moment>,
    pub(super) closed_at: Option<Moment>,
    pub(super) put_aside_at: Option<Moment>,
    pub(super) supersedes: Option<String>,
    pub(super) restores: Option<String>,
    /// How often it was written again.
    pub(super) bumps: i64,
}

impl Row {
    /// The rank that it is weighed with.
    pub(super) fn weight(&self) -> i16 {
        self.raised.unwrap_or(self.rank).max(self.rank)
    }

    /// Somebody said it again.
    pub(super) fn bump(&mut self, rank: i16) {
        self.bumps += 1;
        if rank > self.weight() {
            self.raised = Some(rank);
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.to.is_none()
    }

    pub(super) fn is_current(&self) -> bool {
        self.is_open() && self.put_aside_at.is_none()
    }

    /// Whether both say the same: what fills a slot is another fact than its text elsewhere.
    pub(super) fn is_the_fact_of(&self, other: &Self) -> bool {
        self.place == other.place && self.text == other.text && self.slot == other.slot
    }

    /// Whether its interval holds the moment.
    fn spans(&self, at: Moment) -> bool {
        let ended = self.to.is_some_and(|to| to <= at);
        self.put_aside_at.is_none() && self.from <= at && !ended
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decided {
    Superseded,
    Historical,
    Disputed,
    Review,
}

impl Decided {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Superseded => "superseded",
            Self::Historical => "historical",
            Self::Disputed => "disputed",
            Self::Review => "review",
        }
    }

    pub(super) fn read(name: &str) -> Option<Self> {
        let all = [
            Self::Superseded,
            Self::Historical,
            Self::Disputed,
            Self::Review,
        ];
        all.into_iter().find(|decided| decided.name() == name)
    }

    /// Whether somebody has to decide.
    pub(super) fn waits(self) -> bool {
        matches!(self, Self::Disputed | Self::Review)
    }
}

/// What was done about two rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) id: String,
    pub(super) place: Place,
    pub(super) incoming: String,
    pub(super) incumbent: String,
    pub(super) decided: Decided,
    /// The write itself named the pair, by a slot or as its predecessor.
    pub(super) by_caller: bool,
    pub(super) at: Moment,
    pub(super) resolved: Option<(Verdict, Moment)>,
}

impl Decision {
    pub(super) fn is_of(&self, a: &str, b: &str) -> bool {
        (self.incoming == a && self.incumbent == b) || (self.incoming == b && self.incumbent == a)
    }

    pub(super) fn is_open(&self) -> bool {
        self.resolved.is_none() && self.decided.waits()
    }
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Stored {
        id: String,
        /// By id.
        superseded: Vec<String>,
    },
    Deduplicated {
        id: String,
        /// By id.
        superseded: Vec<String>,
    },
    Disputed(String),
    Resolved {
        restored: Option<String>,
    },
    /// By id.
    Erased(Vec<String>),
    /// By id.
    Found(Vec<String>),
    /// Oldest first.
    Chain(Vec<String>),
    Is(Box<Row>),
    /// By id.
    Disputes(Vec<(String, Decided, Option<Verdict>)>),
    /// 422, and the field.
    Invalid(&'static str),
    /// 404.
    Missing,
}

/// All of a case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reference {
    /// By id.
    pub(super) rows: Vec<Row>,
    /// By id.
    pub(super) decisions: Vec<Decision>,
}

/// Whether `reader` sees what lives in `place`: its own and its ancestors'.
pub(super) fn sees(reader: Place, place: Place) -> bool {
    reader == place || place == 0
}

/// Whether `place` is `holder` or lies below it.
pub(super) fn below(holder: Place, place: Place) -> bool {
    holder == place || holder == 0
}

impl Reference {
    pub(super) fn row(&self, id: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.id == id)
    }

    /// The row, for one who sees it.
    pub(super) fn seen(&self, by: Place, id: &str) -> Option<&Row> {
        self.row(id).filter(|row| sees(by, row.place))
    }

    /// What a search for everything finds, now or then.
    pub(super) fn search(&self, by: Place, at: Option<Moment>) -> Outcome {
        let counts = |row: &&Row| match at {
            None => row.is_current(),
            Some(at) => self.held(row, at),
        };
        let visible = self.rows.iter().filter(|row| sees(by, row.place));
        Outcome::Found(visible.filter(counts).map(|row| row.id.clone()).collect())
    }

    /// Whether it held then, as far as is known now. What ended gives way to what was told of
    /// later, ended too, and had begun by then.
    fn held(&self, row: &Row, at: Moment) -> bool {
        let nearer = |other: &Row| {
            let replaces = other.supersedes.as_ref() == Some(&row.id);
            replaces && other.put_aside_at.is_none() && !other.is_open() && other.from <= at
        };
        row.spans(at) && (row.is_open() || !self.rows.iter().any(nearer))
    }

    pub(super) fn read(&self, by: Place, id: &str, at: Option<Moment>) -> Outcome {
        let row = match at {
            None => self.seen(by, id),
            Some(at) => self.of_chain(by, id, at),
        };
        row.map_or(Outcome::Missing, |row| Outcome::Is(Box::new(row.clone())))
    }

    /// The one of a chain that held: the named one before others that do not replace it,
    /// else the latest.
    fn of_chain(&self, by: Place, id: &str, at: Moment) -> Option<&Row> {
        let chain = self.chain(by, id).into_iter();
        let held: Vec<&Row> = chain.filter(|row| row.spans(at)).collect();
        let replaced = held.iter().any(|row| row.supersedes.as_deref() == Some(id));
        let itself = held.iter().find(|row| row.id == id && !replaced);
        itself.or(held.last()).copied()
    }

    pub(super) fn history(&self, by: Place, id: &str) -> Outcome {
        let chain: Vec<String> = self
            .chain(by, id)
            .iter()
            .map(|row| row.id.clone())
            .collect();
        match chain.is_empty() {
            true => Outcome::Missing,
            false => Outcome::Chain(chain),
        }
    }

    pub(super) fn disputes(&self, by: Place, all: bool) -> Outcome {
        let own = self.decisions.iter().filter(|one| one.place == by);
        let listed = own.filter(|one| all || one.is_open());
        let listed =
            listed.map(|one| (one.id.clone(), one.decided, one.resolved.map(|done| done.0)));
        Outcome::Disputes(listed.collect())
    }

    /// All that the row is linked with, in either direction, oldest first.
    fn chain(&self, by: Place, id: &str) -> Vec<&Row> {
        let Some(start) = self.seen(by, id) else {
            return Vec::new();
        };
        let mut reached = BTreeSet::from([start.id.as_str()]);
        loop {
            let before = reached.len();
            for row in &self.rows {
                for link in [&row.supersedes, &row.restores].into_iter().flatten() {
                    if reached.contains(row.id.as_str()) || reached.contains(link.as_str()) {
                        reached.extend([row.id.as_str(), link.as_str()]);
                    }
                }
            }
            if reached.len() == before {
                break;
            }
        }
        let mut chain: Vec<&Row> = reached.iter().filter_map(|id| self.seen(by, id)).collect();
        chain.sort_by(|a, b| (a.from, &a.id).cmp(&(b.from, &b.id)));
        chain
    }

    /// Moments at which something begins or ends, in order.
    pub(super) fn moments(&self) -> Vec<Moment> {
        let of = |row: &Row| [Some(row.from), row.to, row.closed_at, Some(row.told_at)];
        let moments: BTreeSet<Moment> = self.rows.iter().flat_map(of).flatten().collect();
        moments.into_iter().collect()
    }
}
