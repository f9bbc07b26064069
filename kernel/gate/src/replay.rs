//! Replay: the query of an audit row, through the same cartridge, over the memories as
//! they were believed then.
//!
//! The memories are those whose assertion time is not after the search began and which
//! were not closed by then. A write that was under way in that moment may show here and
//! not there.

use std::collections::HashMap;
use std::sync::Arc;

use halofy_audit::{Columns, Detail};
use halofy_cartridge::{Digest, PlanQuery};
use halofy_core::{EffectivePolicy, Invalid, KeyId, Namespace};
use halofy_store::{Scope, Validness};
use serde::Serialize;
use time::OffsetDateTime;

use crate::Refusal;
use crate::answer::{Ranked, SearchAnswer};
use crate::audit::{EVERYWHERE, Ending, Trail};
use crate::driven::run;
use crate::drivers::Driver;
use crate::gate::Gate;
use crate::view::StoreView;

/// Longer queries are cut in the log.
const WHOLE_QUERY_CHARS: usize = 200;

/// What a replay found.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Replay {
    /// The row.
    pub seq: i64,
    /// Whether refs, order and scores are those of then, to the bit.
    pub same: bool,
    /// The answer's fingerprint in the log.
    pub logged: String,
    /// The answer's fingerprint now.
    pub found: String,
    /// Who ranked.
    pub driver: String,
    /// SHA-256 of the component, hex.
    pub digest: String,
    /// The answer now.
    pub results: Vec<Ranked>,
}

/// A search, as its audit row tells it.
struct Logged {
    namespace: Namespace,
    query: PlanQuery,
    /// The key that asked, for what it may read beside what everybody may.
    key: Option<KeyId>,
    validness: Validness,
    digest: [u8; 32],
    answer: String,
}

impl Gate {
    /// Runs the search of an audit row again. `query` stands in for one that the log has
    /// not, or not whole.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] when the row is no search, or does not say enough.
    pub async fn replay(&self, seq: i64, query: Option<&str>) -> Result<Replay, Refusal> {
        let row = self.store.audit_find(seq).await?;
        let row = row.ok_or_else(|| invalid("seq", format!("there is no audit row {seq}")))?;
        let logged = read(&row.columns, query)?;
        let driver = self.driver_of(logged.digest).await?;
        let (store, embedder) = (self.store.clone(), self.embedder.clone());
        let scope = self.scope_then(&logged).await?;
        let chain = self.store.policy_chain(&logged.namespace).await?;
        let policy = EffectivePolicy::combine(chain.iter().map(|record| &record.policy));
        let mut sight = self.sight_of(scope, &policy, &logged.query.text);
        sight.validness = logged.validness;
        let view = StoreView::new(store, embedder, sight);
        let ran = run(&self.host, &driver, view, logged.query).await;
        let plan = ran.outcome.map_err(|broken| Refusal::Unavailable {
            what: "retrieval",
            why: format!("the replay failed: {}", broken.reason),
        })?;
        let answer = SearchAnswer::of_plan(&plan, &driver);
        let found = answer.fingerprint();
        let same = found == logged.answer;
        let detail = Detail::new().field("seq", seq).field("same", same);
        let row = Trail::operator("replay", EVERYWHERE).seal(&Ending::ok(detail));
        self.append(row).await?;
        Ok(Replay {
            seq,
            same,
            logged: logged.answer,
            found,
            driver: answer.driver,
            digest: Digest(logged.digest).to_string(),
            results: answer.results,
        })
    }

    /// What the caller of then saw. Groups do not change while a key lives.
    async fn scope_then(&self, logged: &Logged) -> Result<Scope, Refusal> {
        let Some(key) = &logged.key else {
            return Ok(Scope::anybody_in(&logged.namespace));
        };
        let record = self.store.key_read(key).await?;
        let record = record.ok_or_else(|| {
            invalid(
                "seq",
                format!("the key {key} of the row is not in the store"),
            )
        })?;
        Ok(Scope::of(&record.identity))
    }

    async fn driver_of(&self, digest: [u8; 32]) -> Result<Arc<Driver>, Refusal> {
        let hex = Digest(digest).to_string();
        if let Some(driver) = self.registry.by_digest(&hex) {
            return Ok(driver);
        }
        let driver = self.mounts.stored(digest).await?;
        driver.ok_or_else(|| {
            invalid(
                "seq",
                format!("the component sha256:{hex} that ranked is neither stored nor built in"),
            )
        })
    }
}

fn read(row: &Columns, query: Option<&str>) -> Result<Logged, Refusal> {
    let fields: HashMap<&str, &str> = row
        .detail
        .as_deref()
        .unwrap_or_default()
        .split(' ')
        .filter_map(|field| field.split_once('='))
        .collect();
    if row.op != "search" || row.result != "ok" {
        let what = format!(
            "row is a {} that ended {}, not a search that answered",
            row.op, row.result
        );
        return Err(invalid("seq", what));
    }
    let get = |name: &'static str| {
        let missing = || invalid("seq", format!("the row does not say {name}"));
        fields.get(name).copied().ok_or_else(missing)
    };
    let digest = get("digest").map_err(|_| {
        let who = fields.get("driver").copied().unwrap_or("nothing");
        invalid(
            "seq",
            format!("{who} ranked, which is no cartridge and cannot be run again"),
        )
    })?;
    let known = moment(get("asof")?)?;
    let validness = match fields.get("validat") {
        Some(valid) => Validness::At {
            valid: moment(valid)?,
            known,
        },
        None => Validness::Then(known),
    };
    Ok(Logged {
        namespace: Namespace::parse(&row.namespace)?,
        query: PlanQuery {
            text: asked(row, query)?.into(),
            token_budget: number(get("budget")?)?,
            k: number(get("k")?)?,
        },
        key: row.key_id.clone().map(KeyId),
        validness,
        digest: hex::decode(digest)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| invalid("seq", "the row's digest is no SHA-256".to_owned()))?,
        answer: get("answer")?.to_owned(),
    })
}

/// The query, of which the log may hold only the beginning.
fn asked(row: &Columns, query: Option<&str>) -> Result<String, Refusal> {
    match (row.purpose.as_deref(), query) {
        (Some(logged), Some(query)) if !query.starts_with(logged) => {
            Err(invalid("query", "the log holds another query".to_owned()))
        }
        (_, Some(query)) => Ok(query.to_owned()),
        (Some(logged), None) if logged.chars().count() < WHOLE_QUERY_CHARS => Ok(logged.to_owned()),
        (Some(_), None) => Err(invalid(
            "query",
            "the log holds only the first 200 characters; give the whole query".to_owned(),
        )),
        (None, None) => Err(invalid(
            "query",
            "the query was sensitive and is not in the log; give it".to_owned(),
        )),
    }
}

fn moment(micros: &str) -> Result<OffsetDateTime, Refusal> {
    let micros: i128 = number(micros)?;
    OffsetDateTime::from_unix_timestamp_nanos(micros.saturating_mul(1_000))
        .map_err(|error| invalid("seq", error.to_string()))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, Refusal> {
    text.parse()
        .map_err(|_| invalid("seq", format!("{text:?} in the row is no number")))
}

fn invalid(field: &str, problem: String) -> Refusal {
    Invalid::new(field, problem).into()
}
