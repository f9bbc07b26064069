//! `search`: through the driver that policy selects, with the baseline behind it,
//! and lexical ranking behind that when the embedder is down.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use halofy_audit::Detail;
use halofy_cartridge::{Cartridge, Drivers, Hit, Plan, PlanFailure, PlanQuery, RowId, View};
use halofy_core::{EffectivePolicy, MemoryId, Namespace};
use halofy_retrieval::{bm25_scores, estimate_tokens, trim_to_budget};
use halofy_store::{Candidate, Scope, Validness};
use serde::Serialize;

use crate::audit::{Ending, Trail};
use crate::body::SearchRequest;
use crate::gate::{Done, Gate, Recorded};
use crate::prologue::Authorized;
use crate::view::StoreView;
use crate::{Refusal, metrics};

const EMBEDDING_UNAVAILABLE: &str = "embedding_unavailable";
const LEXICAL_ONLY: &str = "bm25-degraded";
const HISTORY: &str = "history";

/// One result.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ranked {
    /// The memory's id; absent for a concept.
    pub id: Option<String>,
    /// `L2`, a memory; `L3`, a concept.
    pub tier: &'static str,
    /// The memory's id, or the concept's path.
    #[serde(rename = "ref")]
    pub reference: String,
    /// The caller's namespace, or the ancestor that holds it.
    pub namespace: Arc<str>,
    /// What it says.
    pub content: Arc<str>,
    /// Higher is better; comparable within one answer only.
    pub score: f64,
    /// `ceil(characters / 4)`.
    pub token_estimate: u64,
    /// In the history lane: whether it is believed now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<bool>,
}

/// A driver that failed, and the one that served instead.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fallback {
    /// Which one policy selected.
    pub from: String,
    /// Which one served.
    pub to: String,
    /// Why, as a stable word.
    pub reason: &'static str,
}

/// What a search answers.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchAnswer {
    /// Best first.
    pub results: Vec<Ranked>,
    /// Their token estimates together.
    pub tokens: u64,
    /// What ranked them.
    pub driver: String,
    /// Present when the selected driver did not serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver_fallback: Option<Fallback>,
    /// Present when the answer is less than it could be, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<&'static str>,
}

impl SearchAnswer {
    fn new(results: Vec<Ranked>, driver: &str) -> Self {
        Self {
            tokens: results.iter().map(|hit| hit.token_estimate).sum(),
            results,
            driver: driver.to_owned(),
            driver_fallback: None,
            degraded: None,
        }
    }

    fn detail(&self) -> Detail {
        let mut detail = Detail::new()
            .field("returned", self.results.len())
            .field("tokens", self.tokens)
            .field("driver", &self.driver);
        if let Some(fallback) = &self.driver_fallback {
            let route = format!("{}->{}", fallback.from, fallback.to);
            detail = detail
                .field("driver_fallback", route)
                .field("reason", fallback.reason);
        }
        match self.degraded {
            Some(why) => detail.field("brownout", why),
            None => detail,
        }
    }
}

/// Why a driver did not serve, and what may be tried instead.
enum Failed {
    /// Another driver may do better.
    Driver(&'static str),
    /// The vector arm is missing, for every driver.
    Embedder,
    /// Nothing can be served.
    Call(Refusal),
}

impl Gate {
    pub(crate) async fn search(
        &self,
        caller: &Authorized,
        request: &SearchRequest,
        trail: &mut Trail,
    ) -> Result<Done, Refusal> {
        let query = request.query()?;
        trail.purpose(query.as_str(), request.sensitive);
        let plan = PlanQuery {
            text: query.as_str().into(),
            token_budget: request.token_budget(caller.policy().token_budget)?,
            k: request.k()?,
        };
        let namespace = &caller.identity().namespace;
        let answer = if request.valid_only {
            self.rank(namespace, caller.policy(), &plan).await?
        } else {
            self.rank_history(namespace, &plan).await?
        };
        let ending = Ending::ok(answer.detail());
        let answer = serde_json::to_value(&answer).map_err(|error| Refusal::Internal {
            why: error.to_string(),
        })?;
        let recorded = Recorded::Pending(ending);
        Ok(Done { answer, recorded })
    }

    /// Ranks with the selected driver; whatever goes wrong in it costs the caller
    /// at most its ranking.
    async fn rank(
        &self,
        namespace: &Namespace,
        policy: &EffectivePolicy,
        query: &PlanQuery,
    ) -> Result<SearchAnswer, Refusal> {
        let name = policy.driver_for(&query.text).as_str();
        let first = match self.drivers.get(name) {
            Some(driver) => self.plan(&driver, namespace, query).await,
            None => Err(Failed::Driver("unmounted")),
        };
        let reason = match first {
            Ok(answer) => return Ok(answer),
            Err(Failed::Call(refusal)) => return Err(refusal),
            Err(Failed::Embedder) => return self.rank_lexically(namespace, query).await,
            Err(Failed::Driver(reason)) => reason,
        };
        metrics::driver_fallback(self.mounted_name(name), reason);
        if name == Drivers::BASELINE {
            return Err(baseline_failed(reason));
        }
        let baseline = self.drivers.baseline();
        let mut answer = match self.plan(&baseline, namespace, query).await {
            Ok(answer) => answer,
            Err(Failed::Embedder) => self.rank_lexically(namespace, query).await?,
            Err(Failed::Call(refusal)) => return Err(refusal),
            Err(Failed::Driver(reason)) => return Err(baseline_failed(reason)),
        };
        answer.driver_fallback = Some(Fallback {
            from: name.to_owned(),
            to: answer.driver.clone(),
            reason,
        });
        Ok(answer)
    }

    async fn plan(
        &self,
        driver: &Cartridge,
        namespace: &Namespace,
        query: &PlanQuery,
    ) -> Result<SearchAnswer, Failed> {
        let view = StoreView::new(self.store.clone(), self.embedder.clone(), namespace);
        let started = Instant::now();
        let planned = self
            .host
            .plan(driver, view.clone() as Arc<dyn View>, query.clone())
            .await;
        metrics::driver_call(driver.name(), started.elapsed());
        if view.store_failed() {
            return Err(Failed::Call(Refusal::Unavailable {
                what: "store",
                why: "an arm of the view failed".to_owned(),
            }));
        }
        match planned {
            Ok(plan) => {
                let mut answer = served(&plan, driver);
                answer.degraded = view.embedder_failed().then_some(EMBEDDING_UNAVAILABLE);
                Ok(answer)
            }
            Err(PlanFailure::Overloaded) => Err(Failed::Call(Refusal::Overloaded)),
            Err(_) if view.embedder_failed() => Err(Failed::Embedder),
            Err(failure) => {
                tracing::warn!(driver = driver.name(), %failure, "a driver failed");
                Err(Failed::Driver(failure.reason()))
            }
        }
    }

    /// The embedder is down: BM25 over the lexical arm.
    async fn rank_lexically(
        &self,
        namespace: &Namespace,
        query: &PlanQuery,
    ) -> Result<SearchAnswer, Refusal> {
        let pool = halofy_retrieval::pool_size(query.k as usize);
        let found = self
            .store
            .candidates_lexical(namespace, &query.text, pool, Validness::Current)
            .await?;
        let scores = lexical_scores(&query.text, &found);
        let results = select(found, scores, query);
        let mut answer = SearchAnswer::new(results, LEXICAL_ONLY);
        answer.degraded = Some(EMBEDDING_UNAVAILABLE);
        Ok(answer)
    }

    /// What was ever believed, ranked as the baseline ranks. No cartridge runs:
    /// superseded rows are not for drivers.
    async fn rank_history(
        &self,
        namespace: &Namespace,
        query: &PlanQuery,
    ) -> Result<SearchAnswer, Refusal> {
        let scope = Scope::of(namespace);
        let k = query.k as usize;
        let pool = halofy_retrieval::pool_size(k);
        let vector = self.embed_one(&query.text, "query").await?;
        let near = self
            .store
            .candidates_nearest(namespace, &vector, pool, Validness::Ever)
            .await?;
        let mut found = self
            .store
            .candidates_lexical(namespace, &query.text, pool, Validness::Ever)
            .await?;
        let cosines = scored_refs(&near, near.iter().map(|row| row.score));
        let known: HashSet<Arc<str>> = found.iter().map(|row| row.id.clone()).collect();
        found.extend(near.into_iter().filter(|row| !known.contains(&row.id)));
        let merged = merged_scores(&query.text, &found, &cosines);
        let mut results = select(found, merged, query);
        let current = self.store.memories_current(&scope, &ids(&results)).await?;
        for hit in &mut results {
            hit.current = Some(current.contains(&hit.reference));
        }
        Ok(SearchAnswer::new(results, HISTORY))
    }

    /// A label for metrics: names that are not mounted share one.
    fn mounted_name<'n>(&self, name: &'n str) -> &'n str {
        match self.drivers.get(name) {
            Some(_) => name,
            None => "unmounted",
        }
    }
}

/// Nothing is left to fall back to.
fn baseline_failed(reason: &str) -> Refusal {
    Refusal::Unavailable {
        what: "retrieval",
        why: format!("the baseline failed: {reason}"),
    }
}

fn ids(results: &[Ranked]) -> Vec<String> {
    results.iter().map(|hit| hit.reference.clone()).collect()
}

fn served(plan: &Plan, driver: &Cartridge) -> SearchAnswer {
    let results = plan.hits.iter().map(ranked).collect();
    SearchAnswer::new(results, driver.name())
}

fn ranked(hit: &Hit) -> Ranked {
    let (id, tier, reference) = match &hit.row.id {
        RowId::Memory(bits) => {
            let id = MemoryId::from_bits(*bits).to_string();
            (Some(id.clone()), "L2", id)
        }
        RowId::Concept(path) => (None, "L3", path.to_string()),
    };
    Ranked {
        id,
        tier,
        reference,
        namespace: hit.row.namespace.clone(),
        content: hit.row.content.clone(),
        score: hit.score,
        token_estimate: hit.token_estimate,
        current: None,
    }
}

/// BM25 of each row, in the order of the rows.
fn lexical_scores(query: &str, found: &[Candidate]) -> Vec<f64> {
    let texts: Vec<&str> = found.iter().map(|row| &*row.content).collect();
    bm25_scores(query, &texts)
}

/// The merged score of each row, in the order of the rows, as the baseline has it.
fn merged_scores(query: &str, found: &[Candidate], cosines: &[(Arc<str>, f64)]) -> Vec<f64> {
    let lexical = scored_refs(found, lexical_scores(query, found).into_iter());
    let merged = halofy_retrieval::hybrid_merge(cosines, &lexical, found.len());
    let merged: HashMap<Arc<str>, f64> = merged.into_iter().collect();
    let score_of = |row: &Candidate| merged.get(&row.id).copied().unwrap_or_default();
    found.iter().map(score_of).collect()
}

fn scored_refs(rows: &[Candidate], scores: impl Iterator<Item = f64>) -> Vec<(Arc<str>, f64)> {
    rows.iter().map(|row| row.id.clone()).zip(scores).collect()
}

/// The rows, best first, then by id, within `k` and the budget.
fn select(found: Vec<Candidate>, scores: Vec<f64>, query: &PlanQuery) -> Vec<Ranked> {
    let mut scored: Vec<(Candidate, f64)> = found.into_iter().zip(scores).collect();
    scored.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| a.id.cmp(&b.id)));
    scored.truncate(query.k as usize);
    let hit = |(row, score): (Candidate, f64)| Ranked {
        id: Some(row.id.to_string()),
        tier: "L2",
        reference: row.id.to_string(),
        namespace: row.namespace,
        token_estimate: estimate_tokens(&row.content),
        content: row.content,
        score,
        current: None,
    };
    let mut hits: Vec<Ranked> = scored.into_iter().map(hit).collect();
    let budget = u64::from(query.token_budget);
    trim_to_budget(&mut hits, budget, |hit| hit.token_estimate);
    hits
}
