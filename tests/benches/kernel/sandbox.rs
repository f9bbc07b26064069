//! The sandbox against native code: a fresh instance, and the baseline's `plan`
//! over the same 500 candidates, lifting included.

use std::sync::Arc;
use std::time::Instant;

use halofy::boot::{BASELINE, Mounted, mount};
use halofy_cartridge::{Overrides, PlanQuery, Row, RowId, View, ViewFuture};
use halofy_driver::{Candidate, EntityFact, Query, ScopedView, ScoredCandidate, ViewError};

use halofy_tests::compiler;

use crate::corpus::Corpus;
use crate::p50_us;

const CANDIDATES: usize = 500;
const ROUNDS: usize = 2_000;
const K: u32 = 30;

/// The same rows for both sides.
struct Fixed {
    texts: Vec<Arc<str>>,
    namespace: Arc<str>,
}

impl Fixed {
    fn new(corpus: &Corpus) -> Self {
        let all = corpus.conversations.iter().flat_map(|(_, texts, _)| texts);
        let texts: Vec<Arc<str>> = all
            .take(CANDIDATES)
            .map(|text| text.as_str().into())
            .collect();
        assert_eq!(texts.len(), CANDIDATES, "the corpus is too small");
        Self {
            texts,
            namespace: "bench".into(),
        }
    }

    fn characters(&self) -> usize {
        self.texts
            .iter()
            .map(|text| text.chars().count())
            .sum::<usize>()
            / self.texts.len()
    }

    fn row(&self, at: usize) -> Row {
        Row {
            id: RowId::Memory(at as u128),
            content: self.texts[at].clone(),
            namespace: self.namespace.clone(),
        }
    }

    fn near(&self, k: usize) -> impl Iterator<Item = (usize, f64)> + use<> {
        let n = self.texts.len();
        (0..k.min(n)).map(move |at| ((at * 7) % n, 1.0 - at as f64 / 1_000.0))
    }
}

impl View for Fixed {
    fn namespace(&self) -> &str {
        "bench"
    }
    fn dimensions(&self) -> Option<usize> {
        Some(256)
    }
    fn candidates(&self, limit: usize) -> ViewFuture<'_, Vec<Row>> {
        let rows = (0..self.texts.len().min(limit))
            .map(|at| self.row(at))
            .collect();
        Box::pin(std::future::ready(Ok(rows)))
    }
    fn lexical_candidates(&self, _: String, _: usize) -> ViewFuture<'_, Vec<Row>> {
        View::candidates(self, CANDIDATES)
    }
    fn vector_search(&self, _: Vec<f32>, k: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        let rows = self
            .near(k)
            .map(|(at, score)| (self.row(at), score))
            .collect();
        Box::pin(std::future::ready(Ok(rows)))
    }
    fn embed(&self, texts: Vec<String>) -> ViewFuture<'_, Vec<Vec<f32>>> {
        Box::pin(std::future::ready(Ok(vec![vec![0.0625; 256]; texts.len()])))
    }
    fn concepts(&self, _: String, _: usize) -> ViewFuture<'_, Vec<(Row, f64)>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
    fn entity_facts(&self, _: String, _: u8) -> ViewFuture<'_, Vec<(Row, Arc<str>)>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// The handles are the places of the rows, so nothing has to be admitted natively.
impl ScopedView for Fixed {
    fn namespace(&self) -> String {
        "bench".to_owned()
    }
    fn candidates(&self, limit: u32) -> Result<Vec<Candidate>, ViewError> {
        let texts = self.texts.iter().take(limit as usize).enumerate();
        Ok(texts
            .map(|(at, text)| Candidate {
                handle: at as u32,
                content: text.to_string(),
            })
            .collect())
    }
    fn lexical_candidates(&self, _: &str, _: u32) -> Result<Vec<Candidate>, ViewError> {
        ScopedView::candidates(self, CANDIDATES as u32)
    }
    fn vector_search(&self, _: &[f32], k: u32) -> Result<Vec<ScoredCandidate>, ViewError> {
        let near = self.near(k as usize);
        Ok(near
            .map(|(at, score)| ScoredCandidate {
                handle: at as u32,
                content: self.texts[at].to_string(),
                score,
            })
            .collect())
    }
    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, ViewError> {
        Ok(vec![vec![0.0625; 256]; texts.len()])
    }
    fn concepts(&self, _: &str, _: u32) -> Result<Vec<ScoredCandidate>, ViewError> {
        Ok(Vec::new())
    }
    fn entity_facts(&self, _: &str, _: u8) -> Result<Vec<EntityFact>, ViewError> {
        Ok(Vec::new())
    }
}

pub(crate) async fn run(corpus: &Corpus) {
    let (_, _, questions) = &corpus.conversations[0];
    let question = questions[0].as_str();
    let mounted = mount(&[] as &[&str], &Overrides::default(), compiler()).await;
    let mounted = mounted.expect("the baseline mounts");
    let Mounted { host, baseline, .. } = mounted;
    let view = Arc::new(Fixed::new(corpus));
    let plan = PlanQuery {
        text: question.into(),
        token_budget: 3_000,
        k: K,
    };
    let query = Query {
        text: question.to_owned(),
        token_budget: 3_000,
        k: K,
    };
    let (mut fresh, mut wasm, mut native) = (Vec::new(), Vec::new(), Vec::new());
    // Interleaved, so that a noisy moment hits both sides.
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let answer = host
            .plan(&baseline, view.clone(), plan.clone())
            .await
            .expect("a plan");
        wasm.push(began.elapsed());
        fresh.push(answer.stats.instantiate);
        let began = Instant::now();
        let hits = halofy_baseline::plan(&*view, &query).expect("a plan");
        native.push(began.elapsed());
        assert_eq!(answer.hits.len(), hits.len(), "both sides rank alike");
    }
    let (fresh, wasm, native) = (p50_us(fresh), p50_us(wasm), p50_us(native));
    println!(
        "\nsandbox ({CANDIDATES} candidates of {} characters, k {K}, p50 of {ROUNDS} calls)",
        view.characters(),
    );
    println!("  fresh store and instance   {fresh:8.1} µs");
    println!("  plan() in the sandbox      {wasm:8.1} µs");
    println!("  plan() native              {native:8.1} µs");
    println!("  ratio                      {:8.2} x", wasm / native);
    let empty = PlanQuery { k: 0, ..plan };
    let (mut calls, mut fresh) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let began = Instant::now();
        let plan = host.plan(&baseline, view.clone(), empty.clone()).await;
        calls.push(began.elapsed());
        fresh.push(plan.expect("a plan").stats.instantiate);
    }
    println!("  a call that ranks nothing  {:8.1} µs", p50_us(calls));
    println!("  of it, store and instance  {:8.1} µs", p50_us(fresh));
    println!("  loading a cached cartridge {:8.1} µs", cached().await);
}

/// Loading the baseline's code from the cache, signature aside: p50.
async fn cached() -> f64 {
    let mounted = mount(&[] as &[&str], &Overrides::default(), compiler()).await;
    let mounted = mounted.expect("the baseline mounts");
    let mut times = Vec::new();
    for _ in 0..50 {
        let began = Instant::now();
        let loaded = mounted
            .host
            .load_untrusted(BASELINE, "baseline", &mounted.compiler);
        loaded.await.expect("it is admitted");
        times.push(began.elapsed());
    }
    p50_us(times)
}
