//! Erasing what jobs hold.

use halofy_core::{JobId, MemoryId, Namespace};

use super::{JobRecord, job_columns, read_record};
use crate::idempotency::erase_of_jobs;
use crate::scope::{in_subtree, subtree_pattern};
use crate::{StoreError, Transaction};

/// Which jobs to erase.
#[derive(Debug, Clone, Copy)]
pub enum JobsOf<'a> {
    /// Those in a namespace or below it.
    Subtree(&'a Namespace),
    /// Those in a namespace or below it that came from this: a document's path.
    Source(&'a Namespace, &'a str),
    /// Those that are about one of these memories, or stored one.
    Memories(&'a [MemoryId]),
    /// These.
    Ids(&'a [JobId]),
}

/// Takes what a job holds out of it, and stops it if it has not come to its end.
macro_rules! erase_jobs {
    () => {
        "update jobs set payload = null, progress = null, result = null, memories = '{}',
                error = 'erased',
                state = case when finished_at is null then 'cancelled' else state end,
                lease_token = null, lease_until = null,
                finished_at = coalesce(finished_at, now()), erased_at = now()
          where erased_at is null and "
    };
}

impl Transaction<'_> {
    /// Erases what jobs hold, stops those that have not come to their end, and erases the
    /// answers of the calls that they finish. Gives those that it touched, as they are now.
    ///
    /// Before the memories of the same erasure are deleted, in the same transaction: a job
    /// that commits while this waits for it is seen by the deletion, and a later one has
    /// lost its lease.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn jobs_scrub(&mut self, of: JobsOf<'_>) -> Result<Vec<JobRecord>, StoreError> {
        let rows = match of {
            JobsOf::Subtree(namespace) => {
                sqlx::query(concat!(
                    erase_jobs!(),
                    in_subtree!(),
                    " returning ",
                    job_columns!()
                ))
                .bind(namespace.as_str())
                .bind(subtree_pattern(namespace))
                .fetch_all(self.connection())
                .await?
            }
            JobsOf::Source(namespace, reference) => {
                sqlx::query(concat!(
                    erase_jobs!(),
                    in_subtree!(),
                    " and payload ->> 'source' = $3 returning ",
                    job_columns!()
                ))
                .bind(namespace.as_str())
                .bind(subtree_pattern(namespace))
                .bind(reference)
                .fetch_all(self.connection())
                .await?
            }
            JobsOf::Memories(ids) => {
                sqlx::query(concat!(
                    erase_jobs!(),
                    "(payload ->> 'memory' = any($1)
                      or (memories <> '{}' and memories && $1)) returning ",
                    job_columns!()
                ))
                .bind(ids.iter().map(ToString::to_string).collect::<Vec<_>>())
                .fetch_all(self.connection())
                .await?
            }
            JobsOf::Ids(ids) => {
                sqlx::query(concat!(
                    erase_jobs!(),
                    "id = any($1) returning ",
                    job_columns!()
                ))
                .bind(ids.iter().map(ToString::to_string).collect::<Vec<_>>())
                .fetch_all(self.connection())
                .await?
            }
        };
        let records = rows
            .iter()
            .map(read_record)
            .collect::<Result<Vec<_>, _>>()?;
        let ids: Vec<_> = records.iter().map(|job| job.id.to_string()).collect();
        erase_of_jobs(self.connection(), &ids).await?;
        Ok(records)
    }
}
