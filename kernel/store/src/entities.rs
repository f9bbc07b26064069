//! The entity arm: rows that mention an entity of the registry by name or alias.

use std::collections::HashSet;
use std::sync::Arc;

use sqlx::Row;

use crate::retrieval::{as_limit, bind_moments, read_candidate};
use crate::scope::{in_namespaces, visible, visible_at, visible_ever, visible_then};
use crate::{Candidate, Mention, Scope, Store, StoreError, Validness};

const MAX_ENTITIES: i64 = 2_000;

macro_rules! mentions_query {
    ($filter:expr) => {
        concat!(
            "select m.id, m.namespace, m.content, 0::float8 as score
               from memory_objects m where ",
            $filter,
            " and m.content ~* $2 order by m.id limit $3"
        )
    };
}

struct Entity {
    canonical: Arc<str>,
    /// The canonical name and the aliases, in lower case.
    names: Vec<String>,
}

impl Store {
    /// The visible rows that mention `mention`'s entity, at word boundaries and
    /// without regard to case; with `second_hop` also the rows of entities
    /// mentioned in those. A row found by both keeps the first attribution.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn entity_facts(
        &self,
        scope: &Scope,
        mention: &str,
        second_hop: bool,
        limit: usize,
        validness: Validness,
    ) -> Result<Vec<Mention>, StoreError> {
        let needle = mention.trim().to_lowercase();
        let entities = self.entities(scope).await?;
        let (seeds, others): (Vec<_>, Vec<_>) = entities
            .iter()
            .partition(|entity| entity.names.contains(&needle));
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        self.append_mentions(scope, &seeds, limit, validness, &mut seen, &mut found)
            .await?;
        if second_hop && !found.is_empty() {
            let beside = mentioned_in(&others, &found);
            self.append_mentions(scope, &beside, limit, validness, &mut seen, &mut found)
                .await?;
        }
        Ok(found)
    }

    async fn entities(&self, scope: &Scope) -> Result<Vec<Entity>, StoreError> {
        let rows = sqlx::query(concat!(
            "select m.canonical, m.aliases from entity_registry m where ",
            in_namespaces!(),
            " order by m.canonical, m.namespace limit $2"
        ))
        .bind(scope.bound())
        .bind(MAX_ENTITIES)
        .fetch_all(self.pool())
        .await?;
        rows.iter()
            .map(|row| {
                let canonical: &str = row.try_get("canonical")?;
                let aliases: Vec<String> = row.try_get("aliases")?;
                let names = aliases.iter().map(String::as_str).chain([canonical]);
                Ok(Entity {
                    canonical: canonical.into(),
                    names: names.map(str::to_lowercase).collect(),
                })
            })
            .collect()
    }

    async fn append_mentions(
        &self,
        scope: &Scope,
        entities: &[&Entity],
        limit: usize,
        validness: Validness,
        seen: &mut HashSet<Arc<str>>,
        found: &mut Vec<Mention>,
    ) -> Result<(), StoreError> {
        let room = limit.saturating_sub(found.len());
        if entities.is_empty() || room == 0 {
            return Ok(());
        }
        let names = entities.iter().flat_map(|entity| &entity.names);
        let pattern = names
            .map(|name| name_pattern(name))
            .collect::<Vec<_>>()
            .join("|");
        let sql = match validness {
            Validness::Current => mentions_query!(visible!()),
            Validness::Ever => mentions_query!(visible_ever!()),
            Validness::Then(_) => mentions_query!(visible_then!()),
            Validness::At { .. } => mentions_query!(visible_at!()),
        };
        let query = sqlx::query(sql)
            .bind(scope.bound().to_vec())
            .bind(pattern)
            .bind(as_limit(limit));
        let rows = bind_moments(query, validness)
            .fetch_all(self.pool())
            .await?;
        for row in &rows {
            let candidate = read_candidate(row)?;
            if found.len() < limit && seen.insert(candidate.id.clone()) {
                let entity = first_mentioned(entities, &candidate);
                found.push(Mention { candidate, entity });
            }
        }
        Ok(())
    }
}

/// The entities that the found rows mention.
fn mentioned_in<'e>(entities: &[&'e Entity], found: &[Mention]) -> Vec<&'e Entity> {
    let texts: Vec<String> = found
        .iter()
        .map(|mention| mention.candidate.content.to_lowercase())
        .collect();
    let mentioned = |entity: &&&Entity| texts.iter().any(|text| mentions(entity, text));
    entities.iter().filter(mentioned).copied().collect()
}

fn first_mentioned(entities: &[&Entity], candidate: &Candidate) -> Arc<str> {
    let text = candidate.content.to_lowercase();
    let first = entities.iter().find(|entity| mentions(entity, &text));
    first.unwrap_or(&entities[0]).canonical.clone()
}

fn mentions(entity: &Entity, lower_text: &str) -> bool {
    entity
        .names
        .iter()
        .any(|name| at_word_boundary(lower_text, name))
}

/// Whether `name` stands in `text` with no letter or digit on either side.
fn at_word_boundary(text: &str, name: &str) -> bool {
    let inner = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    !name.is_empty()
        && text.match_indices(name).any(|(at, _)| {
            !inner(text[..at].chars().next_back()) && !inner(text[at + name.len()..].chars().next())
        })
}

/// A name as a Postgres regular expression: every character literal, no letter
/// or digit on either side.
fn name_pattern(name: &str) -> String {
    let mut pattern = String::from(r"(?<![[:alnum:]_])");
    for c in name.chars() {
        if c.is_ascii() && !c.is_ascii_alphanumeric() {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern + r"(?![[:alnum:]_])"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_inside_a_word_is_not_a_mention() {
        assert!(at_word_boundary("lunch with ann, today", "ann"));
        assert!(!at_word_boundary("planning the annual fair", "ann"));
        assert!(!at_word_boundary("anything", ""));
    }
}
