//! Shadow runs: a second driver ranks the same query beside the one that serves. Its
//! answer is compared, counted and logged, and never served.

use std::collections::HashSet;
use std::sync::Arc;

use halofy_audit::{Detail, Outcome};
use halofy_cartridge::PlanQuery;
use halofy_core::{DriverRef, EffectivePolicy};
use tokio::sync::Semaphore;

use crate::answer::SearchAnswer;
use crate::audit::{Ending, Trail};
use crate::driven::{Ran, run};
use crate::gate::Gate;
use crate::metrics;
use crate::view::{Sight, StoreView};

/// Shadow runs at the same time; beyond, they are left out and counted.
const MOST: usize = 4;

/// Places for shadow runs.
#[derive(Debug, Clone)]
pub(crate) struct Shadows(Arc<Semaphore>);

impl Default for Shadows {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST)))
    }
}

impl Gate {
    /// Starts the shadow run that policy asks for, if any. Costs the caller nothing.
    pub(crate) fn shadow(
        &self,
        sight: &Sight,
        policy: &EffectivePolicy,
        query: &PlanQuery,
        served: &SearchAnswer,
    ) {
        let Some(wanted) = policy.shadow.clone() else {
            return;
        };
        let Ok(place) = self.shadows.0.clone().try_acquire_owned() else {
            return metrics::shadow_skipped();
        };
        let driver = self.registry.resolve(&wanted, policy.allow_unsigned);
        let (store, embedder) = (self.store.clone(), self.embedder.clone());
        let (host, appender) = (self.host.clone(), self.appender());
        let (sight, query) = (sight.clone(), query.clone());
        let (beside, order) = (served.driver.clone(), refs(served));
        self.track(async move {
            let outcome = match driver {
                Err(reason) => Err(reason),
                Ok(driver) => {
                    let view = StoreView::new(store, embedder, sight.clone());
                    let Ran { outcome, stats } = run(&host, &driver, view, query).await;
                    metrics::driver_ran(&driver, &stats, host.free_places());
                    let plan = outcome.map_err(|broken| broken.reason);
                    plan.map(|plan| (SearchAnswer::of_plan(&plan, &driver), stats.total))
                }
            };
            let detail = Detail::new()
                .field("driver", beside)
                .field("shadow", &wanted);
            let ending = compared(&wanted, &order, outcome, detail);
            let row = Trail::kernel("shadow", sight.scope.own().as_str()).seal(&ending);
            if let Err(error) = appender.append(row).await {
                tracing::warn!(%error, "a shadow run is not in the audit log");
            }
            drop(place);
        });
    }
}

fn refs(answer: &SearchAnswer) -> Vec<String> {
    let hits = answer.results.iter();
    hits.map(|hit| hit.reference.clone()).collect()
}

fn compared(
    wanted: &DriverRef,
    served: &[String],
    outcome: Result<(SearchAnswer, std::time::Duration), &'static str>,
    detail: Detail,
) -> Ending {
    match outcome {
        Err(reason) => {
            metrics::shadow_failed(reason);
            Ending {
                result: Outcome::Error,
                detail: detail.field("reason", reason),
            }
        }
        Ok((answer, took)) => {
            let order = refs(&answer);
            let share = overlap(served, &order);
            metrics::shadow_ran(wanted.name.as_str(), share);
            let detail = detail
                .field("returned", order.len())
                .field("overlap_pct", (share * 100.0).round())
                .field("same_order", order == served)
                .field("micros", took.as_micros());
            Ending::ok(detail)
        }
    }
}

/// What the two have in common, of the longer one: 1 when both are empty.
fn overlap(a: &[String], b: &[String]) -> f64 {
    let most = a.len().max(b.len());
    if most == 0 {
        return 1.0;
    }
    let known: HashSet<&String> = a.iter().collect();
    let common = b.iter().filter(|other| known.contains(other)).count();
    common as f64 / most as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_is_the_share_of_the_longer_answer() {
        let refs = |text: &str| text.chars().map(String::from).collect::<Vec<_>>();
        assert_eq!(overlap(&refs("abcd"), &refs("dcxy")), 0.5);
        assert_eq!(overlap(&refs("ab"), &refs("abcd")), 0.5);
        assert_eq!(overlap(&[], &[]), 1.0);
    }
}
