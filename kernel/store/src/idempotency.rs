//! Calls made under an `Idempotency-Key`: claiming the key, keeping the answer, and
//! forgetting it.
//!
//! Not here: what a repeated call is told (the gate decides).

use halofy_core::{JobId, KeyId, MemoryId, Namespace, Op};
use serde_json::Value;
use sha2::{Digest, Sha256};
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row};

use crate::scope::{in_subtree, subtree_pattern};
use crate::{Store, StoreError, Transaction};

/// A call that claims its key.
#[derive(Debug, Clone)]
pub struct IdempotencyClaim {
    /// Whose key space it is in: two callers may choose the same name.
    pub key: KeyId,
    /// The header's value.
    pub name: String,
    /// What is called.
    pub op: Op,
    /// SHA-256 of the body's bytes.
    pub body_hash: [u8; 32],
    /// The call, as the audit log will have it.
    pub call: String,
}

/// Whose a key is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// This transaction's: it must store an answer, or be followed by a job that does.
    Ours,
    /// A call's that came before. Roll back, and read what it was answered.
    Theirs,
}

/// A key that was claimed.
#[derive(Debug, Clone, PartialEq)]
pub struct IdempotencyRecord {
    /// What was called.
    pub op: String,
    /// SHA-256 of the body's bytes.
    pub body_hash: [u8; 32],
    /// The first call.
    pub call: String,
    /// The job that finishes it.
    pub job: Option<JobId>,
    /// How far it is.
    pub state: IdempotencyState,
}

/// How far the first call under a key is.
#[derive(Debug, Clone, PartialEq)]
pub enum IdempotencyState {
    /// Not finished.
    Open,
    /// Finished with this answer.
    Answered(Value),
    /// What it answered was erased.
    Erased,
}

/// Which answers to erase.
#[derive(Debug, Clone, Copy)]
pub enum AnswersOf<'a> {
    /// Of the keys that live in a namespace or below it. Calls that are not finished have
    /// none: jobs are ended on their own, and the call that erases is yet to be answered.
    Subtree(&'a Namespace),
    /// Those that speak of one of these memories.
    Memories(&'a [MemoryId]),
    /// Those of the keys in a namespace or below it that quote a document or an episode.
    Source(&'a Namespace, &'a str),
}

impl Store {
    /// What is known of a key's use under this name.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn idempotency_read(
        &self,
        key: &KeyId,
        name: &str,
    ) -> Result<Option<IdempotencyRecord>, StoreError> {
        let row = sqlx::query(
            "select op, body_hash, state, answer, call_id, job_id from idempotency_keys
              where key_id = $1 and idem_key = $2",
        )
        .bind(&key.0)
        .bind(digest(name))
        .fetch_optional(self.pool())
        .await?;
        row.as_ref().map(read_record).transpose()
    }
}

impl Transaction<'_> {
    /// Claims a key. Waits for another transaction that claims the same one.
    ///
    /// Must be the first statement of its transaction: whoever waits here holds
    /// nothing that the other could wait for.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn idempotency_claim(
        &mut self,
        claim: &IdempotencyClaim,
        job: Option<&JobId>,
    ) -> Result<Claimed, StoreError> {
        let done = sqlx::query(
            "insert into idempotency_keys (key_id, idem_key, op, body_hash, call_id, job_id)
             values ($1, $2, $3, $4, $5, $6) on conflict (key_id, idem_key) do nothing",
        )
        .bind(&claim.key.0)
        .bind(digest(&claim.name))
        .bind(claim.op.as_str())
        .bind(claim.body_hash.as_slice())
        .bind(&claim.call)
        .bind(job.map(ToString::to_string))
        .execute(self.connection())
        .await?;
        match done.rows_affected() {
            0 => Ok(Claimed::Theirs),
            _ => Ok(Claimed::Ours),
        }
    }

    /// Keeps the answer of a call whose claim is open.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] when the claim is not open any more: the call must
    /// have no effect. Else see [`StoreError`].
    pub async fn idempotency_answer(
        &mut self,
        claim: &IdempotencyClaim,
        answer: &Value,
        memories: &[MemoryId],
    ) -> Result<(), StoreError> {
        let done = sqlx::query(
            "update idempotency_keys set state = 'answered', answer = $3, memory_ids = $4
              where key_id = $1 and idem_key = $2 and state = 'open'",
        )
        .bind(&claim.key.0)
        .bind(digest(&claim.name))
        .bind(answer.to_string())
        .bind(as_text(memories))
        .execute(self.connection())
        .await?;
        match done.rows_affected() {
            0 => Err(StoreError::LeaseLost),
            _ => Ok(()),
        }
    }

    /// Notes what the call tells of, so that erasing that finds its answer.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn idempotency_source(
        &mut self,
        claim: &IdempotencyClaim,
        source_ref: &str,
    ) -> Result<(), StoreError> {
        sqlx::query(
            "update idempotency_keys set source_ref = $3 where key_id = $1 and idem_key = $2",
        )
        .bind(&claim.key.0)
        .bind(digest(&claim.name))
        .bind(source_ref)
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// Keeps the answer of the call that a job finishes, if that call had a key.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn idempotency_answer_job(
        &mut self,
        job: &JobId,
        answer: &Value,
        memories: &[MemoryId],
    ) -> Result<(), StoreError> {
        sqlx::query(
            "update idempotency_keys set state = 'answered', answer = $2, memory_ids = $3
              where job_id = $1 and state = 'open'",
        )
        .bind(job.to_string())
        .bind(answer.to_string())
        .bind(as_text(memories))
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// Erases answers: what is left of each is that there was one. Gives how many.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn idempotency_erase(&mut self, of: AnswersOf<'_>) -> Result<u64, StoreError> {
        let done = match of {
            AnswersOf::Subtree(namespace) => {
                sqlx::query(concat!(
                    "update idempotency_keys set state = 'erased', answer = null, memory_ids = '{}',
                           source_ref = null
                      where state = 'answered' and key_id in (select id from api_keys where ",
                    in_subtree!(),
                    ")"
                ))
                .bind(namespace.as_str())
                .bind(subtree_pattern(namespace))
                .execute(self.connection())
                .await?
            }
            AnswersOf::Source(namespace, source_ref) => {
                sqlx::query(concat!(
                    "update idempotency_keys set state = 'erased', answer = null, memory_ids = '{}',
                           source_ref = null
                      where source_ref = $3 and key_id in (select id from api_keys where ",
                    in_subtree!(),
                    ")"
                ))
                .bind(namespace.as_str())
                .bind(subtree_pattern(namespace))
                .bind(source_ref)
                .execute(self.connection())
                .await?
            }
            AnswersOf::Memories(ids) => sqlx::query(
                "update idempotency_keys set state = 'erased', answer = null, memory_ids = '{}',
                           source_ref = null
                      where memory_ids && $1",
            )
            .bind(as_text(ids))
            .execute(self.connection())
            .await?,
        };
        Ok(done.rows_affected())
    }
}

/// Frees the keys of calls that these jobs will not finish: they may be made anew.
pub(crate) async fn free_of_jobs(
    connection: &mut PgConnection,
    jobs: &[String],
) -> Result<(), StoreError> {
    if jobs.is_empty() {
        return Ok(());
    }
    sqlx::query("delete from idempotency_keys where job_id = any($1) and state = 'open'")
        .bind(jobs)
        .execute(connection)
        .await?;
    Ok(())
}

/// Erases the answers of calls that these jobs finish or have finished.
pub(crate) async fn erase_of_jobs(
    connection: &mut PgConnection,
    jobs: &[String],
) -> Result<(), StoreError> {
    sqlx::query(
        "update idempotency_keys set state = 'erased', answer = null, memory_ids = '{}',
                           source_ref = null
          where job_id = any($1)",
    )
    .bind(jobs)
    .execute(connection)
    .await?;
    Ok(())
}

fn digest(name: &str) -> Vec<u8> {
    Sha256::digest(name.as_bytes()).to_vec()
}

fn as_text(ids: &[MemoryId]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

fn read_record(row: &PgRow) -> Result<IdempotencyRecord, StoreError> {
    let damaged = |what: &str| StoreError::Corrupt(format!("an idempotency key's {what}"));
    let hash: &[u8] = row.try_get("body_hash")?;
    let answer: Option<&str> = row.try_get("answer")?;
    let job: Option<&str> = row.try_get("job_id")?;
    let state = match (row.try_get::<&str, _>("state")?, answer) {
        ("open", _) => IdempotencyState::Open,
        ("answered", Some(json)) => {
            let answer = serde_json::from_str(json).map_err(|_| damaged("answer"))?;
            IdempotencyState::Answered(answer)
        }
        ("erased", _) => IdempotencyState::Erased,
        _ => return Err(damaged("state")),
    };
    Ok(IdempotencyRecord {
        op: row.try_get("op")?,
        body_hash: hash.try_into().map_err(|_| damaged("hash"))?,
        call: row.try_get("call_id")?,
        job: job
            .map(|id| JobId::parse(id).map_err(|_| damaged("job")))
            .transpose()?,
        state,
    })
}
