//! The kernel's side: one kernel for many cases, each in namespaces of its own; calls go to
//! the gate in process. After calls, everything that the case has is read back from the store.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use halofy_core::{AgentKind, Op};
use halofy_gate::{Body, Call, CallId, Model, Refusal};
use halofy_tests::{Kernel, Mood, Role, ScriptedEmbedder, ScriptedModel};
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::sync::OnceCell;

use super::changes::Chosen;
use super::operation::{PLACES, Place, Review, Text, Verdict};
use super::reference::{Decided, Decision, Moment, Reference, Row};

/// So long a check of a new fact may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// All texts are equally near, so neighbours come by name.
const DIMENSION: usize = 8;

/// A kernel with a model that knows what contradicts what.
pub(super) struct Stage {
    pub(super) kernel: Kernel,
    _model: ScriptedModel,
    cases: AtomicUsize,
}

impl Stage {
    pub(super) async fn build() -> Self {
        let model = ScriptedModel::by_sentences_where(|incoming, incumbent| {
            let read = |content| Text::read(content).expect("a text of the case").0;
            read(incoming).contradicts(read(incumbent))
        });
        let embedder = ScriptedEmbedder::new(DIMENSION);
        let mut same = vec![0.0; DIMENSION];
        same[0] = 1.0;
        embedder.becomes(Mood::Says(same));
        let client = Model::new(&model.config(), None).expect("a model");
        let kernel = Kernel::with()
            .embedder(embedder)
            .model(client)
            .start()
            .await;
        for review in Review::ALL {
            let policy = json!({
                "conflictReview": review.name(),
                "rateLimit": { "perSecond": 1_000_000, "burst": 1_000_000 },
            });
            kernel.policy(review.name(), policy).await;
        }
        Self {
            kernel,
            _model: model,
            cases: AtomicUsize::new(0),
        }
    }

    /// Namespaces that nobody used.
    pub(super) fn case(&self, review: Review) -> Case<'_> {
        let number = self.cases.fetch_add(1, Ordering::Relaxed);
        let parent = format!("{}/case{number}", review.name());
        let names = ["", "/child", "/sibling"].map(|below| format!("{parent}{below}"));
        Case {
            kernel: &self.kernel,
            names,
            keys: Default::default(),
        }
    }
}

/// A case on its stage.
pub(super) struct Case<'a> {
    kernel: &'a Kernel,
    names: [String; PLACES],
    /// Made when they are needed.
    keys: [OnceCell<String>; PLACES],
}

/// What the store has of a case.
#[derive(Debug, Clone)]
pub(super) struct State(pub(super) Reference);

impl Case<'_> {
    pub(super) async fn call(&self, by: Place, op: Op, body: &Value) -> Result<Value, Refusal> {
        let made = async || {
            self.kernel
                .key(&self.names[by], "user:o", Role::Owner)
                .await
                .key
        };
        let key = self.keys[by].get_or_init(made).await;
        let call = Call {
            id: CallId::new(),
            op,
            agent: AgentKind::Http,
            key: Some(key.clone()),
            idempotency: None,
            claim: None,
            body: Body::Bytes(body.to_string().into_bytes()),
        };
        let answer = self.kernel.on_gate(async move |gate| gate.call(call).await);
        answer.await.map(|answer| answer.0)
    }

    /// All rows and decisions, once no check is under way.
    pub(super) async fn settled(&self) -> Result<State, String> {
        let started = Instant::now();
        loop {
            let (state, jobs) = self.read().await?;
            match jobs.iter().find(|(state, _)| state == "dead") {
                Some((_, error)) => return Err(format!("a check is dead: {error}")),
                None if jobs.is_empty() => return Ok(state),
                None if started.elapsed() > PATIENCE => {
                    return Err(format!("checks do not end: {jobs:?}"));
                }
                None => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    }

    async fn read(&self) -> Result<(State, Vec<(String, String)>), String> {
        let names = self
            .names
            .each_ref()
            .map(|name| format!("'{name}'"))
            .join(",");
        let (mut reference, mut jobs) = (Reference::default(), Vec::new());
        for columns in self.kernel.sql(ALL.replace("$NAMES", &names)).await {
            let columns = Columns(columns);
            match columns.text(0).as_str() {
                "memory" => reference.rows.push(self.row(&columns)?),
                "decision" => reference.decisions.push(self.decision(&columns)?),
                _ => jobs.push((columns.text(1), columns.text(2))),
            }
        }
        Ok((State(reference), jobs))
    }

    fn row(&self, columns: &Columns) -> Result<Row, String> {
        let content = columns.text(3);
        let (text, loud) = Text::read(&content).ok_or(format!("{content:?} is no text"))?;
        let row = Row {
            id: columns.text(1),
            place: self.place(&columns.text(2))?,
            text,
            loud,
            rank: columns.number(4)?,
            raised: columns.optional(16)?,
            slot: columns.named(5, "slot")?,
            document: columns.named(6, "document")?,
            told_at: columns.number(7)?,
            from: columns.number(8)?,
            to: columns.optional(9)?,
            closed_at: columns.optional(10)?,
            put_aside_at: columns.optional(11)?,
            supersedes: columns.0[12].clone(),
            restores: columns.0[13].clone(),
            bumps: columns.number(14)?,
        };
        let status = if row.put_aside_at.is_some() {
            "disputed"
        } else {
            "active"
        };
        match columns.text(15) == status {
            true => Ok(row),
            false => Err(format!("{row:?} is {}", columns.text(15))),
        }
    }

    fn decision(&self, columns: &Columns) -> Result<Decision, String> {
        let decided = columns.text(5);
        let resolution = columns.0[8].as_deref();
        let verdict = resolution.map(|name| Verdict::read(name).ok_or(format!("{name}?")));
        Ok(Decision {
            id: columns.text(1),
            place: self.place(&columns.text(2))?,
            incoming: columns.text(3),
            incumbent: columns.text(4),
            decided: Decided::read(&decided).ok_or(format!("{decided}?"))?,
            by_caller: columns.text(6) == "caller",
            at: columns.number(7)?,
            resolved: verdict.transpose()?.zip(columns.optional(9)?),
        })
    }

    fn place(&self, name: &str) -> Result<Place, String> {
        let place = self.names.iter().position(|one| one == name);
        place.ok_or(format!("{name} is not of the case"))
    }
}

/// The jobs first: each statement sees what is committed by then, and a check commits what it
/// decided before it ends.
const ALL: &str = "
    select 'job', state, coalesce(error, '') from jobs
     where namespace in ($NAMES) and state in ('queued', 'running', 'dead');
    select 'memory', id, namespace, content, trust::text, slot, source_ref,
           (extract(epoch from assertion_time) * 1000000)::bigint,
           (extract(epoch from t_valid_from) * 1000000)::bigint,
           (extract(epoch from t_valid_to) * 1000000)::bigint,
           (extract(epoch from closed_at) * 1000000)::bigint,
           (extract(epoch from disputed_at) * 1000000)::bigint,
           supersedes, restores, access_count, status, trust_raised
      from memory_objects where namespace in ($NAMES) order by id;
    select 'decision', id, namespace, incoming, incumbent, decision, found_by,
           (extract(epoch from decided_at) * 1000000)::bigint, resolution,
           (extract(epoch from resolved_at) * 1000000)::bigint
      from conflicts where namespace in ($NAMES) order by id";

struct Columns(Vec<Option<String>>);

impl Columns {
    fn text(&self, at: usize) -> String {
        self.0[at].clone().unwrap_or_default()
    }

    fn number<T: std::str::FromStr>(&self, at: usize) -> Result<T, String> {
        self.optional(at)?
            .ok_or(format!("column {at} of {:?} is null", self.0))
    }

    fn optional<T: std::str::FromStr>(&self, at: usize) -> Result<Option<T>, String> {
        let read = |text: &String| text.parse().map_err(|_| format!("{text} is no number"));
        self.0[at].as_ref().map(read).transpose()
    }

    /// The number in `slot1`.
    fn named(&self, at: usize, prefix: &str) -> Result<Option<u8>, String> {
        let read = |text: &String| {
            let number = text
                .strip_prefix(prefix)
                .and_then(|number| number.parse().ok());
            number.ok_or(format!("{text} is no {prefix}"))
        };
        self.0[at].as_ref().map(read).transpose()
    }
}

impl Chosen for State {
    fn told_at(&self, id: &str) -> Moment {
        // One that was not stored came after all that are.
        self.0.row(id).map_or(Moment::MAX, |row| row.told_at)
    }

    fn decision(&self, incoming: &str, incumbent: &str) -> (String, Moment) {
        let of = |one: &&Decision| one.incoming == incoming && one.incumbent == incumbent;
        let found = self.0.decisions.iter().find(of);
        found.map_or((String::from("none"), 0), |one| (one.id.clone(), one.at))
    }

    fn closed_at(&self, id: &str) -> Moment {
        self.0.row(id).and_then(|row| row.closed_at).unwrap_or(0)
    }

    fn resolved_at(&self, id: &str) -> Option<Moment> {
        let found = self.0.decisions.iter().find(|one| one.id == id);
        found.and_then(|one| one.resolved).map(|(_, at)| at)
    }
}

/// Now, as the kernel keeps it.
pub(super) fn now() -> Moment {
    let micros = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000;
    Moment::try_from(micros).expect("a moment of this age")
}
