//! `search`: through the driver that policy selects, with the baseline behind it,
//! and lexical ranking behind that when the embedder is down.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use halofy_cartridge::PlanQuery;
use halofy_core::{DEFAULT_DRIVER, EffectivePolicy, Provider, Routing};
use halofy_retrieval::{bm25_scores, estimate_tokens, trim_to_budget};
use halofy_store::{Candidate, Scope, Validness};
use time::OffsetDateTime;

use crate::answer::{
    Attempt, EMBEDDING_UNAVAILABLE, EMBEDDING_WITHHELD, Explain, Fallback, Ranked, SearchAnswer,
};
use crate::audit::{Ending, Trail};
use crate::body::SearchRequest;
use crate::classify::{Asked, PolicyRules, classify, holds_secret};
use crate::driven::Failed;
use crate::gate::{Done, Gate, Recorded};
use crate::prologue::Authorized;
use crate::view::{Embeddable, Sight};
use crate::{Refusal, metrics};

const LEXICAL_ONLY: &str = "bm25-degraded";
const HISTORY: &str = "history";

impl Gate {
    pub(crate) async fn search(
        &self,
        caller: &Authorized,
        request: &SearchRequest,
        trail: &mut Trail,
    ) -> Result<Done, Refusal> {
        let query = request.query()?;
        // The log keeps what it has for ever.
        let unsaid = request.sensitive || holds_secret(query.as_str());
        trail.purpose(query.as_str(), unsaid);
        let plan = PlanQuery {
            text: query.as_str().into(),
            token_budget: request.token_budget(caller.policy().token_budget)?,
            k: request.k()?,
        };
        let mut sight = self.sight_of(Scope::of(caller.identity()), caller.policy(), &plan.text);
        let known = OffsetDateTime::now_utc();
        let as_of = request.as_of()?;
        if let Some(valid) = as_of {
            sight.validness = Validness::At { valid, known };
        }
        let mut answer = if request.valid_only {
            self.rank(&sight, caller.policy(), &plan).await?
        } else {
            self.rank_history(&sight, &plan).await?
        };
        if answer.degraded.is_some() && sight.embeddable == Embeddable::Nothing {
            answer.degraded = Some(EMBEDDING_WITHHELD);
        }
        if request.valid_only && as_of.is_none() {
            self.shadow(&sight, caller.policy(), &plan, &answer);
        }
        // What a replay needs to know.
        let mut detail = answer
            .detail()
            .field("k", plan.k)
            .field("budget", plan.token_budget)
            .field("asof", micros(known));
        if let Some(valid) = as_of {
            detail = detail.field("validat", micros(valid));
        }
        let detail = detail.field("answer", answer.fingerprint());
        let ending = Ending::ok(detail);
        answer.explain = answer.explain.filter(|_| request.explain);
        let answer = serde_json::to_value(&answer).map_err(|error| Refusal::Internal {
            why: error.to_string(),
        })?;
        let recorded = Recorded::Pending(ending);
        Ok(Done { answer, recorded })
    }

    /// What a search in a scope looks at, now.
    pub(crate) fn sight_of(
        &self,
        scope: Scope,
        policy: &EffectivePolicy,
        query: &Arc<str>,
    ) -> Sight {
        let provider = Provider {
            local: self.embedder.is_local(),
            region: self.embedder.region(),
        };
        let rules = PolicyRules {
            data_region: policy.data_region.as_deref(),
        };
        let embeddable = match provider.local {
            // What does not leave needs no label.
            true => Embeddable::Anything,
            false => {
                let label = classify(query, Asked::default(), rules);
                Embeddable::of(query, &label, &provider)
            }
        };
        Sight {
            scope,
            validness: Validness::Current,
            embeddable,
        }
    }

    /// Ranks with the selected driver; whatever goes wrong in it costs the caller
    /// at most its ranking.
    async fn rank(
        &self,
        sight: &Sight,
        policy: &EffectivePolicy,
        query: &PlanQuery,
    ) -> Result<SearchAnswer, Refusal> {
        let wanted = policy.driver_for(&query.text);
        let mut attempts = Vec::new();
        let first = match self.registry.resolve(wanted, policy.allow_unsigned) {
            Ok(driver) => self.plan(&driver, sight, query, &mut attempts).await,
            Err(reason) => Err(Failed::Driver(reason)),
        };
        let mut answer = match first {
            Ok(answer) => answer,
            Err(Failed::Call(refusal)) => return Err(refusal),
            Err(Failed::Embedder) => self.rank_lexically(sight, query).await?,
            Err(Failed::Driver(reason)) => {
                let name = wanted.to_string();
                metrics::driver_fallback(self.metrics_name(wanted.name.as_str()), reason);
                self.fall_back(sight, query, name, reason, &mut attempts)
                    .await?
            }
        };
        answer.explain = Some(explain(policy, query, attempts));
        Ok(answer)
    }

    /// The baseline over the same view, and the reason in the answer.
    async fn fall_back(
        &self,
        sight: &Sight,
        query: &PlanQuery,
        from: String,
        reason: &'static str,
        attempts: &mut Vec<Attempt>,
    ) -> Result<SearchAnswer, Refusal> {
        if from == DEFAULT_DRIVER {
            return Err(baseline_failed(reason));
        }
        let baseline = self.registry.baseline();
        let mut answer = match self.plan(&baseline, sight, query, attempts).await {
            Ok(answer) => answer,
            Err(Failed::Embedder) => self.rank_lexically(sight, query).await?,
            Err(Failed::Call(refusal)) => return Err(refusal),
            Err(Failed::Driver(reason)) => return Err(baseline_failed(reason)),
        };
        answer.driver_fallback = Some(Fallback {
            from,
            to: answer.driver.clone(),
            reason,
        });
        Ok(answer)
    }

    /// The embedder is down: BM25 over the lexical arm.
    async fn rank_lexically(
        &self,
        sight: &Sight,
        query: &PlanQuery,
    ) -> Result<SearchAnswer, Refusal> {
        let pool = halofy_retrieval::pool_size(query.k as usize);
        let found = self
            .store
            .candidates_lexical(&sight.scope, &query.text, pool, sight.validness)
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
        sight: &Sight,
        query: &PlanQuery,
    ) -> Result<SearchAnswer, Refusal> {
        let scope = &sight.scope;
        let k = query.k as usize;
        let pool = halofy_retrieval::pool_size(k);
        let vector = match sight.embeddable {
            Embeddable::Nothing => Err(Refusal::Unavailable {
                what: "embedder",
                why: "the query may not leave for it".to_owned(),
            }),
            _ => self.embed_one(&query.text, "query").await,
        };
        let (near, degraded) = match vector {
            Ok(vector) => {
                let nearest = self
                    .store
                    .candidates_nearest(scope, &vector, pool, Validness::Ever);
                (nearest.await?, None)
            }
            // Words alone, and the answer says so.
            Err(
                Refusal::Unavailable {
                    what: "embedder", ..
                }
                | Refusal::NoVector { .. },
            ) => (Vec::new(), Some(EMBEDDING_UNAVAILABLE)),
            Err(refusal) => return Err(refusal),
        };
        let mut found = self
            .store
            .candidates_lexical(scope, &query.text, pool, Validness::Ever)
            .await?;
        let cosines = scored_refs(&near, near.iter().map(|row| row.score));
        let known: HashSet<Arc<str>> = found.iter().map(|row| row.id.clone()).collect();
        found.extend(near.into_iter().filter(|row| !known.contains(&row.id)));
        let merged = merged_scores(&query.text, &found, &cosines);
        let mut results = select(found, merged, query);
        let current = self.store.memories_current(scope, &ids(&results)).await?;
        for hit in &mut results {
            hit.current = Some(current.contains(&hit.reference));
        }
        let mut answer = SearchAnswer::new(results, HISTORY);
        answer.degraded = degraded;
        Ok(answer)
    }

    /// A label for metrics: names that are not mounted share one.
    fn metrics_name<'n>(&self, name: &'n str) -> &'n str {
        match self.registry.knows(name) {
            true => name,
            false => "unmounted",
        }
    }
}

fn explain(policy: &EffectivePolicy, query: &PlanQuery, attempts: Vec<Attempt>) -> Explain {
    let selected = policy.driver_for(&query.text);
    let selected_by = match &policy.routing {
        Routing::One(_) => "policy",
        Routing::Split(test) if *selected == test.b => "ab:b",
        Routing::Split(_) => "ab:a",
    };
    Explain {
        selected: selected.to_string(),
        selected_by,
        attempts,
    }
}

fn micros(at: OffsetDateTime) -> i128 {
    at.unix_timestamp_nanos() / 1_000
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
