//! Cartridges in Rust, C, JavaScript and Python, built here: the keyword engine in each, all
//! run over the same views and every answer compared to the bit; and that engines and
//! templates pass conformance. A language is tested where the
//! tool that `tests/cartridge-tools.sh` installs for it is named in the environment.

mod views;

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use halofy_build::{Builder, Language, template};
use halofy_cartridge::{Cartridge, CartridgeHost, Limits, PlanFailure, PlanQuery, RowId, View};
use halofy_gate::conformance::{self, MemoryView, Report};
use halofy_tests::compiler;
use views::{Arm, Scripted};

/// One folder for each language.
const ENGINES: [(&str, Language); 4] = [
    ("keyword", Language::Rust),
    ("keyword-c", Language::C),
    ("keyword-js", Language::JavaScript),
    ("keyword-python", Language::Python),
];

/// Their names and components; making one takes long.
static COMPONENTS: LazyLock<Vec<(&'static str, Vec<u8>)>> = LazyLock::new(|| {
    let drivers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../drivers");
    let here = ENGINES.iter().filter(|(_, language)| has_tool(*language));
    here.map(|(name, _)| (*name, built(&drivers.join(name), name)))
        .collect()
});

/// Whether the tool of a language was named. `tests/cartridge-tools.sh` installs them; on a
/// machine without, there is nothing to test.
fn has_tool(language: Language) -> bool {
    let named = |variable: &str| std::env::var_os(variable).is_some();
    let missing = language.tool_variable().filter(|variable| !named(variable));
    if let Some(variable) = missing {
        eprintln!("not tested: cartridges in {language}, since {variable} is not set");
    }
    missing.is_none()
}

/// The engines that can be built here.
pub(crate) async fn components() -> &'static [(&'static str, Vec<u8>)] {
    let building = tokio::task::spawn_blocking(|| COMPONENTS.as_slice());
    building.await.expect("they are built")
}

/// An interpreter of Python is larger than what a kernel takes unasked.
const LARGEST: usize = 24 << 20;

/// What a caller gets: rows in order, the bits of each score, tokens; and what was left out.
type Answer = Result<(Vec<(RowId, u64, u64)>, [u64; 5]), PlanFailure>;

struct Engines {
    host: CartridgeHost,
    engines: Vec<Cartridge>,
}

impl Engines {
    /// Builds and loads all that can be built here.
    async fn load() -> Self {
        let host = CartridgeHost::new(Limits {
            component: LARGEST,
            // None of this is about time.
            total_time: Duration::from_secs(60),
            import_time: Duration::from_secs(30),
            calls: 4,
            ..Limits::default()
        });
        let host = host.expect("the engine starts");
        let mut engines = Vec::new();
        for (name, component) in components().await {
            let loaded = host.load_untrusted(component, name, &compiler()).await;
            engines.push(loaded.expect("it is admitted"));
        }
        Self { engines, host }
    }

    async fn answer(&self, engine: &Cartridge, view: Arc<dyn View>, query: &PlanQuery) -> Answer {
        let plan = self.host.plan(engine, view, query.clone()).await?;
        let stats = &plan.stats;
        let left_out = [
            stats.dropped_unknown,
            stats.dropped_duplicate,
            stats.dropped_nonfinite,
            stats.over_k,
            stats.over_budget,
        ];
        let hits = plan.hits.into_iter();
        let hits = hits.map(|hit| (hit.row.id, hit.score.to_bits(), hit.token_estimate));
        Ok((hits.collect(), left_out))
    }

    /// Asks all four, and gives the answer on which they agree.
    async fn agreed(&self, view: &Arc<dyn View>, query: &PlanQuery) -> Answer {
        let first = self.answer(&self.engines[0], view.clone(), query).await;
        for other in &self.engines[1..] {
            let answer = self.answer(other, view.clone(), query).await;
            let head: String = query.text.chars().take(60).collect();
            let (k, budget) = (query.k, query.token_budget);
            let name = other.name();
            assert!(
                answer == first,
                "{name}, k {k}, budget {budget}, {head:?}: {}",
                difference(&first, &answer)
            );
        }
        first
    }

    /// As [`Self::agreed`], for an answer that keeps the contract without the host's help.
    async fn hits(&self, view: &Arc<dyn View>, query: &PlanQuery) -> Vec<(RowId, u64, u64)> {
        let (hits, left_out) = self.agreed(view, query).await.expect("they answer");
        assert_eq!(left_out, [0; 5]);
        hits
    }
}

/// The first place where two answers part, since whole answers are long.
fn difference(one: &Answer, other: &Answer) -> String {
    let (Ok((one, left_out)), Ok((other, other_left_out))) = (one, other) else {
        return format!("{one:?} and {other:?}");
    };
    let at = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    let lengths = (one.len(), other.len());
    let (one, other) = (one.get(at), other.get(at));
    format!("{lengths:?} hits, at {at} {one:?} and {other:?}; {left_out:?}, {other_left_out:?}")
}

/// What a folder builds, in a target directory of this name.
fn built(dir: &Path, name: &str) -> Vec<u8> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let built = Builder::new(dir).target_dir(target).build();
    built.unwrap_or_else(|error| panic!("{error}")).component
}

/// Runs every check, under the limits of a kernel except for the size of a component.
async fn conformance(component: Vec<u8>) -> Report {
    let host = CartridgeHost::new(Limits {
        component: LARGEST,
        calls: 4,
        ..Limits::default()
    });
    let host = host.expect("the engine starts");
    let loaded = host
        .load_untrusted(&component, "unnamed", &compiler())
        .await;
    let cartridge = loaded.expect("it is admitted");
    let scratch = tempfile::tempdir().expect("a temporary folder");
    let report = conformance::run(&host, &cartridge, &scratch.path().join("data")).await;
    report.expect("there is a verdict")
}

/// Writes the template of a language, changes its source, and builds it.
async fn templated(language: Language, name: &str, change: fn(&str) -> String) -> Vec<u8> {
    // Two builds at a time do not share a target directory, which has this name.
    let name = name.to_owned();
    let building = tokio::task::spawn_blocking(move || {
        let scratch = tempfile::tempdir().expect("a temporary folder");
        let dir = scratch.path().join(&name);
        let files = template::write(language, &name, &dir).expect("it is written");
        for file in files {
            let path = dir.join(file);
            let text = std::fs::read_to_string(&path).expect("a text");
            std::fs::write(&path, change(&text)).expect("it can be written");
        }
        built(&dir, &name)
    });
    building.await.expect("it is built")
}

#[tokio::test]
async fn the_engine_passes_every_check_in_every_language() {
    for (name, component) in components().await {
        let report = conformance(component.clone()).await;
        assert!(report.passed(), "{report}");
        assert_eq!(report.driver, *name);
    }
}

#[tokio::test]
async fn every_template_passes_every_check_as_it_is() {
    for language in Language::ALL.into_iter().filter(|one| has_tool(*one)) {
        let name = format!("new-{language}");
        let component = templated(language, &name, str::to_owned).await;
        let report = conformance(component).await;
        assert!(report.passed(), "{report}");
        assert_eq!(report.driver, name);
    }
}

#[tokio::test]
async fn a_cartridge_that_lies_about_the_graph_fails_that_check_alone() {
    if !has_tool(Language::C) {
        return;
    }
    let lie = |text: &str| text.replace(".graph = false", ".graph = true");
    let report = conformance(templated(Language::C, "liar", lie).await).await;
    assert!(!report.passed());
    let checks = report.checks.iter().chain(&report.further);
    let failed: Vec<_> = checks.filter(|check| !check.passed).collect();
    assert_eq!(failed.len(), 1, "{report}");
    assert_eq!(failed[0].name, "honest-capabilities");
    assert!(
        failed[0]
            .detail
            .starts_with("graph: true, yet entity-facts was called 0 times")
    );
}

fn query(text: &str, k: u32, token_budget: u32) -> PlanQuery {
    PlanQuery {
        text: text.into(),
        token_budget,
        k,
    }
}

#[tokio::test]
async fn four_languages_rank_alike_to_the_last_bit() {
    let engines = Engines::load().await;
    questions_over_a_corpus(&engines).await;
    texts_in_many_scripts(&engines).await;
    ties(&engines).await;
    nothing(&engines).await;
    long_texts(&engines).await;
    odd_scores(&engines).await;
    arms_that_fail(&engines).await;
}

async fn questions_over_a_corpus(engines: &Engines) {
    let view = MemoryView::corpus(400) as Arc<dyn View>;
    for question in MemoryView::questions() {
        for (k, budget) in [(1, 0), (3, 7), (10, 120), (10, 2_000), (200, u32::MAX)] {
            let hits = engines.hits(&view, &query(question, k, budget)).await;
            assert!(!hits.is_empty() && hits.len() <= k as usize);
        }
    }
    for k in [0, u32::MAX / 3, u32::MAX] {
        let hits = engines
            .hits(&view, &query("the brass sextant", k, 500))
            .await;
        assert_eq!(hits.is_empty(), k == 0);
    }
}

async fn texts_in_many_scripts(engines: &Engines) {
    let texts = [
        "Η γάτα κοιμάται, ΟΔΟΣ Οδός",
        "灯台守の田中さん 42 号",
        "حارس المنارة يصلح المصباح",
        "नाविक 7 कम्पास",
        "naïve cafe\u{301} café ﬁle Ｗｉｄｅ STRASSE straße",
        "\u{130}stanbul i\u{307}stanbul istanbul ıstanbul",
        "\u{212a}elvin kelvin \u{212a}9 k9 \u{2126} \u{212b}",
        "👩‍👩‍👧‍👦 🇦🇶 𝔘𝔫𝔦 𐍈 a\u{10ffff}b",
        "\u{202e}right\u{202c} zero\u{200b}width nul\u{0}byte tab\tnew\nline\u{2028}sep",
        "ŉ ǰ ΐ ﬀ ẞ Ǆ ǅ Σ ς",
    ];
    let view = MemoryView::of(texts) as Arc<dyn View>;
    for text in texts {
        let hits = engines.hits(&view, &query(text, 5, 2_000)).await;
        assert!(!hits.is_empty(), "{text}");
    }
    for text in [
        "kelvin K9",
        "i stanbul",
        "istanbul",
        "b a",
        "…",
        " ",
        "nul byte",
    ] {
        engines.hits(&view, &query(text, 5, 30)).await;
    }
}

async fn ties(engines: &Engines) {
    let view = MemoryView::of(["red big", "big red", "red big", "red", "red", "blue"].repeat(9));
    let view = view as Arc<dyn View>;
    for k in [1, 5, 17, 60] {
        let hits = engines.hits(&view, &query("big red", k, 2_000)).await;
        let scores = hits.iter().map(|(_, bits, _)| f64::from_bits(*bits));
        let distinct: std::collections::BTreeSet<u64> = scores.map(f64::to_bits).collect();
        assert!(k < 17 || distinct.len() < hits.len(), "there are ties");
    }
}

async fn nothing(engines: &Engines) {
    let view = MemoryView::of([""; 0]) as Arc<dyn View>;
    for text in ["anything", "?!", "🎉"] {
        assert!(engines.hits(&view, &query(text, 10, 100)).await.is_empty());
    }
    // Memories without a word, and a query without one.
    let view = MemoryView::of(["", "…", "  ", "word"]) as Arc<dyn View>;
    for text in ["word", "…", "!"] {
        engines.hits(&view, &query(text, 10, 100)).await;
    }
}

async fn long_texts(engines: &Engines) {
    let words = |from: usize, count: usize| {
        let word = |at: usize| format!("w{:x}", (from * 31 + at * 7919) % 5_003);
        (0..count).map(word).collect::<Vec<_>>().join(" ")
    };
    let texts = (0..120).map(|at| words(at, 20 + at * 6)).chain([
        words(1, 10_000),
        "x".repeat(60_000),
        "é".repeat(30_000),
    ]);
    let view = MemoryView::of(texts) as Arc<dyn View>;
    for (text, budget) in [
        (words(3, 9_000), u32::MAX),
        (words(5, 40), 3_000),
        ("x".repeat(60_000), 100),
    ] {
        let hits = engines.hits(&view, &query(&text, 50, budget)).await;
        assert!(!hits.is_empty());
    }
}

async fn odd_scores(engines: &Engines) {
    let scores = [
        0.1 + 0.2,
        1.0 / 3.0,
        -0.5,
        -0.0,
        f64::MIN_POSITIVE,
        1.0 - f64::EPSILON,
        f64::NAN,
        5e-324,
        0.7,
    ];
    // The second half repeats the rows of the first with other scores.
    let view = Arc::new(Scripted::new("alpha beta gamma", &scores)) as Arc<dyn View>;
    for text in [
        "alpha",
        "alpha beta delta",
        "nothing shared",
        "1 2 3 4 5 6 7",
    ] {
        engines.hits(&view, &query(text, 9, 2_000)).await;
    }
}

async fn arms_that_fail(engines: &Engines) {
    for arm in [Arm::Lexical, Arm::Embed, Arm::Vector] {
        let view = Arc::new(Scripted::broken(arm)) as Arc<dyn View>;
        let failure = engines.agreed(&view, &query("anything", 5, 100)).await;
        let why = PlanFailure::Unavailable("down, naïvely".to_owned());
        assert_eq!(failure, Err(why), "{arm:?}");
    }
}
