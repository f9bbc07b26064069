//! The conformance kit: the checks that a cartridge passes before it is mounted. The six of
//! the driver kit run on a database of its own, through the same host and the same view as a
//! real call; five more run over corpora in memory as well.
//!
//! Not here: loading a cartridge, and how a report is shown or sent.

mod checks;
mod facts;
mod fixture;
mod further;
mod memory;
mod report;
mod watched;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use halofy_cartridge::{Cartridge, CartridgeHost, PlanFailure, PlanQuery, View};
use halofy_core::Invalid;
use halofy_store::StoreError;
use thiserror::Error;

pub use memory::MemoryView;
pub use report::{CHECKS, Check, FURTHER, Report};

use crate::embed::EmbedError;
use checks::{Call, K, TOKEN_BUDGET};
use facts::{CANARIES, FACTS};
use fixture::Fixture;
use watched::Watched;

/// Enough for every fact of the fixture: the budget is not what is checked.
const AMPLE_BUDGET: u32 = 2_000;
const LATENCY_CALLS: usize = 20;
const REPEATED_QUERIES: usize = 3;
/// Asked where there is nothing to find.
const EMPTY_QUERIES: [&str; 3] = ["Where is the sextant?", "?!", "🎉"];

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

/// Runs all checks on `cartridge`, which `host` has loaded. The fixture lives
/// in an embedded database in `dir`, which must be empty or missing and is left
/// for the caller to remove.
///
/// Takes the time of about seventy calls, plus the start of the database.
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
        graph_calls: Arc::default(),
    };
    let report = bench.report().await;
    fixture.close().await;
    report
}

/// One cartridge over one fixture.
struct Bench<'b> {
    host: &'b CartridgeHost,
    cartridge: &'b Cartridge,
    fixture: &'b Fixture,
    /// How often the entity graph was used, in all calls.
    graph_calls: Arc<AtomicU64>,
}

impl Bench<'_> {
    async fn report(&self) -> Result<Report, ConformanceError> {
        let planted: Vec<&str> = FACTS.iter().map(|(_, question)| *question).collect();
        let hidden: Vec<&str> = CANARIES.iter().map(|(_, question)| *question).collect();
        let all = [planted.as_slice(), &hidden].concat();
        let asked = self.ask(&all, AMPLE_BUDGET).await?;
        let cycle: Vec<&str> = planted
            .iter()
            .copied()
            .cycle()
            .take(LATENCY_CALLS)
            .collect();
        let timed = self.ask(&cycle, AMPLE_BUDGET).await?;
        let everything = facts::questions_for_everything();
        let everything: Vec<&str> = everything.iter().map(String::as_str).collect();
        let bounded = self.ask(&everything, TOKEN_BUDGET).await?;
        let first = &planted[..REPEATED_QUERIES];
        let once = self.ask(first, AMPLE_BUDGET).await?;
        let again = self.ask(first, AMPLE_BUDGET).await?;
        let checks = vec![
            checks::finds_planted_fact(&asked[..FACTS.len()]),
            checks::respects_scoped_view(&asked),
            checks::latency_envelope(&timed),
            checks::budget_discipline(&bounded),
            checks::read_only(),
            checks::deterministic_k(&once, &again),
        ];
        let six = [asked, timed, bounded, once, again].concat();
        let further = self.further(six).await?;
        Ok(Report::new(self.cartridge.name(), checks, further))
    }

    /// The checks beyond the six, whose `calls` are evidence for some of them too.
    async fn further(&self, mut calls: Vec<Call>) -> Result<Vec<Check>, ConformanceError> {
        let large = self.large_corpus().await?;
        let empty = self
            .ask_in_memory(MemoryView::of([""; 0]), &EMPTY_QUERIES)
            .await?;
        let scripts = MemoryView::of(further::SCRIPTS);
        let unicode = self.ask_in_memory(scripts, &further::SCRIPTS).await?;
        let limits = further::limits_respected(&large, self.host.limits());
        let empty_corpus = further::empty_corpus(&empty);
        let unicode_check = further::unicode(&unicode);
        calls.extend([large, empty, unicode].concat());
        let declared = self.host.capabilities(self.cartridge).await;
        if let Err(failure) = &declared
            && !failure.is_cartridge_fault()
        {
            return Err(failure.clone().into());
        }
        let graph_calls = self.graph_calls.load(Ordering::Relaxed);
        Ok(vec![
            limits,
            further::no_duplicate_refs(calls.iter()),
            empty_corpus,
            unicode_check,
            further::honest_capabilities(&declared, graph_calls, calls.len()),
        ])
    }

    /// Nothing, one and many results asked of many long memories.
    async fn large_corpus(&self) -> Result<Vec<Call>, ConformanceError> {
        let long = |number: usize| {
            let (fact, _) = FACTS[number % FACTS.len()];
            format!("{number} {}", format!("{fact} ").repeat(26))
        };
        let view = MemoryView::of((0..further::MANY).map(long));
        let mut calls = Vec::new();
        for k in [0, 1, further::MANY_K] {
            let query = PlanQuery {
                text: FACTS[0].1.into(),
                token_budget: u32::MAX,
                k,
            };
            calls.push(self.plan(view.clone(), query).await?);
        }
        Ok(calls)
    }

    async fn ask_in_memory(
        &self,
        view: Arc<MemoryView>,
        queries: &[&str],
    ) -> Result<Vec<Call>, ConformanceError> {
        let mut calls = Vec::new();
        for text in queries {
            let query = PlanQuery {
                text: (*text).into(),
                token_budget: AMPLE_BUDGET,
                k: K,
            };
            calls.push(self.plan(view.clone(), query).await?);
        }
        Ok(calls)
    }

    async fn ask(
        &self,
        questions: &[&str],
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
        let call = self.plan(view.clone(), query).await?;
        if view.store_failed() || view.embedder_failed() {
            let why = "the view did not answer".to_owned();
            return Err(PlanFailure::Host(why).into());
        }
        Ok(call)
    }

    async fn plan(&self, view: Arc<dyn View>, query: PlanQuery) -> Result<Call, ConformanceError> {
        let view = Watched::over(view, &self.graph_calls);
        let began = std::time::Instant::now();
        let planned = self.host.plan(self.cartridge, view, query).await;
        let took = began.elapsed();
        match planned {
            Err(failure) if !failure.is_cartridge_fault() => Err(failure.into()),
            outcome => Ok(Call { outcome, took }),
        }
    }
}
