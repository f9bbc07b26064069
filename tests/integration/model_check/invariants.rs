//! What must be true of what the store holds, whatever was called.

use std::collections::BTreeMap;

use super::reference::{Decided, Moment, Reference, Row};

/// Ends of intervals, by row: set once.
#[derive(Debug, Default)]
pub(super) struct Closings(BTreeMap<String, (Moment, Moment)>);

impl Closings {
    /// Remembers what is closed, and fails where something is closed again or opened.
    pub(super) fn watch(&mut self, state: &Reference) -> Result<(), String> {
        for row in &state.rows {
            let end = row.to.zip(row.closed_at);
            match (self.0.get(&row.id), end) {
                (Some(before), now) if Some(*before) != now => {
                    return Err(format!("closed twice: {before:?}, then {row:?}"));
                }
                (None, Some(end)) => drop(self.0.insert(row.id.clone(), end)),
                _ => {}
            }
        }
        Ok(())
    }
}

pub(super) fn check(state: &Reference) -> Result<(), String> {
    for row in &state.rows {
        one_open_text_and_one_in_slot(state, row)?;
        link(state, row)?;
        aside(state, row)?;
    }
    for one in &state.decisions {
        let ids = [&one.incoming, &one.incumbent];
        let places = ids.map(|id| state.row(id).map(|row| row.place));
        if places != [Some(one.place); 2] {
            return Err(format!("{one:?} is about {places:?}"));
        }
    }
    Ok(())
}

fn one_open_text_and_one_in_slot(state: &Reference, row: &Row) -> Result<(), String> {
    let others = || {
        let beside = |other: &&Row| other.id != row.id && other.place == row.place;
        state.rows.iter().filter(beside)
    };
    if row.is_open() && others().any(|other| other.is_open() && other.is_the_fact_of(row)) {
        return Err(format!("the text is there twice: {row:?}"));
    }
    let in_slot = |other: &Row| other.is_current() && other.slot == row.slot;
    if row.slot.is_some() && row.is_current() && others().any(in_slot) {
        return Err(format!("the slot is filled twice: {row:?}"));
    }
    if row.to.is_some() != row.closed_at.is_some() || row.to.is_some_and(|to| to < row.from) {
        return Err(format!("the interval is none: {row:?}"));
    }
    Ok(())
}

/// What is replaced has ended. From where its successor begins, a search for a moment does not
/// find it, unless somebody decided only later that the two exclude each other.
fn link(state: &Reference, row: &Row) -> Result<(), String> {
    let Some(replaced) = &row.supersedes else {
        return Ok(());
    };
    let Some(replaced) = state.row(replaced) else {
        return Err(format!("what it replaces is gone: {row:?}"));
    };
    let Some(to) = replaced.to.filter(|_| replaced.place == row.place) else {
        return Err(format!(
            "{row:?} replaces what is open or elsewhere: {replaced:?}"
        ));
    };
    // One that was put aside held at no time, and what is closed goes before what it replaces.
    let held = replaced.put_aside_at.is_none() && row.is_current() && replaced.from < to;
    let late = state.decisions.iter().any(|one| {
        let told_before = one.by_caller && row.told_at < one.at;
        one.is_of(&row.id, &replaced.id) && (one.decided == Decided::Review || told_before)
    });
    if held && to > row.from && !late {
        return Err(format!("they overlap: {replaced:?} and {row:?}"));
    }
    let current = state.rows.iter().filter(|other| other.is_current());
    let successors = current.filter(|other| other.supersedes.as_ref() == Some(&replaced.id));
    match successors.count() {
        0 | 1 => Ok(()),
        _ => Err(format!("two current successors of {replaced:?}")),
    }
}

/// What is put aside waits for a decision that can be found.
fn aside(state: &Reference, row: &Row) -> Result<(), String> {
    let waits = row.is_open() && !row.is_current();
    let disputes = state
        .decisions
        .iter()
        .filter(|one| one.incoming == row.id && one.decided == Decided::Disputed && one.is_open());
    match (waits, disputes.count()) {
        (true, 1) | (false, 0) => Ok(()),
        (_, disputes) => Err(format!("{disputes} open disputes of {row:?}")),
    }
}
