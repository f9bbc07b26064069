//! Whether what calls at once came to is what some order of them comes to, each a step of
//! its own. What the kernel decided out of band is steps too.

use super::operation::Review;
use super::player::Cue;
use super::reference::{Decision, Outcome, Reference};
use super::stage::State;

/// Calls at once: what each was, and what it was answered.
pub(super) struct AtOnce<'a> {
    pub(super) review: Review,
    pub(super) calls: &'a [(Cue, Outcome)],
    pub(super) after: &'a State,
}

impl AtOnce<'_> {
    /// Whether an order of the calls leads from `before` to what the store has now.
    pub(super) fn has_an_order(&self, before: &Reference) -> bool {
        let known = |one: &&Decision| before.decisions.iter().any(|old| old.id == one.id);
        let new = self.after.0.decisions.iter().filter(|one| !known(one));
        // What calls decide comes with the calls.
        let decided: Vec<&Decision> = new.filter(|one| !one.by_caller).collect();
        let calls: Vec<&(Cue, Outcome)> = self.calls.iter().collect();
        self.from(before, &calls, &decided)
    }

    fn from(&self, state: &Reference, calls: &[&(Cue, Outcome)], decided: &[&Decision]) -> bool {
        if calls.is_empty() && decided.is_empty() {
            return *state == self.after.0;
        }
        let a_call = (0..calls.len()).any(|next| {
            let (cue, answer) = calls[next];
            let mut then = state.clone();
            let same = cue.expect(&mut then, answer, self.after) == *answer;
            same && self.from(&then, &without(calls, next), decided)
        });
        a_call
            || (0..decided.len()).any(|next| {
                let (incoming, incumbent) = (&decided[next].incoming, &decided[next].incumbent);
                let mut then = state.clone();
                then.settle(incoming, incumbent, self.review, self.after)
                    && self.from(&then, calls, &without(decided, next))
            })
    }

    /// Facts that were stored by these calls, both believed, that contradict each other or
    /// another, and that nobody compared.
    pub(super) fn overlooked(&self) -> Option<String> {
        if self.review == Review::Off {
            return None;
        }
        let state = &self.after.0;
        let stored = self.calls.iter().filter_map(|(_, answer)| match answer {
            Outcome::Stored { id, .. } => state.row(id).filter(|row| row.is_current()),
            _ => None,
        });
        let told: Vec<&str> = self
            .calls
            .iter()
            .filter_map(|(_, answer)| match answer {
                Outcome::Resolved { restored } => restored.as_deref(),
                _ => None,
            })
            .collect();
        for new in stored {
            let other = state.rows.iter().find(|other| {
                let known = state
                    .decisions
                    .iter()
                    .any(|one| one.is_of(&new.id, &other.id));
                let beside = other.place == new.place && other.is_current() && !known;
                // What somebody said again is not compared.
                beside && other.text.contradicts(new.text) && !told.contains(&other.id.as_str())
            });
            if let Some(other) = other {
                return Some(format!("nobody compared {new:?} with {other:?}"));
            }
        }
        None
    }
}

fn without<T: Copy>(all: &[T], at: usize) -> Vec<T> {
    let (before, after) = (&all[..at], &all[at + 1..]);
    [before, after].concat()
}
