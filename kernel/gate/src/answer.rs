//! What a search answers, and what the audit log says of it.

use std::sync::Arc;
use std::time::Duration;

use halofy_audit::Detail;
use halofy_cartridge::{CallStats, Digest, Hit, Plan, RowId};
use halofy_core::MemoryId;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::drivers::Driver;

/// Why an answer is degraded whose query may not go to the embedder outside.
pub(crate) const EMBEDDING_WITHHELD: &str = "embedding_withheld";
/// Why an answer without the vector arm is less than it could be.
pub(crate) const EMBEDDING_UNAVAILABLE: &str = "embedding_unavailable";

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
    /// Present when asked for: what ran, and what it cost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explain: Option<Explain>,
    /// The component that ranked, for the audit log.
    #[serde(skip)]
    pub(crate) component: Option<Component>,
    /// Results that broke the contract and were left out.
    #[serde(skip)]
    pub(crate) violations: u64,
}

/// Which bytes ranked.
#[derive(Debug, Clone)]
pub(crate) struct Component {
    pub(crate) version: String,
    pub(crate) digest: Option<Digest>,
}

/// What ran for a search, and what it cost.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explain {
    /// What policy selected: `name`, `name@version` or `name@sha256:…`.
    pub selected: String,
    /// `policy`, or the arm of its A/B test: `ab:a`, `ab:b`.
    pub selected_by: &'static str,
    /// Every driver that was tried, in order.
    pub attempts: Vec<Attempt>,
}

/// One driver's try.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Its name.
    pub driver: String,
    /// Its version.
    pub version: String,
    /// SHA-256 of the component, hex; absent for a sidecar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// `served`, or a stable word for why not.
    pub outcome: &'static str,
    /// Calls of the view.
    pub view_calls: u64,
    /// Rows that the view handed out, repeats counted.
    pub rows: u64,
    /// Bytes that the view handed out, repeats counted.
    pub bytes: u64,
    /// The most linear memory that it held, in bytes.
    pub memory_bytes: u64,
    /// Results that were not served.
    pub dropped: Dropped,
    /// Where the time went.
    pub micros: Micros,
}

/// Results that were not served, by reason.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Dropped {
    /// The view had not handed them out in this call.
    pub unknown: u64,
    /// They were named before.
    pub duplicate: u64,
    /// Their score was no finite number.
    pub non_finite: u64,
    /// There were `k` already.
    pub over_k: u64,
    /// They did not fit the token budget.
    pub over_budget: u64,
}

/// Microseconds by stage.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Micros {
    /// Making the instance.
    pub instantiate: u64,
    /// The guest's own work, copying included.
    pub guest: u64,
    /// Waiting for the view.
    pub view: u64,
    /// All of it.
    pub total: u64,
}

impl Attempt {
    pub(crate) fn new(driver: &Driver, outcome: &'static str, stats: &CallStats) -> Self {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Self {
            driver: driver.name.to_string(),
            version: driver.version.clone(),
            digest: driver.digest.map(|digest| digest.to_string()),
            outcome,
            view_calls: stats.host_calls,
            rows: stats.rows,
            bytes: stats.bytes,
            memory_bytes: stats.memory,
            dropped: Dropped {
                unknown: stats.dropped_unknown,
                duplicate: stats.dropped_duplicate,
                non_finite: stats.dropped_nonfinite,
                over_k: stats.over_k,
                over_budget: stats.over_budget,
            },
            micros: Micros {
                instantiate: micros(stats.instantiate),
                guest: micros(stats.guest),
                view: micros(stats.view),
                total: micros(stats.total),
            },
        }
    }
}

impl SearchAnswer {
    pub(crate) fn new(results: Vec<Ranked>, driver: &str) -> Self {
        Self {
            tokens: results.iter().map(|hit| hit.token_estimate).sum(),
            results,
            driver: driver.to_owned(),
            driver_fallback: None,
            degraded: None,
            explain: None,
            component: None,
            violations: 0,
        }
    }

    /// What a driver's plan says.
    pub(crate) fn of_plan(plan: &Plan, driver: &Driver) -> Self {
        let results = plan.hits.iter().map(ranked).collect();
        let mut answer = Self::new(results, driver.name.as_str());
        answer.violations = plan.stats.violations();
        answer.component = Some(Component {
            version: driver.version.clone(),
            digest: driver.digest,
        });
        answer
    }

    /// Names refs, their order and their scores, and nothing else: 16 hexadecimal
    /// digits. Equal for equal answers.
    pub(crate) fn fingerprint(&self) -> String {
        let mut hasher = Sha256::new();
        for hit in &self.results {
            hasher.update(hit.reference.as_bytes());
            hasher.update([0]);
            hasher.update(hit.score.to_bits().to_be_bytes());
        }
        let hash: [u8; 32] = hasher.finalize().into();
        Digest(hash).to_string()[..16].to_owned()
    }

    pub(crate) fn detail(&self) -> Detail {
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
        if self.violations > 0 {
            detail = detail.field("dropped", self.violations);
        }
        if let Some(why) = self.degraded {
            detail = detail.field("brownout", why);
        }
        match &self.component {
            Some(component) => component.detail(detail),
            None => detail,
        }
    }
}

impl Component {
    fn detail(&self, detail: Detail) -> Detail {
        let detail = detail.field("version", &self.version);
        match self.digest {
            Some(digest) => detail.field("digest", digest),
            None => detail,
        }
    }
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
