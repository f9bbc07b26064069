//! The arms of retrieval: newest, lexical, vector, concepts. Each returns rows of
//! one [`Scope`] in an order that depends on nothing but the rows.
//!
//! Not here: ranking across arms. Cartridges do that.

use std::sync::Arc;

use pgvector::Vector;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row};
use time::OffsetDateTime;

use crate::scope::{in_namespaces, visible, visible_at, visible_ever, visible_rows, visible_then};
use crate::{Scope, Store, StoreError};

/// Up to this many visible rows, words are looked for row by row; in more, through
/// the index.
const SCANNED_ROWS: i64 = 2_000;
/// Up to this many visible rows, distances are computed exactly; in more, through
/// the index.
const EXACT_ROWS: i64 = 20_000;
/// More words of a query than this do not make it more telling.
const MAX_QUERY_TERMS: usize = 64;

/// A row of one arm.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// A memory's id, or a concept's path.
    pub id: Arc<str>,
    /// Where it lives.
    pub namespace: Arc<str>,
    /// What it says.
    pub content: Arc<str>,
    /// Cosine similarity for the vector and concept arms, 0 for the others.
    pub score: f64,
}

/// A row that mentions an entity.
#[derive(Debug, Clone)]
pub struct Mention {
    /// The row.
    pub candidate: Candidate,
    /// The entity's canonical name.
    pub entity: Arc<str>,
}

/// How many rows a namespace sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// At most 2,000.
    Small,
    /// At most 20,000.
    Medium,
    /// More.
    Large,
}

/// Which rows count, by what was believed when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validness {
    /// What is believed now. The only choice that a cartridge has.
    Current,
    /// What was ever believed.
    Ever,
    /// What was believed then: what a search would have found at that moment.
    Then(OffsetDateTime),
    /// What holds at a moment of the subject's own time.
    At {
        /// That moment.
        valid: OffsetDateTime,
        /// As far as was known then.
        known: OffsetDateTime,
    },
}

/// Binds the moments of a [`Validness`], from the fourth place on.
pub(crate) fn bind_moments(
    query: Query<'static, Postgres, PgArguments>,
    validness: Validness,
) -> Query<'static, Postgres, PgArguments> {
    match validness {
        Validness::Current | Validness::Ever => query,
        Validness::Then(then) => query.bind(then),
        Validness::At { valid, known } => query.bind(known).bind(valid),
    }
}

macro_rules! newest_query {
    ($rows:expr, $filter:expr) => {
        concat!(
            "select m.id, m.namespace, m.content, 0::float8 as score from ",
            $rows,
            " where ",
            $filter,
            // The moment stands in the fourth place in every arm.
            " order by m.id desc limit least($2::bigint, $3::bigint)"
        )
    };
}

macro_rules! lexical_query {
    ($rows:expr, $filter:expr) => {
        // The query is read once, in a sub-select, and not again for each row.
        concat!(
            "select m.id, m.namespace, m.content, 0::float8 as score from ",
            $rows,
            " where ",
            $filter,
            " and m.lexemes @@ (select $2::text::tsquery)
              order by ts_rank(m.lexemes, (select $2::text::tsquery)) desc, m.id limit $3"
        )
    };
}

macro_rules! exact_query {
    ($rows:expr, $filter:expr) => {
        // The sum hides the operator from the index: an exact scan.
        concat!(
            "select m.id, m.namespace, m.content, 1 - (m.embedding <=> $2) as score from ",
            $rows,
            " where ",
            $filter,
            " and m.embedding is not null order by (m.embedding <=> $2) + 0, m.id limit $3"
        )
    };
}

impl Store {
    /// The newest visible rows.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn candidates_newest(
        &self,
        scope: &Scope,
        limit: usize,
        validness: Validness,
    ) -> Result<Vec<Candidate>, StoreError> {
        let sql = match validness {
            Validness::Current => newest_query!(visible_rows!(), "true"),
            Validness::Ever => newest_query!("memory_objects m", visible_ever!()),
            Validness::Then(_) => newest_query!("memory_objects m", visible_then!()),
            Validness::At { .. } => newest_query!("memory_objects m", visible_at!()),
        };
        let query = sqlx::query(sql)
            .bind(scope.bound().to_vec())
            .bind(as_limit(limit))
            .bind(as_limit(limit));
        let rows = bind_moments(query, validness)
            .fetch_all(self.pool())
            .await?;
        rows.iter().map(read_candidate).collect()
    }

    /// The rows that share a stem with `query`, chosen from the whole scope: those
    /// that share the most first, then by id.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn candidates_lexical(
        &self,
        scope: &Scope,
        query: &str,
        limit: usize,
        validness: Validness,
    ) -> Result<Vec<Candidate>, StoreError> {
        let Some(any_stem) = any_stem(query) else {
            return Ok(Vec::new());
        };
        let sql = match validness {
            Validness::Current if self.size_of(scope).await? == Size::Small => {
                lexical_query!(visible_rows!(), "true")
            }
            Validness::Current => lexical_query!("memory_objects m", visible!()),
            Validness::Ever => lexical_query!("memory_objects m", visible_ever!()),
            Validness::Then(_) => lexical_query!("memory_objects m", visible_then!()),
            Validness::At { .. } => lexical_query!("memory_objects m", visible_at!()),
        };
        let query = sqlx::query(sql)
            .bind(scope.bound().to_vec())
            .bind(any_stem)
            .bind(as_limit(limit));
        let rows = bind_moments(query, validness)
            .fetch_all(self.pool())
            .await?;
        rows.iter().map(read_candidate).collect()
    }

    /// The `k` nearest rows by cosine similarity, nearest first, then by id.
    ///
    /// Exact up to 20,000 visible rows. Beyond, the HNSW index is scanned
    /// iteratively, and exactly after all when it returned fewer than `k`.
    ///
    /// # Errors
    /// See [`StoreError`]. The vector must be of the store's dimension.
    pub async fn candidates_nearest(
        &self,
        scope: &Scope,
        embedding: &[f32],
        k: usize,
        validness: Validness,
    ) -> Result<Vec<Candidate>, StoreError> {
        let vector = Vector::from(embedding.to_vec());
        let exact = match validness {
            Validness::Current => exact_query!(visible_rows!(), "true"),
            Validness::Ever => exact_query!("memory_objects m", visible_ever!()),
            Validness::Then(_) => exact_query!("memory_objects m", visible_then!()),
            Validness::At { .. } => exact_query!("memory_objects m", visible_at!()),
        };
        if validness == Validness::Current && self.size_of(scope).await? == Size::Large {
            let found = self.nearest(INDEXED, scope, &vector, k, validness).await?;
            if found.len() >= k {
                return Ok(found);
            }
        }
        self.nearest(exact, scope, &vector, k, validness).await
    }

    /// The nearest concepts of the cold tier.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn concepts_nearest(
        &self,
        scope: &Scope,
        embedding: &[f32],
        k: usize,
    ) -> Result<Vec<Candidate>, StoreError> {
        let sql = concat!(
            "select m.path as id, m.namespace, m.summary as content,
                    1 - (m.embedding <=> $2) as score
               from concepts m where ",
            in_namespaces!(),
            " order by (m.embedding <=> $2) + 0, m.id limit $3"
        );
        let vector = Vector::from(embedding.to_vec());
        self.nearest(sql, scope, &vector, k, Validness::Current)
            .await
    }

    async fn nearest(
        &self,
        sql: &'static str,
        scope: &Scope,
        vector: &Vector,
        k: usize,
        validness: Validness,
    ) -> Result<Vec<Candidate>, StoreError> {
        let query = sqlx::query(sql)
            .bind(scope.bound().to_vec())
            .bind(vector.clone())
            .bind(as_limit(k));
        let rows = bind_moments(query, validness)
            .fetch_all(self.pool())
            .await?;
        rows.iter().map(read_candidate).collect()
    }

    /// How much a namespace sees. Only chooses a plan: a stale answer costs time,
    /// never a row.
    async fn size_of(&self, scope: &Scope) -> Result<Size, StoreError> {
        if let Some(size) = self.sizes.get(scope.own()) {
            return Ok(size);
        }
        let row = sqlx::query(concat!(
            "select count(*) as seen from (
                 select 1 from ",
            visible_rows!(),
            " limit $2) seen"
        ))
        .bind(scope.bound())
        .bind(EXACT_ROWS + 1)
        .fetch_one(self.pool())
        .await?;
        let size = match row.try_get::<i64, _>("seen")? {
            seen if seen <= SCANNED_ROWS => Size::Small,
            seen if seen <= EXACT_ROWS => Size::Medium,
            _ => Size::Large,
        };
        self.sizes.insert(scope.own().clone(), size);
        Ok(size)
    }
}

/// The index returns rows by distance; the outer sort settles ties.
const INDEXED: &str = concat!(
    "select id, namespace, content, 1 - distance as score from (
         select m.id, m.namespace, m.content, m.embedding <=> $2 as distance
           from memory_objects m where ",
    visible!(),
    "     order by m.embedding <=> $2 limit $3) nearest
      order by distance, id"
);

/// The stems of a query as one `tsquery` that any of them satisfies; nothing for a
/// query without words.
fn any_stem(query: &str) -> Option<String> {
    let stems = query_stems(query);
    (!stems.is_empty()).then(|| stems.join(" | "))
}

/// The distinct stems of a query as `tsquery` literals.
fn query_stems(query: &str) -> Vec<String> {
    let mut stems = halofy_retrieval::terms(query);
    stems.sort_unstable();
    stems.dedup();
    stems.truncate(MAX_QUERY_TERMS);
    let quoted = |stem: &String| format!("'{}'", stem.replace('\\', "\\\\").replace('\'', "''"));
    stems.iter().map(quoted).collect()
}

pub(crate) fn as_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(crate) fn read_candidate(row: &PgRow) -> Result<Candidate, StoreError> {
    let text = |column: &str| row.try_get::<&str, _>(column);
    Ok(Candidate {
        id: text("id")?.into(),
        namespace: text("namespace")?.into(),
        content: text("content")?.into(),
        score: row.try_get("score")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_cannot_break_out_of_their_quotes() {
        for query in ["o'neil's \\ ' | & ! <->", "a':*", "b\\' | c"] {
            for stem in query_stems(query) {
                let inner = &stem[1..stem.len() - 1];
                let bare = inner.replace("''", "").replace("\\\\", "");
                assert!(!bare.contains('\'') && !bare.contains('\\'), "{stem}");
            }
        }
    }
}
