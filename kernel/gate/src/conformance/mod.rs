//! The conformance kit: six checks that a cartridge passes before it is mounted, on
//! a database of its own, through the same host and the same view as a real call.
//!
//! Not here: loading a cartridge, and how a report is shown or sent.

mod checks;
mod facts;
mod fixture;
mod report;

use std::path::Path;
use std::sync::Arc;

use halofy_cartridge::{Cartridge, CartridgeHost, PlanFailure, PlanQuery, View};
use halofy_core::Invalid;
use halofy_store::StoreError;
use thiserror::Error;

pub use report::{CHECKS, Check, Report};

use crate::embed::EmbedError;
use checks::{Call, K, TOKEN_BUDGET};
use facts::{CANARIES, FACTS};
use fixture::Fixture;

/// Enough for every fact of the fixture: the budget is not what is checked.
const AMPLE_BUDGET: u32 = 2_000;
const LATENCY_CALLS: usize = 20;
const REPEATED_QUERIES: usize = 3;

/// Why there is no verdict. None of these says anything about the cartridge.
#[derive(Debug, Error)]
pub enum ConformanceError {
    /// The database of the fixture failed.
    #[error("the fixture's database failed: {0}")]
    Store(#[from] StoreError),
    /// The fixture was not embedded.
    #[error("the fixture could not be embedded: {0}")]
    Embed(#[from] EmbedError),
    /// The fixture does not fit the rules for memories.
    #[error("the fixture breaks a rule: {0}")]
    Rule(#[from] Invalid),
    /// The fixture would not show what the checks are about.
    #[error("the fixture is not as planted: {0}")]
    Fixture(String),
    /// The host or the view failed during a call.
    #[error("a call failed on the kernel's side: {0}")]
    Host(#[from] PlanFailure),
}

/// Runs the six checks on `cartridge`, which `host` has loaded. The fixture lives
/// in an embedded database in `dir`, which must be empty or missing and is left
/// for the caller to remove.
///
/// Takes the time of about fifty calls, plus the start of the database.
///
/// # Errors
/// [`ConformanceError`] when something other than the cartridge failed.
pub async fn run(
    host: &CartridgeHost,
    cartridge: &Cartridge,
    dir: &Path,
) -> Result<Report, ConformanceError> {
    let fixture = Fixture::plant(dir).await?;
    let bench = Bench {
        host,
        cartridge,
        fixture: &fixture,
    };
    let checks = bench.checks().await;
    fixture.close().await;
    Ok(Report::new(cartridge.name(), checks?))
}

/// One cartridge over one fixture.
struct Bench<'b> {
    host: &'b CartridgeHost,
    cartridge: &'b Cartridge,
    fixture: &'b Fixture,
}

impl Bench<'_> {
    async fn checks(&self) -> Result<Vec<Check>, ConformanceError> {
        let planted: Vec<&str> = FACTS.iter().map(|(_, question)| *question).collect();
        let hidden = CANARIES.iter().map(|(_, question)| *question);
        let asked = self
            .ask(planted.iter().copied().chain(hidden), AMPLE_BUDGET)
            .await?;
        let cycle = planted.iter().copied().cycle().take(LATENCY_CALLS);
        let timed = self.ask(cycle, AMPLE_BUDGET).await?;
        let everything = facts::questions_for_everything();
        let bounded = self
            .ask(everything.iter().map(String::as_str), TOKEN_BUDGET)
            .await?;
        let first = planted[..REPEATED_QUERIES].iter().copied();
        let once = self.ask(first.clone(), AMPLE_BUDGET).await?;
        let again = self.ask(first, AMPLE_BUDGET).await?;
        Ok(vec![
            checks::finds_planted_fact(&asked[..FACTS.len()]),
            checks::respects_scoped_view(&asked),
            checks::latency_envelope(&timed),
            checks::budget_discipline(&bounded),
            checks::read_only(),
            checks::deterministic_k(&once, &again),
        ])
    }

    async fn ask<'q>(
        &self,
        questions: impl IntoIterator<Item = &'q str>,
        token_budget: u32,
    ) -> Result<Vec<Call>, ConformanceError> {
        let mut calls = Vec::new();
        for question in questions {
            calls.push(self.call(question, token_budget).await?);
        }
        Ok(calls)
    }

    async fn call(&self, question: &str, token_budget: u32) -> Result<Call, ConformanceError> {
        let view = self.fixture.view();
        let query = PlanQuery {
            text: question.into(),
            token_budget,
            k: K,
        };
        let began = std::time::Instant::now();
        let planned = self
            .host
            .plan(self.cartridge, view.clone() as Arc<dyn View>, query)
            .await;
        let took = began.elapsed();
        if view.store_failed() || view.embedder_failed() {
            let why = "the view did not answer".to_owned();
            return Err(PlanFailure::Host(why).into());
        }
        match planned {
            Err(failure) if !failure.is_cartridge_fault() => Err(failure.into()),
            outcome => Ok(Call { outcome, took }),
        }
    }
}
