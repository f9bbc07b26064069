//! The reference sidecar of `drivers/mem0`, run for real where `HALOFY_MEM0_PYTHON` names
//! a python that has its requirements (`tests/mem0-sidecar.sh` makes one).

use std::process::Stdio;
use std::time::Duration;

use halofy_core::DriverName;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::Sidecar;
use super::candidates::MAX_CANDIDATES;
use super::facts_view::{FactsView, query};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../drivers/mem0");
/// Importing mem0 on a busy machine.
const START: Duration = Duration::from_secs(60);

/// Facts, each with a question that shares little more than a name with it.
const FACTS: [(&str, &str); 5] = [
    (
        "Marisol keeps her accordion in the cedar attic",
        "Where does Marisol store the accordion?",
    ),
    (
        "The zephyr booster burns methalox",
        "Which fuel does the zephyr booster need?",
    ),
    (
        "Ottoline breeds axolotls beside the greenhouse",
        "What animals does Ottoline raise?",
    ),
    (
        "Payroll for Lisbon closes on the third Thursday",
        "When is the Lisbon payroll closed?",
    ),
    (
        "Glacier hut Fjellnes rents crampons without deposit",
        "Can crampons be borrowed at the Fjellnes hut?",
    ),
];

/// The python of the environment, in the sidecar's folder; none, with a note, where the
/// variable is not set.
fn python() -> Option<Command> {
    let Some(python) = std::env::var_os("HALOFY_MEM0_PYTHON") else {
        eprintln!("not run: HALOFY_MEM0_PYTHON names no python; see tests/mem0-sidecar.sh");
        return None;
    };
    let mut command = Command::new(python);
    command.arg("-B").current_dir(FOLDER);
    Some(command)
}

/// A running sidecar, killed when dropped.
struct Mem0 {
    process: Child,
    url: String,
}

impl Mem0 {
    /// None where there is no python to run it with.
    async fn start() -> Option<Self> {
        let mut process = python()?
            .args(["serve.py", "--port", "0"])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("HALOFY_MEM0_PYTHON runs");
        let stdout = process.stdout.take().expect("piped");
        let mut lines = BufReader::new(stdout).lines();
        let line = tokio::time::timeout(START, lines.next_line()).await;
        let line = line.expect("it starts in time").expect("a readable line");
        let url = line.expect("its URL, and not its end");
        Some(Self { process, url })
    }

    fn driver(&self) -> Sidecar {
        let name = DriverName::parse("mem0").expect("a name");
        Sidecar::new(name, Some(&self.url)).expect("a usable URL")
    }

    async fn post(&self, request_id: &str, body: &Value) -> (u16, Value) {
        let request = reqwest::Client::new()
            .post(format!("{}/plan", self.url))
            .header("x-halomem-request-id", request_id)
            .json(body);
        let response = request.send().await.expect("an answer");
        let status = response.status().as_u16();
        (status, response.json().await.expect("JSON"))
    }
}

/// The facts among as many others as one plan may carry.
fn corpus() -> Vec<String> {
    let filler = |at: usize| {
        format!(
            "Widget {at} lies in hall {} and was painted green by team {}",
            at % 13,
            at % 5
        )
    };
    let facts = FACTS.iter().map(|(fact, _)| (*fact).to_owned());
    facts
        .chain((FACTS.len()..MAX_CANDIDATES).map(filler))
        .collect()
}

#[tokio::test]
async fn mem0_puts_the_right_fact_on_top_and_is_missed_when_it_is_gone() {
    let Some(mut mem0) = Mem0::start().await else {
        return;
    };
    let driver = mem0.driver();
    let mode = driver.health().await.expect("it is well");
    assert!(
        mode.contains("mem0") && mode.contains("infer=false"),
        "{mode}"
    );

    let corpus = corpus();
    let view = FactsView::of(&corpus);
    let mut times = Vec::new();
    for _ in 0..4 {
        for (fact, question) in FACTS {
            let plan = driver.plan(&view, &query(question, 10, 1000)).await;
            let plan = plan.expect("a plan");
            times.push(plan.stats.total.saturating_sub(plan.stats.view));
            assert_eq!(&*plan.hits[0].row.content, fact, "{question}");
            assert_eq!((plan.hits.len(), plan.stats.violations()), (10, 0));
        }
    }
    times.sort_unstable();
    let (median, slowest) = (times[times.len() / 2], times[times.len() - 1]);
    eprintln!(
        "mem0, {MAX_CANDIDATES} candidates, without the view: median {median:?}, slowest {slowest:?}"
    );

    mem0.process.kill().await.expect("it ends");
    let failed = driver.plan(&view, &query(FACTS[0].1, 10, 1000)).await;
    assert_eq!(failed.expect_err("gone").reason(), "sidecar_transport");
    assert!(driver.health().await.is_err());
}

#[tokio::test]
async fn mem0_joins_a_retry_and_keeps_one_plan_from_another() {
    let Some(mem0) = Mem0::start().await else {
        return;
    };
    let ask = |content: &str| {
        let candidates = json!([{"ref": "a", "content": content}]);
        json!({"query": "accordion", "candidates": candidates, "budget": 100, "k": 5})
    };
    let first = ask("the accordion is in the attic");
    let (status, answer) = mem0.post("one", &first).await;
    assert_eq!((status, &answer["refs"][0]["ref"]), (200, &json!("a")));
    assert_eq!(mem0.post("one", &first).await, (200, answer.clone()));

    // The same id with another body is another plan, and sees only its own rows.
    let other = ask("the booster burns methalox");
    let (status, other) = mem0.post("one", &other).await;
    assert_eq!(status, 200);
    assert_ne!(other, answer);
    assert!(other["refs"].as_array().expect("refs").len() <= 1);

    let nothing = json!({"query": "accordion", "candidates": [], "budget": 100, "k": 5});
    assert_eq!(mem0.post("two", &nothing).await, (200, json!({"refs": []})));
    assert_eq!(mem0.post("three", &json!({"query": 7})).await.0, 400);
}

#[tokio::test]
async fn mem0_sidecar_s_own_tests_pass() {
    let Some(mut python) = python() else {
        return;
    };
    let run = python.args(["-m", "unittest", "discover"]).output().await;
    let run = run.expect("HALOFY_MEM0_PYTHON runs");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success() && said.contains("Ran 8 tests"),
        "{said}"
    );
}

#[tokio::test]
async fn mem0_answers_many_plans_at_a_time() {
    let Some(mem0) = Mem0::start().await else {
        return;
    };
    let driver = mem0.driver();
    let facts = FACTS.map(|(fact, _)| fact);
    let views = [FactsView::of(&facts[..3]), FactsView::of(&facts[2..])];
    let plans = (0..16).map(|at| {
        let (driver, view) = (&driver, &views[at % 2]);
        async move {
            let asked = query(FACTS[2].1, 5, 1000);
            let plan = driver.plan(view, &asked).await.expect("a plan");
            assert_eq!(&*plan.hits[0].row.content, facts[2]);
            assert_eq!(plan.stats.violations(), 0);
        }
    });
    futures_util::future::join_all(plans).await;
}
