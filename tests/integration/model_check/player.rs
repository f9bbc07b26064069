//! A call as it is sent to the kernel, what it answered, and the same for the reference.

use std::collections::BTreeSet;

use halofy_core::Op;
use halofy_gate::Refusal;
use serde_json::{Map, Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::changes::Chosen;
use super::operation::{ALL_WORDS, EVENTS, Operation, Pick, What, When, Write};
use super::reference::{Decided, Moment, Outcome, Reference, Row};
use super::stage::{Case, State};

/// Names that nothing has.
const NOBODY: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
const NOTHING: &str = "cfl_01ARZ3NDEKTSV4RRFFQ69G5FAV";

/// A call whose picks were read against what is known.
#[derive(Debug, Clone)]
pub(super) struct Cue {
    pub(super) operation: Operation,
    /// The memory or the decision that it names.
    pub(super) target: Option<String>,
    pub(super) at: Option<Moment>,
}

/// Everything that was ever known by name, also what is gone.
#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) rows: BTreeSet<String>,
    pub(super) decisions: BTreeSet<String>,
}

impl Known {
    pub(super) fn learn(&mut self, state: &Reference) {
        self.rows
            .extend(state.rows.iter().map(|row| row.id.clone()));
        self.decisions
            .extend(state.decisions.iter().map(|one| one.id.clone()));
    }

    pub(super) fn cue(&self, operation: Operation, reference: &Reference) -> Cue {
        let row = |pick| Some(picked(&self.rows, pick, NOBODY));
        let moment = |when: When| {
            let moments = reference.moments();
            let at = moments.get(usize::from(when.pick) % moments.len().max(1));
            at.copied().unwrap_or_default() + when.beside
        };
        let (target, at) = match operation.what {
            What::Write(write) => (write.supersedes.and_then(row), None),
            What::Resolve(pick, _) => (Some(picked(&self.decisions, pick, NOTHING)), None),
            What::Forget(pick) | What::History(pick) => (row(pick), None),
            What::Read(pick, when) => (row(pick), when.map(moment)),
            What::Search(when) => (None, when.map(moment)),
            _ => (None, None),
        };
        Cue {
            operation,
            target,
            at,
        }
    }
}

fn picked(known: &BTreeSet<String>, pick: Pick, none: &str) -> String {
    let at = usize::from(pick) % (known.len() + 1);
    known
        .iter()
        .nth(at)
        .cloned()
        .unwrap_or_else(|| none.to_owned())
}

impl Cue {
    fn named(&self) -> &str {
        self.target.as_deref().unwrap_or(NOBODY)
    }

    /// Makes the call.
    pub(super) async fn play(&self, case: &Case<'_>) -> Result<Value, Refusal> {
        let (op, body) = self.body();
        case.call(self.operation.by, op, &body).await
    }

    fn body(&self) -> (Op, Value) {
        let id = self.named();
        let at = self.at.map(rfc3339);
        match self.operation.what {
            What::Write(write) => (Op::Write, self.write(&write)),
            What::Resolve(_, verdict) => {
                (Op::Resolve, json!({ "id": id, "verdict": verdict.name() }))
            }
            What::Forget(_) => (Op::Forget, json!({ "id": id })),
            What::ForgetDocument(document) => (
                Op::Forget,
                json!({ "sourceRef": format!("document{document}") }),
            ),
            What::ForgetEverything => (Op::Forget, json!({ "everything": true })),
            What::Search(_) => {
                let body =
                    json!({ "query": ALL_WORDS, "k": 100, "tokenBudget": 100_000, "asOf": at });
                (Op::Search, body)
            }
            What::Read(..) => (Op::Read, json!({ "id": id, "asOf": at })),
            What::History(_) => (Op::History, json!({ "id": id })),
            What::Disputes { all } => (Op::Disputes, json!({ "all": all, "limit": 1_000 })),
        }
    }

    fn write(&self, write: &Write) -> Value {
        let mut provenance = Map::new();
        provenance.insert("source".into(), write.source.name().into());
        if let Some(document) = write.document {
            provenance.insert("ref".into(), format!("document{document}").into());
        }
        json!({
            "content": write.text.spelled(write.loud),
            "verbatim": true,
            "eventTime": write.event.map(|event| EVENTS[event]),
            "slot": write.slot.map(|slot| format!("slot{slot}")),
            "supersedes": self.target,
            "provenance": provenance,
        })
    }

    /// The same call of the reference. `answer` says which names the kernel gave.
    pub(super) fn expect(
        &self,
        reference: &mut Reference,
        answer: &Outcome,
        chosen: &dyn Chosen,
    ) -> Outcome {
        let (by, named) = (self.operation.by, self.named());
        match self.operation.what {
            What::Write(write) => {
                let target = self.target.as_deref();
                let event = write.event.map(|event| moment(EVENTS[event]));
                reference.write(by, &write, target, event, answer.new_row(), chosen)
            }
            What::Resolve(_, verdict) => {
                reference.resolve(by, named, verdict, answer.new_row(), chosen)
            }
            What::Forget(_) => match reference.forget(by, |row| row.id == named, chosen) {
                Outcome::Erased(none) if none.is_empty() => Outcome::Missing,
                erased => erased,
            },
            What::ForgetDocument(document) => {
                reference.forget(by, |row| row.document == Some(document), chosen)
            }
            What::ForgetEverything => reference.forget(by, |_| true, chosen),
            What::Search(_) => reference.search(by, self.at),
            What::Read(..) => reference.read(by, named, self.at),
            What::History(_) => reference.history(by, named),
            What::Disputes { all } => reference.disputes(by, all),
        }
    }

    /// What the kernel's answer says.
    pub(super) fn outcome(
        &self,
        answer: &Result<Value, Refusal>,
        after: &State,
    ) -> Result<Outcome, String> {
        let body = match answer {
            Ok(body) => body,
            Err(Refusal::NotFound { .. }) => return Ok(Outcome::Missing),
            Err(Refusal::Invalid(invalid)) => return refused(&invalid.field),
            Err(other) => return Err(format!("{other}: {other:?}")),
        };
        Ok(match self.operation.what {
            What::Write(_) => written(body)?,
            What::Resolve(..) => Outcome::Resolved {
                restored: body["restored"].as_str().map(str::to_owned),
            },
            What::Forget(_) | What::ForgetDocument(_) | What::ForgetEverything => {
                Outcome::Erased(ids(&body["erased"])?)
            }
            What::Search(_) => {
                let mut found = members(&body["results"], "id")?;
                found.sort_unstable();
                Outcome::Found(found)
            }
            What::Read(..) => Outcome::Is(Box::new(told(body, after)?)),
            What::History(_) => Outcome::Chain(members(&body["history"], "id")?),
            What::Disputes { .. } => disputes(body)?,
        })
    }
}

impl Outcome {
    /// The row that came to be, if one did.
    pub(super) fn new_row(&self) -> &str {
        match self {
            Self::Stored { id, .. } | Self::Disputed(id) => id,
            Self::Resolved { restored: Some(id) } => id,
            _ => "none",
        }
    }
}

fn refused(field: &str) -> Result<Outcome, String> {
    let known = ["provenance.source", "supersedes", "id", "verdict"];
    let field = known.into_iter().find(|known| *known == field);
    field
        .map(Outcome::Invalid)
        .ok_or(format!("422 of another field: {field:?}"))
}

fn written(body: &Value) -> Result<Outcome, String> {
    let list = |name: &str| ids(&body[name]);
    let lists = (
        list("stored")?,
        list("deduplicated")?,
        list("disputed")?,
        list("superseded")?,
    );
    let rejected = body["rejected"]
        .as_array()
        .is_none_or(|rejected| !rejected.is_empty());
    match (&*lists.0, &*lists.1, &*lists.2, &*lists.3) {
        _ if rejected || body.get("brownout").is_some() || body.get("withheld").is_some() => {}
        ([id], [], [], superseded) => {
            return Ok(Outcome::Stored {
                id: id.clone(),
                superseded: superseded.to_vec(),
            });
        }
        ([], [id], [], superseded) => {
            return Ok(Outcome::Deduplicated {
                id: id.clone(),
                superseded: superseded.to_vec(),
            });
        }
        ([], [], [id], []) => return Ok(Outcome::Disputed(id.clone())),
        _ => {}
    }
    Err(format!("an answer that makes no sense: {body}"))
}

/// A row as `read` shows it; what it does not show is taken from the store.
fn told(body: &Value, after: &State) -> Result<Row, String> {
    let id = body["id"].as_str().ok_or("a memory without id")?;
    let stored = after.0.row(id).ok_or("a memory that is not stored")?;
    let at = |field: &str| body[field].as_str().map(moment);
    let text = |field: &str| body[field].as_str().map(str::to_owned);
    let row = Row {
        told_at: at("assertionTime").unwrap_or_default(),
        from: at("validFrom").unwrap_or_default(),
        to: at("validTo"),
        closed_at: at("closedAt"),
        supersedes: text("supersedes"),
        restores: text("restores"),
        raised: body["provenance"]["trustRaised"]
            .as_i64()
            .and_then(|rank| rank.try_into().ok()),
        bumps: body["telemetry"]["accessCount"].as_i64().unwrap_or(-1),
        ..stored.clone()
    };
    let aside = body["status"] == "disputed";
    let same = body["content"] == stored.text.spelled(stored.loud)
        && body["provenance"]["trust"] == stored.rank
        && aside == stored.put_aside_at.is_some();
    same.then_some(row)
        .ok_or(format!("{body} is not {stored:?}"))
}

fn disputes(body: &Value) -> Result<Outcome, String> {
    let listed = body["disputes"].as_array().ok_or("no disputes")?;
    let mut disputes = Vec::with_capacity(listed.len());
    for one in listed.iter().rev() {
        let id = one["id"].as_str().ok_or("a dispute without id")?;
        let decided = one["decision"]
            .as_str()
            .and_then(Decided::read)
            .ok_or("no decision")?;
        let verdict = one["resolution"]
            .as_str()
            .and_then(super::operation::Verdict::read);
        let open = verdict.is_none() && decided.waits();
        if (one["state"] == "open") != open {
            return Err(format!("the state of {one}"));
        }
        disputes.push((id.to_owned(), decided, verdict));
    }
    Ok(Outcome::Disputes(disputes))
}

fn ids(list: &Value) -> Result<Vec<String>, String> {
    let list = list.as_array().ok_or("a list is missing")?;
    let mut ids: Vec<String> = list
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    ids.sort_unstable();
    Ok(ids)
}

fn members(list: &Value, field: &str) -> Result<Vec<String>, String> {
    let list = list.as_array().ok_or("a list is missing")?;
    let member = |one: &Value| one[field].as_str().map(str::to_owned);
    list.iter()
        .map(member)
        .collect::<Option<_>>()
        .ok_or("a member without name".to_owned())
}

fn moment(text: &str) -> Moment {
    let at = OffsetDateTime::parse(text, &Rfc3339).expect("RFC 3339");
    Moment::try_from(at.unix_timestamp_nanos() / 1_000).expect("a moment of this age")
}

fn rfc3339(at: Moment) -> String {
    let at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(at) * 1_000);
    at.expect("a moment").format(&Rfc3339).expect("RFC 3339")
}
