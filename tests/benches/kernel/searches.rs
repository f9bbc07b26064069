//! Audited searches over HTTP on a loaded store, beside what the same database
//! does without a kernel: single-row commits, and a bare client that runs the same
//! two queries and inserts one audit row.

use std::sync::Arc;
use std::time::{Duration, Instant};

use halofy_audit::{Detail, Event, Outcome};
use halofy_core::Namespace;
use halofy_store::{Scope, Store, Validness};
use halofy_tests::{Data, Kernel, Role, Setup};
use serde_json::json;
use time::OffsetDateTime;
use ulid::Ulid;

use crate::corpus::Corpus;
use crate::load::{Connection, Measured, Work, drive};

const CALLERS: [usize; 4] = [1, 8, 32, 256];
const TIME: Duration = Duration::from_secs(4);
const K: usize = 10;
/// As the kernel's own pool.
const CONNECTIONS: u32 = 16;

/// A question, ready to be sent.
struct Asked {
    key: String,
    request: Vec<u8>,
    scope: Scope,
    question: String,
    vector: Vec<f32>,
}

pub(crate) async fn run(corpus: &Corpus, server: bool) {
    let place = if server { "server" } else { "embedded" };
    let data = if server {
        Data::fresh().await
    } else {
        Data::embedded()
    };
    let kernel = Setup::default()
        .on(&data)
        .connections(CONNECTIONS)
        .start()
        .await;
    let began = Instant::now();
    let asked = Arc::new(load(&kernel, corpus).await);
    let ingest = corpus.memories() as f64 / began.elapsed().as_secs_f64();
    println!(
        "\n{place} store, {} memories, written through the gate: {ingest:.0}/s",
        corpus.memories()
    );
    println!(
        "  callers   audited searches/s   p50 ms   p99 ms   bare client/s   commits/s   searches:bare"
    );
    let mut rates = Vec::new();
    for callers in CALLERS {
        let searches = searches(&kernel, callers, &asked).await;
        let questions = asked.clone();
        let bare = kernel
            .on_store(async move |store| bare(&store, callers, &questions).await)
            .await;
        let commits = kernel
            .on_store(async move |store| commits(&store, callers).await)
            .await;
        println!(
            "  {callers:7}   {:18.0}   {:6.2}   {:6.2}   {:13.0}   {:9.0}   {:12.2}x",
            searches.per_second,
            searches.p50_ms,
            searches.p99_ms,
            bare.per_second,
            commits.per_second,
            searches.per_second / bare.per_second,
        );
        rates.push(searches.per_second);
    }
    println!(
        "  the sandbox's share of one search: {:.0} %",
        sandbox_share(&kernel, &asked).await
    );
    let widest = rates[rates.len() - 1] / rates[0];
    println!(
        "  {} callers against one: {widest:.1}x",
        CALLERS[CALLERS.len() - 1]
    );
}

async fn load(kernel: &Kernel, corpus: &Corpus) -> Vec<Asked> {
    let mut asked = Vec::new();
    let fast = json!({ "rateLimit": { "perSecond": 1_000_000, "burst": 1_000_000 } });
    for (name, texts, questions) in &corpus.conversations {
        let namespace: Namespace = name.parse().expect("a namespace");
        kernel.policy(name, fast.clone()).await;
        let caller = kernel.key(name, "bench", Role::Agent).await;
        for chunk in texts.chunks(16) {
            let writes = chunk.iter().map(|text| caller.write(text));
            futures_util::future::join_all(writes).await;
        }
        for question in questions.iter().take(100) {
            asked.push(Asked {
                key: caller.key.clone(),
                request: request(&caller.key, question),
                scope: Scope::anybody_in(&namespace),
                question: question.clone(),
                vector: halofy_retrieval::hash_embed(question, 256),
            });
        }
    }
    // Neighbouring questions are of different namespaces, as in life.
    let stride = asked.len() / 10;
    let order: Vec<usize> = (0..stride)
        .flat_map(|at| (0..10).map(move |of| of * stride + at))
        .collect();
    let mut slots: Vec<Option<Asked>> = asked.into_iter().map(Some).collect();
    order
        .into_iter()
        .filter_map(|at| slots[at].take())
        .collect()
}

fn request(key: &str, question: &str) -> Vec<u8> {
    let body = json!({ "query": question, "k": K }).to_string();
    format!(
        "POST /v1/mem/search HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Of a search's time at the client, what is neither the view nor outside the sandbox: the
/// instance, the guest, the copies.
async fn sandbox_share(kernel: &Kernel, asked: &[Asked]) -> f64 {
    let (mut sandbox, mut whole) = (0.0, 0.0);
    for asked in asked.iter().cycle().take(300) {
        let caller = kernel.caller(&asked.key, "bench");
        let body = json!({ "query": asked.question, "k": K, "explain": true });
        let began = Instant::now();
        let answer = caller.call("search", body).await.expect_status(200);
        whole += began.elapsed().as_secs_f64();
        let micros = &answer.body["explain"]["attempts"][0]["micros"];
        let of = |stage: &str| micros[stage].as_f64().expect("a time") / 1e6;
        sandbox += of("instantiate") + of("guest");
    }
    100.0 * sandbox / whole
}

struct Searcher {
    connection: Connection,
    asked: Arc<Vec<Asked>>,
}

impl Work for Searcher {
    async fn once(&mut self, turn: usize) {
        let asked = &self.asked[turn % self.asked.len()];
        self.connection.ask(&asked.request).await;
    }
}

async fn searches(kernel: &Kernel, callers: usize, asked: &Arc<Vec<Asked>>) -> Measured {
    let address = kernel.base.trim_start_matches("http://").to_owned();
    drive(callers, TIME, |_| {
        let (address, asked) = (address.clone(), asked.clone());
        async move {
            Searcher {
                connection: Connection::open(&address).await,
                asked,
            }
        }
    })
    .await
}

/// The same two queries and one audit row, without HTTP, key, sandbox or group commit.
struct BareClient {
    store: Arc<Store>,
    asked: Arc<Vec<Asked>>,
}

impl Work for BareClient {
    async fn once(&mut self, turn: usize) {
        let asked = &self.asked[turn % self.asked.len()];
        let pool = halofy_retrieval::pool_size(K);
        let near =
            self.store
                .candidates_nearest(&asked.scope, &asked.vector, pool, Validness::Current);
        near.await.expect("rows");
        let lexical =
            self.store
                .candidates_lexical(&asked.scope, &asked.question, pool, Validness::Current);
        lexical.await.expect("rows");
        self.store.audit_append(&[row()]).await.expect("a row");
    }
}

async fn bare(store: &Arc<Store>, callers: usize, asked: &Arc<Vec<Asked>>) -> Measured {
    drive(callers, TIME, |_| {
        let (store, asked) = (store.clone(), asked.clone());
        async move { BareClient { store, asked } }
    })
    .await
}

struct Committer {
    store: Arc<Store>,
}

impl Work for Committer {
    async fn once(&mut self, _: usize) {
        self.store.audit_append(&[row()]).await.expect("a row");
    }
}

async fn commits(store: &Arc<Store>, callers: usize) -> Measured {
    drive(callers, TIME, |_| {
        let store = store.clone();
        async move { Committer { store } }
    })
    .await
}

fn row() -> halofy_audit::Sealed {
    let event = Event {
        call_id: Ulid::generate().to_string(),
        ts: OffsetDateTime::now_utc(),
        actor: "bench".to_owned(),
        agent_id: "kernel".to_owned(),
        key_id: None,
        op: "search".to_owned(),
        memory_id: None,
        namespace: "bench".to_owned(),
        purpose: Some("a question of some forty characters, say".to_owned()),
        result: Outcome::Ok,
        detail: Some(Detail::new().field("returned", 10).field("driver", "bare")),
    };
    event.seal()
}
