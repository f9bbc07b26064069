//! One driver over one caller's view: run it, count it, and say what may be tried when it
//! did not serve.

use std::sync::Arc;

use halofy_cartridge::{CallStats, CartridgeHost, Failed as PlanFailed, Plan, PlanFailure};
use halofy_cartridge::{PlanQuery, View};

use crate::answer::{Attempt, EMBEDDING_UNAVAILABLE, SearchAnswer};
use crate::drivers::{Driver, Engine};
use crate::gate::Gate;
use crate::view::{Sight, StoreView};
use crate::{Refusal, metrics};

/// Why a driver did not serve, and what may be tried instead.
pub(crate) enum Failed {
    /// Another driver may do better.
    Driver(&'static str),
    /// The vector arm is missing, for every driver.
    Embedder,
    /// Nothing can be served.
    Call(Refusal),
}

/// What one run came to.
pub(crate) struct Ran {
    pub(crate) outcome: Result<Plan, Broken>,
    pub(crate) stats: CallStats,
}

/// A run without a plan.
pub(crate) struct Broken {
    pub(crate) reason: &'static str,
    /// Whether it counts against the driver.
    pub(crate) is_fault: bool,
    overloaded: bool,
}

/// Runs a driver, whichever its engine is.
pub(crate) async fn run(
    host: &CartridgeHost,
    driver: &Driver,
    view: Arc<StoreView>,
    query: PlanQuery,
) -> Ran {
    match &driver.engine {
        Engine::Cartridge(cartridge) => {
            let planned = host.plan_measured(cartridge, view as Arc<dyn View>, query);
            match planned.await {
                Ok(plan) => Ran {
                    stats: plan.stats,
                    outcome: something_left(plan),
                },
                Err(PlanFailed { failure, stats }) => {
                    tracing::warn!(driver = %driver.name, %failure, "a driver failed");
                    let broken = Broken {
                        reason: failure.reason(),
                        is_fault: failure.is_cartridge_fault(),
                        overloaded: failure == PlanFailure::Overloaded,
                    };
                    Ran {
                        outcome: Err(broken),
                        stats,
                    }
                }
            }
        }
        Engine::Sidecar(sidecar) => match sidecar.plan(&*view, &query).await {
            Ok(plan) => Ran {
                stats: plan.stats,
                outcome: something_left(plan),
            },
            Err(failure) => {
                tracing::warn!(driver = %driver.name, %failure, "a sidecar failed");
                let broken = Broken {
                    reason: failure.reason(),
                    is_fault: failure.is_sidecar_fault(),
                    overloaded: false,
                };
                Ran {
                    outcome: Err(broken),
                    stats: CallStats::default(),
                }
            }
        },
    }
}

/// A plan of which nothing keeps the contract is none: the caller would get an empty answer
/// for memories that are there.
fn something_left(plan: Plan) -> Result<Plan, Broken> {
    if !plan.hits.is_empty() || plan.stats.violations() == 0 {
        return Ok(plan);
    }
    Err(Broken {
        reason: "invalid_result",
        is_fault: true,
        overloaded: false,
    })
}

impl Gate {
    /// Ranks with one driver; what it did is added to `attempts`.
    pub(crate) async fn plan(
        &self,
        driver: &Driver,
        sight: &Sight,
        query: &PlanQuery,
        attempts: &mut Vec<Attempt>,
    ) -> Result<SearchAnswer, Failed> {
        let (store, embedder) = (self.store.clone(), self.embedder.clone());
        let view = StoreView::new(store, embedder, sight.clone());
        let Ran { outcome, stats } = run(&self.host, driver, view.clone(), query.clone()).await;
        let label = match &outcome {
            Ok(_) => "served",
            Err(broken) => broken.reason,
        };
        metrics::driver_ran(driver, &stats, self.host.free_places());
        attempts.push(Attempt::new(driver, label, &stats));
        if view.store_failed() {
            return Err(Failed::Call(Refusal::Unavailable {
                what: "store",
                why: "an arm of the view failed".to_owned(),
            }));
        }
        let faulty = match &outcome {
            Ok(plan) => plan.stats.violations() > 0,
            Err(broken) => broken.is_fault && !view.embedder_failed(),
        };
        self.count(driver, faulty, label).await;
        match outcome {
            Ok(plan) => {
                let mut answer = SearchAnswer::of_plan(&plan, driver);
                answer.degraded = view.embedder_failed().then_some(EMBEDDING_UNAVAILABLE);
                Ok(answer)
            }
            Err(broken) if broken.overloaded => Err(Failed::Call(Refusal::Overloaded)),
            Err(_) if view.embedder_failed() => Err(Failed::Embedder),
            Err(broken) => Err(Failed::Driver(broken.reason)),
        }
    }

    /// The baseline is never taken out: there is nothing behind it.
    async fn count(&self, driver: &Driver, faulty: bool, last: &'static str) {
        if driver.is_baseline() {
            return;
        }
        if let Some(tripped) = driver.faults.count(faulty) {
            let (faults, calls) = (tripped.faults, tripped.calls);
            let why = format!("{faults} of {calls} calls failed within a minute, the last: {last}");
            self.quarantine_by_itself(driver, why).await;
        }
    }
}
