//! A view over a fixed list of rows, and the host that the tests share.

use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use halofy_cartridge::{
    Cartridge, CartridgeHost, Limits, Plan, PlanFailure, PlanQuery, Row, RowId, View, ViewFailure,
    ViewFuture,
};

/// How the view behaves when it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It answers.
    Well,
    /// It never answers.
    Hanging,
    /// It panics while it is asked.
    Panicking,
    /// It panics after it was asked.
    PanickingLater,
    /// It says that it is unavailable.
    Down,
}

/// Rows of one caller. Vector search gives them in order with falling scores.
#[derive(Debug)]
pub(crate) struct MemoryView {
    pub(crate) rows: Vec<Row>,
    pub(crate) mood: Mood,
    pub(crate) asked: AtomicU64,
    pub(crate) largest_limit: AtomicU64,
}

impl MemoryView {
    pub(crate) fn of(contents: &[&str]) -> Arc<Self> {
        Arc::new(Self::new(contents, Mood::Well))
    }

    pub(crate) fn in_mood(mood: Mood) -> Arc<Self> {
        Arc::new(Self::new(&["one", "two", "three"], mood))
    }

    fn new(contents: &[&str], mood: Mood) -> Self {
        let rows = contents.iter().enumerate().map(|(i, content)| Row {
            id: RowId::Memory(i as u128 + 1000),
            content: Arc::from(*content),
            namespace: Arc::from("acme/eng"),
        });
        Self {
            rows: rows.collect(),
            mood,
            asked: AtomicU64::new(0),
            largest_limit: AtomicU64::new(0),
        }
    }

    fn answer<T: Send + 'static>(&self, limit: usize, answer: T) -> ViewFuture<'_, T> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.largest_limit
            .fetch_max(limit as u64, Ordering::Relaxed);
        match self.mood {
            Mood::Well => Box::pin(ready(Ok(answer))),
            Mood::Hanging => Box::pin(pending()),
            Mood::Panicking => panic!("the view is broken"),
            Mood::PanickingLater => Box::pin(async { panic!("the view is broken") }),
            Mood::Down => Box::pin(ready(Err(ViewFailure::Unavailable("down".to_owned())))),
        }
    }

    fn first(&self, limit: usize) -> Vec<Row> {
        self.rows.iter().take(limit).cloned().collect()
    }

    fn scored(&self, limit: usize) -> Vec<(Row, f64)> {
        let rows = self.first(limit).into_iter().enumerate();
        rows.map(|(i, row)| (row, 1.0 / (i as f64 + 1.0))).collect()
    }
}

impl View for MemoryView {
    fn namespace(&self) -> &str {
        assert!(self.mood != Mood::Panicking, "the view is broken");
        "acme/eng"
    }
    fn dimensions(&self) -> Option<usize> {
        Some(2)
    }
    fn candidates(&self, limit: usize) -> ViewFuture<'_, Vec<Row>> {
        self.answer(limit, self.first(limit))
    }
    fn lexical_candidates(&self, _: String, limit: usize) -> ViewFuture<'_, Vec<Row>> {
        self.answer(limit, self.first(limit))
    }
    fn vector_search(&self, _: Vec<f32>, k: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        self.answer(k, self.scored(k))
    }
    fn embed(&self, texts: Vec<String>) -> ViewFuture<'_, Vec<Vec<f32>>> {
        self.answer(texts.len(), texts.iter().map(|_| vec![1.0, 0.0]).collect())
    }
    fn concepts(&self, _: String, k: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        self.answer(k, Vec::new())
    }
    fn entity_facts(&self, _: String, _: u8) -> ViewFuture<'_, Vec<(Row, Arc<str>)>> {
        let facts = self.first(2).into_iter();
        self.answer(0, facts.map(|row| (row, Arc::from("Ada"))).collect())
    }
}

/// Limits that make hostile tests short.
pub(crate) fn short() -> Limits {
    Limits {
        total_time: Duration::from_millis(250),
        import_time: Duration::from_millis(60),
        calls: 8,
        ..Limits::default()
    }
}

pub(crate) fn host() -> CartridgeHost {
    CartridgeHost::new(short()).unwrap()
}

pub(crate) fn query(k: u32, token_budget: u32) -> PlanQuery {
    PlanQuery {
        text: Arc::from("who knows"),
        token_budget,
        k,
    }
}

/// A host with one cartridge.
pub(crate) struct Bench {
    pub(crate) host: CartridgeHost,
    pub(crate) cartridge: Cartridge,
}

impl Bench {
    pub(crate) fn new(component: &[u8]) -> Self {
        Self::with(short(), component)
    }

    pub(crate) fn with(limits: Limits, component: &[u8]) -> Self {
        let host = CartridgeHost::new(limits).unwrap();
        let cartridge = host.load(component, "probe").unwrap();
        Self { host, cartridge }
    }

    pub(crate) async fn plan(&self, view: Arc<dyn View>) -> Result<Plan, PlanFailure> {
        self.host.plan(&self.cartridge, view, query(10, 1000)).await
    }

    /// What the component does over three small rows.
    pub(crate) async fn run(&self) -> Result<Plan, PlanFailure> {
        self.plan(MemoryView::of(&["one", "two", "three"])).await
    }
}
