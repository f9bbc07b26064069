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

/// What a row is weighed against.
struct Rival {
    id: String,
    /// Somebody named it as the one that is wrong, and means it, whenever the right one
    /// happened.
    meant: bool,
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
        let mut others = Vec::new();
        let same = |one: &Row| one.is_open() && one.is_the_fact_of(&row);
        if let Some(known) = self.rows.iter().find(|one| same(one)).cloned() {
            if known.is_current() || known.weight() >= row.rank {
                self.change(&known.id, |known| known.bump(write.source.rank()));
                return self.told_again(&known, write, incumbent, event, chosen);
            }
            others = self.put_aside_for(&known.id);
            self.outrank(&known.id, told_at);
        }
        let meant = target.is_some();
        let named = incumbent.map(|id| Rival { id, meant });
        let mut rivals: Vec<Rival> = Vec::new();
        for mut rival in named.into_iter().chain(others) {
            rival.meant |= meant;
            if rivals.iter().all(|one| one.id != rival.id) {
                rivals.push(rival);
            }
        }
        self.place(row, &rivals, chosen)
    }

    /// What holds now for those that a row was put aside for.
    fn put_aside_for(&self, aside: &str) -> Vec<Rival> {
        let open = |one: &&Decision| {
            one.incoming == aside && one.decided == Decided::Disputed && one.is_open()
        };
        let holder = |one: &Decision| {
            let follows = || self.successor(one.place, &one.incumbent).ok();
            let id = self.incarnation(&one.incumbent).or_else(follows)?;
            let meant = one.by_caller && !self.is_of_one_slot(one);
            Some(Rival { id, meant })
        };
        self.decisions
            .iter()
            .filter(open)
            .filter_map(holder)
            .collect()
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
        let superseded = superseded.into_iter().collect();
        Outcome::Deduplicated { id, superseded }
    }

    /// Gives a new row its place: beside nobody, or against those whose place it takes.
    fn place(&mut self, mut row: Row, rivals: &[Rival], chosen: &dyn Chosen) -> Outcome {
        let verdict = |rival: &&Rival| match self.weigh(&row, &rival.id) {
            Decided::Historical if rival.meant => Decided::Superseded,
            decided => decided,
        };
        let first = |decided| rivals.iter().find(|one| verdict(one) == decided);
        let against = |decided| first(decided).map(|rival| (decided, vec![rival.id.clone()]));
        let (decided, pairs) = against(Decided::Disputed)
            .or_else(|| against(Decided::Historical))
            .unwrap_or_else(|| {
                let all = rivals.iter().map(|rival| rival.id.clone());
                (Decided::Superseded, all.collect())
            });
        let (id, place, at) = (row.id.clone(), row.place, row.told_at);
        match decided {
            Decided::Superseded => {
                for incumbent in &pairs {
                    self.close(incumbent, row.from, at);
                }
                row.supersedes = pairs.first().cloned();
                // It must not reach into the interval of the one before.
                let was = pairs.first().and_then(|first| self.row(first));
                let ended = was.filter(|was| was.supersedes.is_some());
                let ended = ended.and_then(|was| was.to);
                row.from = ended.map_or(row.from, |ended| ended.max(row.from));
                self.insert(row);
            }
            Decided::Historical => {
                let between = self.between(&pairs[0], row.from);
                let told = |one: &&Row| {
                    let of_then = one.from == row.from && one.to >= Some(between.until);
                    of_then && one.put_aside_at.is_none() && one.is_the_fact_of(&row)
                };
                if let Some(told) = self.rows.iter().find(told).map(|one| one.id.clone()) {
                    self.change(&told, |told| told.bump(row.rank));
                    return Outcome::Deduplicated {
                        id: told,
                        superseded: Vec::new(),
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
        for incumbent in &pairs {
            let (name, _) = chosen.decision(&id, incumbent);
            self.note(name, place, (&id, incumbent), decided, (true, at));
        }
        match decided {
            Decided::Disputed => Outcome::Disputed(id),
            Decided::Superseded => {
                let mut superseded = pairs;
                superseded.sort_unstable();
                Outcome::Stored { id, superseded }
            }
            _ => Outcome::Stored {
                id,
                superseded: Vec::new(),
            },
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
