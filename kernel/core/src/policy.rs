//! Policy: what a namespace says about drivers, budgets, rates and tenancy, and
//! how the policies of its ancestors combine with its own.

use serde::{Deserialize, Serialize};

use crate::provenance::check_text;
use crate::{DriverRef, Invalid};

const DEFAULT_TOKEN_BUDGET: u32 = 3_000;
const MAX_TOKEN_BUDGET: u32 = 100_000;
const MAX_REGION_BYTES: usize = 64;

/// A split of queries between two drivers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AbTest {
    /// Serves the rest.
    pub a: DriverRef,
    /// Serves `pct_b` per cent of query texts.
    pub b: DriverRef,
    /// 0 to 100.
    pub pct_b: u8,
}

/// Requests that one key may make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RateLimit {
    /// Sustained, per second.
    pub per_second: u32,
    /// At once, after a rest.
    pub burst: u32,
}

impl Default for RateLimit {
    fn default() -> Self {
        Self {
            per_second: 200,
            burst: 400,
        }
    }
}

/// What becomes of facts that a model finds to contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConflictReview {
    /// The trust lattice decides.
    #[default]
    Auto,
    /// Somebody decides; both stay until then.
    Review,
    /// They are not looked for.
    Off,
}

impl std::fmt::Display for ConflictReview {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Review => "review",
            Self::Off => "off",
        })
    }
}

/// What one namespace says. Absent fields are inherited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    /// The driver that serves this namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retriever: Option<DriverRef>,
    /// A split between two drivers; wins over `retriever` of the same namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ab_test: Option<AbTest>,
    /// A driver that ranks the same queries, is measured, and never serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<DriverRef>,
    /// Whether a driver that nobody signed may serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_unsigned: Option<bool>,
    /// Tokens of a search that names none: 1 to 100,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_budget: Option<u32>,
    /// Requests of each key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_limit: Option<RateLimit>,
    /// Refuses every call here and below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspended: Option<bool>,
    /// What becomes of facts that contradict each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conflict_review: Option<ConflictReview>,
    /// Whether a model checks what a model drew from a text, before it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verifier: Option<bool>,
    /// Tokens that the namespace may spend on the language model in a day (UTC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_tokens_per_day: Option<u64>,
    /// The region that content may be sent to, such as `eu`; any if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_region: Option<String>,
}

impl Policy {
    /// Checks the figures.
    ///
    /// # Errors
    /// Names the first field out of range.
    pub fn check(&self) -> Result<(), Invalid> {
        if self.ab_test.as_ref().is_some_and(|split| split.pct_b > 100) {
            return Err(Invalid::new("abTest.pctB", "must be 0 to 100"));
        }
        if let Some(budget) = self.token_budget
            && !(1..=MAX_TOKEN_BUDGET).contains(&budget)
        {
            return Err(Invalid::new("tokenBudget", "must be 1 to 100000"));
        }
        if let Some(limit) = self.rate_limit
            && (limit.per_second == 0 || limit.burst == 0)
        {
            let problem =
                "perSecond and burst must be at least 1; use suspended to stop a namespace";
            return Err(Invalid::new("rateLimit", problem));
        }
        check_text("dataRegion", self.data_region.as_deref(), MAX_REGION_BYTES)
    }

    /// This policy with what `newer` says in place of its own. A driver and a split stand
    /// for each other: setting one ends the other.
    #[must_use]
    pub fn overlaid(self, newer: Self) -> Self {
        let (retriever, ab_test) = match (newer.retriever, newer.ab_test) {
            (None, None) => (self.retriever, self.ab_test),
            routing => routing,
        };
        Self {
            retriever,
            ab_test,
            shadow: newer.shadow.or(self.shadow),
            allow_unsigned: newer.allow_unsigned.or(self.allow_unsigned),
            token_budget: newer.token_budget.or(self.token_budget),
            rate_limit: newer.rate_limit.or(self.rate_limit),
            suspended: newer.suspended.or(self.suspended),
            conflict_review: newer.conflict_review.or(self.conflict_review),
            verifier: newer.verifier.or(self.verifier),
            model_tokens_per_day: newer.model_tokens_per_day.or(self.model_tokens_per_day),
            data_region: newer.data_region.or(self.data_region),
        }
    }

    /// The drivers it names.
    pub fn drivers(&self) -> impl Iterator<Item = &DriverRef> {
        let split = self.ab_test.iter().flat_map(|test| [&test.a, &test.b]);
        self.retriever.iter().chain(split).chain(&self.shadow)
    }

    fn routing(&self) -> Option<Routing> {
        let split = self.ab_test.clone().map(Routing::Split);
        split.or_else(|| self.retriever.clone().map(Routing::One))
    }
}

/// Which driver serves a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Routing {
    /// Always the same.
    One(DriverRef),
    /// By the query's text.
    Split(AbTest),
}

/// What holds for a namespace once its ancestors are taken into account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectivePolicy {
    /// Which driver serves.
    pub routing: Routing,
    /// Which driver ranks beside it, unserved.
    pub shadow: Option<DriverRef>,
    /// Whether a driver that nobody signed may serve.
    pub allow_unsigned: bool,
    /// Tokens of a search that names none.
    pub token_budget: u32,
    /// Requests of each key.
    pub rate_limit: RateLimit,
    /// Whether this namespace or one above it is suspended.
    pub suspended: bool,
    /// What becomes of facts that contradict each other.
    pub conflict_review: ConflictReview,
    /// Whether extracted facts are verified.
    pub verifier: bool,
    /// Tokens of the language model a day; no cap if absent.
    pub model_tokens_per_day: Option<u64>,
    /// The region that content may be sent to; any if absent.
    pub data_region: Option<String>,
}

impl EffectivePolicy {
    /// Combines policies given root first. The nearest one that speaks wins,
    /// field by field; suspension of an ancestor cannot be lifted below it.
    pub fn combine<'a>(chain: impl IntoIterator<Item = &'a Policy>) -> Self {
        let mut effective = Self {
            routing: Routing::One(DriverRef::default()),
            shadow: None,
            allow_unsigned: false,
            token_budget: DEFAULT_TOKEN_BUDGET,
            rate_limit: RateLimit::default(),
            suspended: false,
            conflict_review: ConflictReview::default(),
            verifier: true,
            model_tokens_per_day: None,
            data_region: None,
        };
        for policy in chain {
            if let Some(routing) = policy.routing() {
                effective.routing = routing;
            }
            effective.shadow = policy.shadow.clone().or(effective.shadow);
            effective.allow_unsigned = policy.allow_unsigned.unwrap_or(effective.allow_unsigned);
            effective.token_budget = policy.token_budget.unwrap_or(effective.token_budget);
            effective.rate_limit = policy.rate_limit.unwrap_or(effective.rate_limit);
            effective.suspended |= policy.suspended.unwrap_or(false);
            effective.conflict_review = policy.conflict_review.unwrap_or(effective.conflict_review);
            effective.verifier = policy.verifier.unwrap_or(effective.verifier);
            effective.model_tokens_per_day = policy
                .model_tokens_per_day
                .or(effective.model_tokens_per_day);
            effective.data_region = policy.data_region.clone().or(effective.data_region);
        }
        effective
    }

    /// The driver for a query: the same text always goes to the same arm
    /// (FNV-1a, 32 bits, modulo 100, below `pctB` is arm b).
    pub fn driver_for(&self, query: &str) -> &DriverRef {
        match &self.routing {
            Routing::One(name) => name,
            Routing::Split(test) => {
                let bucket = halofy_retrieval::fnv1a32(query.as_bytes()) % 100;
                if bucket < u32::from(test.pct_b) {
                    &test.b
                } else {
                    &test.a
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(json: &str) -> Policy {
        serde_json::from_str(json).expect("a policy")
    }

    #[test]
    fn the_nearest_namespace_wins_field_by_field() {
        let org = policy(r#"{"abTest":{"a":"x","b":"y","pctB":50},"tokenBudget":100}"#);
        let team = policy(r#"{"retriever":"z"}"#);
        let effective = EffectivePolicy::combine([&org, &team]);
        assert_eq!(effective.driver_for("anything").name.as_str(), "z");
        assert_eq!(effective.token_budget, 100);
        assert!(!effective.suspended);
    }

    #[test]
    fn an_overlay_keeps_what_it_does_not_mention() {
        let old = policy(r#"{"abTest":{"a":"x","b":"y","pctB":50},"suspended":true}"#);
        let newer = policy(r#"{"retriever":"z@2","tokenBudget":100}"#);
        let merged = old.overlaid(newer);
        let expected = r#"{"retriever":"z@2","tokenBudget":100,"suspended":true}"#;
        assert_eq!(merged, policy(expected));
    }

    #[test]
    fn a_suspended_tenant_cannot_be_revived_from_below() {
        let org = policy(r#"{"suspended":true}"#);
        let team = policy(r#"{"suspended":false}"#);
        assert!(EffectivePolicy::combine([&org, &team]).suspended);
    }

    #[test]
    fn a_split_is_stable_and_near_its_share() {
        let split = policy(r#"{"abTest":{"a":"x","b":"y","pctB":25}}"#);
        let effective = EffectivePolicy::combine([&split]);
        let queries: Vec<String> = (0..2_000).map(|n| format!("question {n}")).collect();
        let arm_b = |query: &&String| effective.driver_for(query).name.as_str() == "y";
        let share = queries.iter().filter(arm_b).count();
        assert!((400..=600).contains(&share), "{share} of 2000");
        assert_eq!(share, queries.iter().filter(arm_b).count());
    }

    #[test]
    fn nonsense_is_refused() {
        for json in [
            r#"{"abTest":{"a":"x","b":"y","pctB":101}}"#,
            r#"{"tokenBudget":0}"#,
            r#"{"rateLimit":{"perSecond":0,"burst":1}}"#,
        ] {
            assert!(policy(json).check().is_err(), "{json}");
        }
        for json in [r#"{"retreiver":"x"}"#, r#"{"retriever":"A b"}"#] {
            assert!(serde_json::from_str::<Policy>(json).is_err(), "{json}");
        }
    }
}
