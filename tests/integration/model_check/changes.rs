//! What changes the reference: writes, and what they consist of. Each is one step: nothing
//! else happens in the middle of it.
//!
//! Not here: the check for contradictions, resolutions, erasure (`settling.rs`).

use super::operation::{Place, Source, Verdict, Write};
use super::reference::{Decided, Decision, Moment, Outcome, Reference, Row, sees};

/// What the kernel alone chooses: names and moments.
pub(super) trait Chosen {
    /// When the row was told.
    fn told_at(&self, id: &str) -> Moment;
    /// The name of the decision about a pair, and when it was made.
    fn decision(&self, incoming: &str, incumbent: &str) -> (String, Moment);
    /// When the row was closed.
    fn closed_at(&self, id: &str) -> Moment;
    /// When a decision was resolved; nothing once it is gone.
    fn resolved_at(&self, id: &str) -> Option<Moment>;
}

/// A place in a chain, for what tells of an earlier time.
pub(super) struct Between {
    pub(super) after: Option<String>,
    pub(super) before: String,
    pub(super) until: Moment,
}

impl Reference {
    /// A write that names `target` as its predecessor. `id` is the row's, if there will be one.
    pub(super) fn write(
        &mut self,
        by: Place,
        write: &Write,
        target: Option<&str>,
        event: Option<Moment>,
        id: &str,
        chosen: &dyn Chosen,
    ) -> Outcome {
        if write.source == Source::Consolidation {
            return Outcome::Invalid("provenance.source");
        }
        if target.is_some() && write.slot.is_some() {
            return Outcome::Invalid("supersedes");
        }
        let incumbent = match target {
            Some(named) => match self.successor(by, named) {
                Ok(holder) => Some(holder),
                Err(refused) => return refused,
            },
            None => self.in_slot(by, write.slot).map(|row| row.id.clone()),
        };
        let told_at = chosen.told_at(id);
        let row = Row {
            id: id.to_owned(),
            place: by,
            text: write.text,
            loud: write.loud,
            rank: write.source.rank(),
            raised: None,
            slot: write.slot,
            document: write.document,
            told_at,
            from: event.map_or(told_at, |event| event.min(told_at)),
            to: None,
            closed_at: None,
            put_aside_at: None,
            supersedes: None,
            restores: None,
            bumps: 0,
        };
        let same = |one: &Row| one.is_open() && one.is_the_fact_of(&row);
        if let Some(known) = self.rows.iter().find(|one| same(one)).cloned() {
            if known.is_current() || known.weight() >= row.rank {
                self.change(&known.id, |known| known.bump(write.source.rank()));
                return self.told_again(&known, write, incumbent, event, chosen);
            }
            self.outrank(&known.id, told_at);
        }
        match incumbent {
            Some(incumbent) => self.place(row, &incumbent, target.is_some(), chosen),
            None => {
                self.insert(row);
                Outcome::Stored {
                    id: id.to_owned(),
                    superseded: None,
                }
            }
        }
    }

    /// What was put aside ends where a higher rank says the same, and so does its dispute.
    fn outrank(&mut self, aside: &str, at: Moment) {
        self.end_aside(aside, at);
        let open = |one: &&mut Decision| one.incoming == aside && one.is_open();
        for one in self.decisions.iter_mut().filter(open) {
            one.resolved = Some((Verdict::Retold, at));
        }
    }

    /// What is believed already stands in another's place, if a new row with its text could.
    fn told_again(
        &mut self,
        known: &Row,
        write: &Write,
        incumbent: Option<String>,
        event: Option<Moment>,
        chosen: &dyn Chosen,
    ) -> Outcome {
        let id = known.id.clone();
        if !known.is_current() {
            return Outcome::Disputed(id);
        }
        let ranks = |other: &String| {
            self.row(other)
                .is_some_and(|row| row.weight() <= write.source.rank())
        };
        let superseded = incumbent.filter(|other| *other != id && ranks(other));
        if let Some(other) = &superseded {
            let at = chosen.closed_at(other);
            self.close(other, event.map_or(at, |event| event.min(at)), at);
            self.link(&id, other);
            if !self.decisions.iter().any(|one| one.is_of(&id, other)) {
                let (name, _) = chosen.decision(&id, other);
                self.note(
                    name,
                    known.place,
                    (&id, other),
                    Decided::Superseded,
                    (true, at),
                );
            }
        }
        Outcome::Deduplicated { id, superseded }
    }

    /// Gives a new row its place against the one whose place it takes.
    fn place(
        &mut self,
        mut row: Row,
        incumbent: &str,
        named: bool,
        chosen: &dyn Chosen,
    ) -> Outcome {
        let decided = match self.weigh(&row, incumbent) {
            // Whoever names the one that is wrong means it, whenever the right one happened.
            Decided::Historical if named => Decided::Superseded,
            decided => decided,
        };
        let (id, place, at) = (row.id.clone(), row.place, row.told_at);
        match decided {
            Decided::Superseded => {
                self.close(incumbent, row.from, at);
                row.supersedes = Some(incumbent.to_owned());
                // It must not reach into the interval of the one before.
                let was = self.row(incumbent).filter(|was| was.supersedes.is_some());
                let ended = was.and_then(|was| was.to);
                row.from = ended.map_or(row.from, |ended| ended.max(row.from));
                self.insert(row);
            }
            Decided::Historical => {
                let between = self.between(incumbent, row.from);
                let told = |one: &&Row| {
                    let of_then = one.from == row.from && one.to >= Some(between.until);
                    of_then && one.put_aside_at.is_none() && one.is_the_fact_of(&row)
                };
                if let Some(told) = self.rows.iter().find(told).map(|one| one.id.clone()) {
                    self.change(&told, |told| told.bump(row.rank));
                    return Outcome::Deduplicated {
                        id: told,
                        superseded: None,
                    };
                }
                (row.to, row.closed_at) = (Some(between.until), Some(at));
                self.insert(row);
                self.splice(&id, &between);
            }
            _ => {
                row.put_aside_at = Some(at);
                self.insert(row);
            }
        }
        let (name, _) = chosen.decision(&id, incumbent);
        self.note(name, place, (&id, incumbent), decided, (true, at));
        let superseded = (decided == Decided::Superseded).then(|| incumbent.to_owned());
        match decided {
            Decided::Disputed => Outcome::Disputed(id),
            _ => Outcome::Stored { id, superseded },
        }
    }

    /// What holds now in place of the row that a caller names.
    pub(super) fn successor(&self, by: Place, named: &str) -> Result<String, Outcome> {
        let start = self.row(named).filter(|row| sees(by, row.place));
        let start = start.ok_or(Outcome::Missing)?;
        if start.place != by {
            return Err(Outcome::Invalid("supersedes"));
        }
        let links = |row: &Row| [row.supersedes.clone(), row.restores.clone()];
        self.last_of(named, links)
            .ok_or(Outcome::Invalid("supersedes"))
    }

    /// The row, or the one that says it again, whichever is current.
    pub(super) fn incarnation(&self, id: &str) -> Option<String> {
        // A row that is current has none that says it again.
        self.last_of(id, |row| [row.restores.clone(), None])
    }

    /// The row itself if it is current, else the last current one that follows by `links`.
    fn last_of(&self, id: &str, links: impl Fn(&Row) -> [Option<String>; 2]) -> Option<String> {
        let mut reached = vec![id.to_owned()];
        let mut at = 0;
        while let Some(here) = reached.get(at).cloned() {
            let follows = |row: &&Row| links(row).contains(&Some(here.clone()));
            let next = self.rows.iter().filter(follows).map(|row| row.id.clone());
            let new: Vec<String> = next.filter(|id| !reached.contains(id)).collect();
            reached.extend(new);
            at += 1;
        }
        reached.retain(|id| self.row(id).is_some_and(Row::is_current));
        match reached.first().is_some_and(|first| first == id) {
            true => Some(id.to_owned()),
            false => reached.into_iter().max(),
        }
    }

    pub(super) fn in_slot(&self, place: Place, slot: Option<u8>) -> Option<&Row> {
        let filled = |row: &&Row| row.place == place && row.slot == slot && row.is_current();
        slot.and_then(|_| self.rows.iter().find(filled))
    }

    /// The higher rank wins; of equal rank the later.
    pub(super) fn weigh(&self, incoming: &Row, incumbent: &str) -> Decided {
        let Some(incumbent) = self.row(incumbent) else {
            return Decided::Superseded;
        };
        let since = |row: &Row| (row.from, row.told_at);
        match incoming.weight().cmp(&incumbent.weight()) {
            std::cmp::Ordering::Less => Decided::Disputed,
            std::cmp::Ordering::Equal if since(incoming) < since(incumbent) => Decided::Historical,
            _ => Decided::Superseded,
        }
    }

    /// Where in the chain that ends in `last` something stands that began at `from`: behind
    /// the last that began no later, and until the first of the others begins.
    pub(super) fn between(&self, last: &str, from: Moment) -> Between {
        let mut line: Vec<&Row> = self.row(last).into_iter().collect();
        while let Some(here) = line.last()
            && (line.len() == 1 || here.from > from)
            && let Some(before) = here.supersedes.as_ref().and_then(|id| self.row(id))
        {
            assert!(
                line.len() <= self.rows.len(),
                "a chain without an end: {line:#?}"
            );
            line.push(before);
        }
        let reached = line.len() > 1 && line.last().is_some_and(|row| row.from <= from);
        let after = line.pop_if(|_| reached).map(|row| row.id.clone());
        let begins = line.iter().map(|row| row.from).min();
        Between {
            after,
            before: line.last().map_or(last, |row| row.id.as_str()).to_owned(),
            until: begins.unwrap_or(from),
        }
    }

    /// Links a closed row into its place, unless it has another predecessor.
    pub(super) fn splice(&mut self, id: &str, between: &Between) {
        let own = self.row(id).and_then(|row| row.supersedes.clone());
        if own.is_some() && own != between.after {
            return;
        }
        self.change(id, |row| row.supersedes = between.after.clone());
        self.change(&between.before, |row| {
            if row.supersedes == between.after {
                row.supersedes = Some(id.to_owned());
            }
        });
    }

    pub(super) fn insert(&mut self, row: Row) {
        self.rows.push(row);
        self.rows.sort_by(|a, b| a.id.cmp(&b.id));
    }

    pub(super) fn change(&mut self, id: &str, change: impl Fn(&mut Row)) {
        self.rows
            .iter_mut()
            .filter(|row| row.id == id)
            .for_each(change);
    }

    pub(super) fn close(&mut self, id: &str, until: Moment, at: Moment) {
        self.change(id, |row| {
            row.to = Some(until.max(row.from));
            row.closed_at = Some(at);
        });
    }

    pub(super) fn close_if_current(&mut self, id: &str, at: Moment) {
        if self.row(id).is_some_and(Row::is_current) {
            self.close(id, at, at);
        }
    }

    /// Ends a row that was put aside; nothing if it was settled already.
    pub(super) fn end_aside(&mut self, id: &str, at: Moment) -> Option<()> {
        self.row(id)
            .filter(|row| row.is_open() && !row.is_current())?;
        self.close(id, at, at);
        Some(())
    }

    pub(super) fn has_ended(&self, id: &str) -> bool {
        self.row(id).is_some_and(|row| !row.is_open())
    }

    pub(super) fn has_successor(&self, id: &str) -> bool {
        let succeeds = |row: &Row| row.supersedes.as_deref() == Some(id) && row.is_current();
        self.rows.iter().any(succeeds)
    }

    pub(super) fn link(&mut self, id: &str, predecessor: &str) {
        if !self.has_successor(predecessor) {
            let named = Some(predecessor.to_owned());
            self.change(id, |row| {
                row.supersedes = row.supersedes.take().or_else(|| named.clone())
            });
        }
    }

    pub(super) fn note(
        &mut self,
        id: String,
        place: Place,
        (incoming, incumbent): (&str, &str),
        decided: Decided,
        (by_caller, at): (bool, Moment),
    ) {
        let (incoming, incumbent) = (incoming.to_owned(), incumbent.to_owned());
        let resolved = None;
        self.decisions.push(Decision {
            id,
            place,
            incoming,
            incumbent,
            decided,
            by_caller,
            at,
            resolved,
        });
        self.decisions.sort_by(|a, b| a.id.cmp(&b.id));
    }
}
