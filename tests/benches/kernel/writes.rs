//! Verbatim writes over HTTP, each deduplicated, classified, embedded and audited, beside raw
//! `INSERT … COMMIT` of the same rows into the same table on the same database.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use halofy_core::{Classification, Kind, MemoryId, Namespace, Provenance, Sensitivity};
use halofy_store::{NewMemory, Store};
use halofy_tests::{Data, Kernel, Role, Setup};
use serde_json::json;
use time::OffsetDateTime;
use ulid::Ulid;

use crate::corpus::Corpus;
use crate::load::{Connection, Measured, Work, drive};

const CALLERS: [usize; 3] = [1, 16, 64];
const TIME: Duration = Duration::from_secs(6);
/// As the kernel's own pool.
const CONNECTIONS: u32 = 16;

/// Makes texts that nobody wrote before, out of a corpus.
struct Texts {
    turns: Vec<String>,
    made: AtomicU64,
}

impl Texts {
    fn next(&self) -> String {
        let made = self.made.fetch_add(1, Ordering::Relaxed);
        let turn = usize::try_from(made).unwrap_or_default() % self.turns.len();
        format!("{} (turn {made})", self.turns[turn])
    }
}

pub(crate) async fn run(corpus: &Corpus, server: bool) {
    let place = if server { "server" } else { "embedded" };
    let turns = corpus
        .conversations
        .iter()
        .flat_map(|(_, texts, _)| texts.clone());
    let texts = Arc::new(Texts {
        turns: turns.collect(),
        made: AtomicU64::new(0),
    });
    println!("\n{place} store, verbatim writes beside raw inserts of the same rows");
    println!("  callers   audited writes/s   p50 ms   p99 ms   raw inserts/s   writes:raw");
    for callers in CALLERS {
        // A store of its own for each, so that no index is fuller than the other's.
        let kernel = kernel(server).await;
        let writes = writes(&kernel, callers, &texts).await;
        drop(kernel);
        let kernel = self::kernel(server).await;
        let raw = texts.clone();
        let inserts = kernel
            .on_store(async move |store| inserts(&store, callers, &raw).await)
            .await;
        println!(
            "  {callers:7}   {:16.0}   {:6.2}   {:6.2}   {:13.0}   {:9.2}x",
            writes.per_second,
            writes.p50_ms,
            writes.p99_ms,
            inserts.per_second,
            writes.per_second / inserts.per_second,
        );
    }
}

async fn kernel(server: bool) -> Kernel {
    let data = if server {
        Data::fresh().await
    } else {
        Data::embedded()
    };
    let setup = Setup::default().on(&data).connections(CONNECTIONS);
    setup.start().await
}

struct Writer {
    connection: Connection,
    key: String,
    texts: Arc<Texts>,
}

impl Work for Writer {
    async fn once(&mut self, _: usize) {
        let body = json!({ "content": self.texts.next() }).to_string();
        let request = format!(
            "POST /v1/mem/write HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        );
        self.connection.ask(request.as_bytes()).await;
    }
}

async fn writes(kernel: &Kernel, callers: usize, texts: &Arc<Texts>) -> Measured {
    let fast = json!({ "rateLimit": { "perSecond": 1_000_000, "burst": 1_000_000 } });
    kernel.policy("bench", fast).await;
    let caller = kernel.key("bench", "bench", Role::Agent).await;
    let address = kernel.base.trim_start_matches("http://").to_owned();
    drive(callers, TIME, |_| {
        let (address, key, texts) = (address.clone(), caller.key.clone(), texts.clone());
        async move {
            Writer {
                connection: Connection::open(&address).await,
                key,
                texts,
            }
        }
    })
    .await
}

struct Inserter {
    store: Arc<Store>,
    namespace: Namespace,
    texts: Arc<Texts>,
}

impl Work for Inserter {
    async fn once(&mut self, _: usize) {
        let text = self.texts.next();
        let now = OffsetDateTime::now_utc();
        let new = NewMemory {
            id: MemoryId::new(Ulid::generate()),
            namespace: &self.namespace,
            actor: "bench",
            key: "bench",
            call: "bench",
            kind: Kind::Fact,
            content: &text,
            normal_form: &text,
            event_time: None,
            asserted_at: now,
            told_at: now,
            classification: &Classification::of(Sensitivity::Internal),
            metadata: None,
            embedding: Some(halofy_retrieval::hash_embed(&text, 256)),
            provenance: &Provenance::default(),
            model: None,
            slot: None,
            entities: &[],
            unread: false,
        };
        self.store.raw_insert(&new).await.expect("inserted");
    }
}

async fn inserts(store: &Arc<Store>, callers: usize, texts: &Arc<Texts>) -> Measured {
    let namespace: Namespace = "bench".parse().expect("a namespace");
    drive(callers, TIME, |_| {
        let (store, texts, namespace) = (store.clone(), texts.clone(), namespace.clone());
        async move {
            Inserter {
                store,
                namespace,
                texts,
            }
        }
    })
    .await
}
