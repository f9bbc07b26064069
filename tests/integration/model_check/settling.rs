//! What becomes of what was written, in the reference: the check for contradictions,
//! resolutions, erasure. Each is one step.

use super::changes::Chosen;
use super::operation::{Place, Review, Verdict};
use super::reference::{Decided, Decision, Moment, Outcome, Reference, Row, below};

impl Reference {
    /// The check of a stored row: those that are current beside it, by name, as all are
    /// equally near.
    pub(super) fn check(&mut self, id: &str, review: Review, chosen: &dyn Chosen) {
        let Some(own) = self.row(id).filter(|row| row.is_current()).cloned() else {
            return;
        };
        let near = self.rows.iter().filter(|row| {
            row.place == own.place && row.is_current() && row.text.contradicts(own.text)
        });
        let near: Vec<String> = near.map(|row| row.id.clone()).collect();
        for other in near {
            self.settle(id, &other, review, chosen);
        }
    }

    /// Settles one contradiction, if there is one to be settled. Whether there was. The one
    /// that was told later is the incoming one, whosever check it is.
    pub(super) fn settle(&mut self, a: &str, b: &str, review: Review, chosen: &dyn Chosen) -> bool {
        let known = self.decisions.iter().any(|one| one.is_of(a, b));
        let current = |id| self.row(id).filter(|row| row.is_current()).cloned();
        let (Some(a), Some(b), false) = (current(a), current(b), known) else {
            return false;
        };
        let told = |row: &Row| (row.told_at, row.id.clone());
        let (ours, theirs) = if told(&a) < told(&b) { (b, a) } else { (a, b) };
        let (incoming, incumbent) = (ours.id.as_str(), theirs.id.as_str());
        let (name, at) = chosen.decision(incoming, incumbent);
        let decided = match review {
            Review::Person => Decided::Review,
            _ => self.weigh(&ours, incumbent),
        };
        match decided {
            Decided::Superseded => {
                self.close(incumbent, ours.from, at);
                self.link(incoming, incumbent);
            }
            Decided::Historical => {
                let between = self.between(incumbent, ours.from);
                self.close(incoming, between.until, at);
                self.splice(incoming, &between);
            }
            Decided::Disputed => self.change(incoming, |row| row.put_aside_at = Some(at)),
            Decided::Review => {}
        }
        self.note(
            name,
            ours.place,
            (incoming, incumbent),
            decided,
            (false, at),
        );
        true
    }

    /// How somebody settles a decision. `copy` is the name of the row that says another
    /// again, if one does.
    pub(super) fn resolve(
        &mut self,
        by: Place,
        id: &str,
        verdict: Verdict,
        copy: &str,
        chosen: &dyn Chosen,
    ) -> Outcome {
        let found = self
            .decisions
            .iter()
            .find(|one| one.id == id && one.place == by);
        let Some(decision) = found.cloned() else {
            return Outcome::Missing;
        };
        if decision.resolved.is_some() {
            return Outcome::Invalid("id");
        }
        if !self.is_possible(&decision, verdict) {
            return Outcome::Invalid("verdict");
        }
        let at = self.resolved_at(&decision, copy, chosen);
        let before = self.clone();
        match self.carry_out(&decision, verdict, copy, at) {
            Some(restored) => {
                let done = self.decisions.iter_mut().filter(|one| one.id == id);
                done.for_each(|one| one.resolved = Some((verdict, at)));
                Outcome::Resolved { restored }
            }
            // What it is about changed meanwhile.
            None => {
                *self = before;
                Outcome::Invalid("id")
            }
        }
    }

    /// When it was resolved. An erasure that came behind takes the decision along, but not all
    /// that was said or closed at that moment: what it left tells.
    fn resolved_at(&self, decision: &Decision, copy: &str, chosen: &dyn Chosen) -> Moment {
        let said = || Some(chosen.told_at(copy)).filter(|at| *at != Moment::MAX);
        let closed = || {
            let pair = [&decision.incoming, &decision.incumbent];
            let of_pair = pair.into_iter().cloned();
            let holders = pair.into_iter().filter_map(|id| self.incarnation(id));
            let mut ids = of_pair.chain(holders);
            let at = |id: String| {
                let open = self.row(&id).is_some_and(Row::is_open);
                Some(chosen.closed_at(&id)).filter(|at| open && *at != 0)
            };
            ids.find_map(at)
        };
        let kept = chosen.resolved_at(&decision.id);
        kept.or_else(said).or_else(closed).unwrap_or_default()
    }

    fn is_possible(&self, decision: &Decision, verdict: Verdict) -> bool {
        let waits = decision.decided.waits();
        match verdict {
            Verdict::Undo if decision.decided == Decided::Review => false,
            Verdict::Accept | Verdict::Reject | Verdict::Both if !waits => false,
            Verdict::Both | Verdict::Undo if waits => !self.is_of_one_slot(decision),
            _ => true,
        }
    }

    pub(super) fn is_of_one_slot(&self, decision: &Decision) -> bool {
        let slot = |id| self.row(id).and_then(|row| row.slot);
        let slot_of = slot(&decision.incoming);
        slot_of.is_some() && slot_of == slot(&decision.incumbent)
    }

    /// The row that was said again, if one was; nothing where it cannot be carried out.
    fn carry_out(
        &mut self,
        decision: &Decision,
        verdict: Verdict,
        copy: &str,
        at: Moment,
    ) -> Option<Option<String>> {
        let (incoming, incumbent) = (decision.incoming.as_str(), decision.incumbent.as_str());
        match (decision.decided, verdict) {
            (Decided::Disputed, Verdict::Accept) => {
                // What took the incumbent's place since stands for it.
                let follows = || self.successor(decision.place, incumbent).ok();
                let holder = self.incarnation(incumbent).or_else(follows);
                let replaced = holder.as_deref().unwrap_or(incumbent).to_owned();
                self.close_if_current(&replaced, at);
                self.end_aside(incoming, at)?;
                self.say_again(incoming, Some(&replaced), copy, at)
            }
            (Decided::Disputed, Verdict::Reject) => self.end_aside(incoming, at).map(|()| None),
            (Decided::Disputed, Verdict::Both | Verdict::Undo) => {
                self.end_aside(incoming, at)?;
                self.say_again(incoming, None, copy, at)
            }
            (Decided::Review, Verdict::Accept) => {
                self.close_if_current(incumbent, at);
                self.link(incoming, incumbent);
                Some(None)
            }
            (Decided::Review, Verdict::Reject) => {
                self.close_if_current(incoming, at);
                Some(None)
            }
            (Decided::Review, _) | (Decided::Disputed, Verdict::Retold) => Some(None),
            (Decided::Superseded, _) => self.take_back(decision, incumbent, incoming, copy, at),
            (Decided::Historical, _) => self.take_back(decision, incoming, incumbent, copy, at),
        }
    }

    /// Where both would fill one slot, or the write took the other's place, the other goes.
    fn take_back(
        &mut self,
        decision: &Decision,
        closed: &str,
        other: &str,
        copy: &str,
        at: Moment,
    ) -> Option<Option<String>> {
        let told_at = self.row(&decision.incoming).map(|row| row.told_at);
        let replacement = decision.by_caller && told_at == Some(decision.at);
        if !replacement && !self.is_of_one_slot(decision) {
            return self.say_again(closed, None, copy, at);
        }
        let other = self.incarnation(other).unwrap_or_else(|| other.to_owned());
        self.close_if_current(&other, at);
        self.say_again(closed, Some(&other), copy, at)
    }

    fn say_again(
        &mut self,
        id: &str,
        supersedes: Option<&str>,
        copy: &str,
        at: Moment,
    ) -> Option<Option<String>> {
        let old = self.row(id)?.clone();
        let same = |row: &&Row| row.is_open() && row.is_the_fact_of(&old);
        if let Some(open) = self.rows.iter().find(same) {
            // One that is put aside with the same text has a dispute of its own.
            return open.is_current().then_some(None);
        }
        let succeeded = supersedes.is_some_and(|id| self.has_successor(id));
        if self.in_slot(old.place, old.slot).is_some() || succeeded {
            return None;
        }
        self.insert(Row {
            id: copy.to_owned(),
            told_at: at,
            from: at,
            to: None,
            closed_at: None,
            put_aside_at: None,
            supersedes: supersedes
                .filter(|id| self.has_ended(id))
                .map(str::to_owned),
            restores: Some(id.to_owned()),
            bumps: 0,
            ..old
        });
        Some(Some(copy.to_owned()))
    }

    /// Rows go, with those that say them again; decisions about them, and links into them. What
    /// was put aside against one of them ends.
    pub(super) fn forget(
        &mut self,
        by: Place,
        doomed: impl Fn(&Row) -> bool,
        chosen: &dyn Chosen,
    ) -> Outcome {
        let named = |row: &&Row| below(by, row.place) && doomed(row);
        let named = self.rows.iter().filter(named).map(|row| row.id.clone());
        let gone = self.with_copies(named.collect());
        self.rows.retain(|row| !gone.contains(&row.id));
        for one in self.decisions.clone() {
            if one.decided == Decided::Disputed && one.is_open() && gone.contains(&one.incumbent) {
                let at = chosen.closed_at(&one.incoming);
                self.end_aside(&one.incoming, at);
            }
        }
        self.decisions
            .retain(|one| !gone.contains(&one.incoming) && !gone.contains(&one.incumbent));
        for row in &mut self.rows {
            row.supersedes = row.supersedes.take().filter(|id| !gone.contains(id));
            row.restores = row.restores.take().filter(|id| !gone.contains(id));
        }
        Outcome::Erased(gone)
    }

    /// With all that say one of them again, and those that they say again; by id.
    fn with_copies(&self, mut ids: Vec<String>) -> Vec<String> {
        let linked = |row: &Row| row.restores.clone().map(|other| [row.id.clone(), other]);
        let pairs: Vec<[String; 2]> = self.rows.iter().filter_map(linked).collect();
        while let Some(pair) = pairs
            .iter()
            .find(|pair| pair.iter().filter(|id| ids.contains(id)).count() == 1)
        {
            let new = pair.iter().filter(|id| !ids.contains(id)).cloned();
            ids.extend(new.collect::<Vec<_>>());
        }
        ids.sort_unstable();
        ids
    }
}
