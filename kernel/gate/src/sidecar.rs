//! The driver of an engine out of process: asks a sidecar to rank what one caller's view
//! shows, and takes nothing from it but an order. Which rows are sent is decided in
//! `candidates`, what leaves the process in `exchange`, what is believed in `settle`.
//!
//! Not here: who may call, the fall-back to the baseline, the audit row.

mod candidates;
mod error;
mod exchange;
#[cfg(test)]
mod exchange_tests;
#[cfg(test)]
mod facts_view;
#[cfg(test)]
mod mem0_tests;
#[cfg(test)]
mod scripted_sidecar;
mod settle;
#[cfg(test)]
mod tests;

use std::time::Instant;

use halofy_cartridge::{CallStats, Plan, PlanQuery, View};
use halofy_core::{DEFAULT_DRIVER, DriverName};
use ulid::Ulid;

pub use error::{SidecarError, SidecarFailure};

use candidates::candidates_to_send;
use exchange::{Endpoint, PlanRequest};
use settle::{Sent, settle};

/// An engine behind HTTP, under the name by which policy selects it.
///
/// Holds the operator's URL and a pool of connections; nothing of one call outlives it.
#[derive(Debug)]
pub struct Sidecar {
    name: DriverName,
    endpoint: Endpoint,
}

impl Sidecar {
    /// A sidecar at `url`, an http or https address that `/plan` and `/healthz` are
    /// appended to. A user and password in it are sent as basic authentication and never
    /// shown. Opens no connection: whether something answers there is [`health`]'s to say.
    ///
    /// Invariant: the URL comes from the operator's configuration, never from a tenant.
    ///
    /// # Errors
    /// [`SidecarError`] without a usable URL, so that an engine that could never serve is
    /// never mounted; and for the name of the driver that stands in for the others.
    ///
    /// [`health`]: Self::health
    pub fn new(name: DriverName, url: Option<&str>) -> Result<Self, SidecarError> {
        if name.as_str() == DEFAULT_DRIVER {
            return Err(SidecarError::ReservedName);
        }
        let url = url.map(str::trim).filter(|url| !url.is_empty());
        let endpoint = Endpoint::new(url.ok_or(SidecarError::NoUrl)?)?;
        Ok(Self { name, endpoint })
    }

    /// The name that policy selects it by.
    pub fn name(&self) -> &DriverName {
        &self.name
    }

    /// Ranks what `view` shows, at most 200 rows of it. Takes at most two attempts of
    /// 1.5 s each, and what the view takes.
    ///
    /// The hits are best first, ties in the order in which the rows were sent, with the
    /// view's own content, at most `query.k`, within the token budget but for the top
    /// one. Refs that were not sent, refs that come again and scores that are not finite
    /// are dropped, counted in the plan's stats, and logged. Without a row to rank, or
    /// with `k` 0, nothing is sent.
    ///
    /// # Errors
    /// [`SidecarFailure`], after which the baseline may serve; its
    /// [`reason`](SidecarFailure::reason) is for the audit line.
    pub async fn plan(&self, view: &dyn View, query: &PlanQuery) -> Result<Plan, SidecarFailure> {
        let started = Instant::now();
        let mut stats = CallStats::default();
        let mut hits = Vec::new();
        if query.k > 0 {
            let rows = candidates_to_send(view, &query.text, &mut stats).await?;
            if !rows.is_empty() {
                // New in every plan, so that a ref of another one is a stranger here.
                let sent = Sent::new(&Ulid::generate().to_string(), rows);
                let answer = self.endpoint.plan(&request(&sent, query)).await?;
                hits = settle(&answer, &sent, query, &mut stats);
            }
        }
        self.report(&stats);
        stats.total = started.elapsed();
        Ok(Plan { hits, stats })
    }

    /// Asks `/healthz` once, for at most 1.5 s: the mode that the sidecar says it runs in.
    ///
    /// # Errors
    /// [`SidecarFailure`] when it does not answer, or does not say that it is well.
    pub async fn health(&self) -> Result<String, SidecarFailure> {
        let health = self.endpoint.health().await?;
        match health.ok {
            true => Ok(health.mode),
            false => Err(SidecarFailure::Unwell),
        }
    }

    fn report(&self, stats: &CallStats) {
        if stats.violations() > 0 {
            tracing::warn!(
                driver = self.name.as_str(),
                unknown = stats.dropped_unknown,
                duplicate = stats.dropped_duplicate,
                nonfinite = stats.dropped_nonfinite,
                "a sidecar's refs were dropped"
            );
        }
    }
}

fn request<'a>(sent: &'a Sent, query: &'a PlanQuery) -> PlanRequest<'a> {
    PlanRequest {
        id: sent.id(),
        query: &query.text,
        candidates: sent.candidates(),
        budget: query.token_budget,
        k: query.k,
    }
}
