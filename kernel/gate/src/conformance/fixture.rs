//! The corpus that the checks run over: a caller's namespace and a sibling's, in
//! an embedded database, with the embedder that needs nothing.

use std::path::Path;
use std::sync::Arc;

use halofy_core::{Content, Kind, MemoryId, Namespace, Provenance, normalize_for_dedupe};
use halofy_store::{
    Location, NewMemory, Placement, Scope, Store, StoreConfig, Transaction, Upserted, Validness,
    VectorSpace,
};
use time::OffsetDateTime;
use ulid::Ulid;

use super::ConformanceError;
use super::facts::{CANARIES, FACTS};
use crate::classify::{Asked, PolicyRules, classify};
use crate::embed::{Embedder, HashEmbedder};
use crate::view::{Embeddable, Sight, StoreView};

/// Where the caller lives.
pub(super) const HOME: &str = "conf/a";
/// What it must not see.
const SIBLING: &str = "conf/b";
/// The length of the hash embedder's vectors.
pub(super) const DIMENSION: usize = 256;
const ACTOR: &str = "conformance";

/// The corpus, and the caller's place in it.
pub(super) struct Fixture {
    store: Arc<Store>,
    embedder: Arc<dyn Embedder>,
    home: Namespace,
}

impl Fixture {
    /// Makes the database in `dir` and plants facts and canaries.
    pub(super) async fn plant(dir: &Path) -> Result<Self, ConformanceError> {
        let (home, sibling) = (Namespace::parse(HOME)?, Namespace::parse(SIBLING)?);
        let embedder: Arc<dyn Embedder> = Arc::new(HashEmbedder::new(DIMENSION)?);
        let space = VectorSpace {
            embedder: embedder.identity().to_owned(),
            dimension: embedder.dimension(),
        };
        let location = Location::Embedded(dir.to_owned());
        let store = Arc::new(Store::open(StoreConfig::new(location), space).await?);
        let fixture = Self {
            store,
            embedder,
            home,
        };
        match fixture.fill(&sibling).await {
            Ok(()) => Ok(fixture),
            Err(error) => {
                fixture.close().await;
                Err(error)
            }
        }
    }

    /// What the caller sees, for one call.
    pub(super) fn view(&self) -> Arc<StoreView> {
        StoreView::new(
            self.store.clone(),
            self.embedder.clone(),
            Sight {
                scope: Scope::anybody_in(&self.home),
                validness: Validness::Current,
                embeddable: Embeddable::Anything,
            },
        )
    }

    /// Stops the database.
    pub(super) async fn close(self) {
        match Arc::try_unwrap(self.store) {
            Ok(store) => store.close().await,
            Err(_) => tracing::warn!("a query still runs, and the fixture was not closed"),
        }
    }

    async fn fill(&self, sibling: &Namespace) -> Result<(), ConformanceError> {
        let facts = FACTS.iter().map(|(fact, _)| (&self.home, *fact));
        let canaries = CANARIES.iter().map(|(fact, _)| (sibling, *fact));
        let rows: Vec<(&Namespace, &str)> = facts.chain(canaries).collect();
        let texts: Vec<String> = rows.iter().map(|(_, fact)| (*fact).to_owned()).collect();
        let vectors = self.embedder.embed(&texts).await?;
        let mut tx = self.store.begin().await?;
        for (ordinal, ((namespace, fact), vector)) in (1..).zip(rows.into_iter().zip(vectors)) {
            insert(&mut tx, ordinal, namespace, fact, vector).await?;
        }
        tx.commit().await?;
        // Without this, a check for leaks could pass over rows that nobody sees.
        self.expect_rows(&self.home, FACTS.len()).await?;
        self.expect_rows(sibling, CANARIES.len()).await
    }

    async fn expect_rows(&self, caller: &Namespace, count: usize) -> Result<(), ConformanceError> {
        let scope = Scope::anybody_in(caller);
        let seen = self
            .store
            .candidates_newest(&scope, count + 1, Validness::Current)
            .await?
            .len();
        if seen == count {
            return Ok(());
        }
        let why = format!("{caller} sees {seen} rows, {count} were planted");
        Err(ConformanceError::Fixture(why))
    }
}

/// Ids follow from the order, so that ties break alike in every run.
async fn insert(
    tx: &mut Transaction<'_>,
    ordinal: u64,
    namespace: &Namespace,
    fact: &str,
    embedding: Vec<f32>,
) -> Result<(), ConformanceError> {
    let content = Content::parse(fact)?;
    let classification = classify(content.as_str(), Asked::default(), PolicyRules::default());
    let now = OffsetDateTime::now_utc();
    let memory = NewMemory {
        id: MemoryId::new(Ulid::from_parts(ordinal, 0)),
        namespace,
        actor: ACTOR,
        key: ACTOR,
        call: ACTOR,
        kind: Kind::Fact,
        content: fact,
        normal_form: &normalize_for_dedupe(fact),
        event_time: None,
        asserted_at: now,
        told_at: now,
        classification: &classification,
        metadata: None,
        embedding: Some(embedding),
        provenance: &Provenance::default(),
        model: None,
        slot: None,
        entities: &[],
        unread: false,
    };
    let placement = Placement::Current { supersedes: None };
    match tx.memory_upsert(&memory, placement).await? {
        Upserted::Inserted(_) => Ok(()),
        Upserted::Deduplicated(_) | Upserted::Disputed(_) => {
            let why = format!("{namespace} holds a fact twice");
            Err(ConformanceError::Fixture(why))
        }
    }
}
