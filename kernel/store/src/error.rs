//! What can go wrong in the store, told apart by what the caller can do about it.

use halofy_core::Invalid;
use thiserror::Error;

use crate::embedded::EmbeddedError;

/// A failure of the store. None of these texts is meant for an agent: the
/// transport answers with a code, and logs the text.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The database cannot be reached, or has no connection to give. Trying
    /// again later may help.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The database refused a statement. Trying again will not help.
    #[error("the database refused a statement: {0}")]
    Refused(String),
    /// Somebody else changed the same rows first. Nothing was stored: decide again, on what
    /// holds now.
    #[error("another writer was first: {0}")]
    Raced(String),
    /// A stored value cannot be what its column says.
    #[error("a stored value is damaged: {0}")]
    Corrupt(String),
    /// The configured vector space is not the one that the stored vectors are in.
    #[error(
        "this database was made with the embedder {stored}, and the configuration says \
         {configured}; configure the first, or start with another --data directory"
    )]
    OtherEmbedder {
        /// As fixed at first boot.
        stored: String,
        /// As configured now.
        configured: String,
    },
    /// What was to be changed is no longer this worker's, or this call's, to change: its
    /// transaction must be rolled back.
    #[error("the lease was taken away")]
    LeaseLost,
    /// The embedded database could not start.
    #[error(transparent)]
    Embedded(#[from] EmbeddedError),
    /// The database lacks something that the schema needs.
    #[error("the schema could not be brought up to date: {0}")]
    Migration(String),
    /// An argument that no caller's input leads to.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(db) if lost_a_race(db.code().as_deref(), db.constraint()) => {
                Self::Raced(error.to_string())
            }
            sqlx::Error::Database(db) => match db.code().as_deref() {
                // Connection failures, resources, operator intervention, time-outs; and a
                // server that lets nobody in: wrong password, no such database, closed
                // to connections.
                Some(code)
                    if ["08", "53", "57", "28", "3D", "55000"]
                        .iter()
                        .any(|class| code.starts_with(class)) =>
                {
                    Self::Unavailable(error.to_string())
                }
                _ => Self::Refused(error.to_string()),
            },
            sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::Decode(_)
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::RowNotFound => Self::Corrupt(error.to_string()),
            _ => Self::Unavailable(error.to_string()),
        }
    }
}

/// A deadlock, a lock that was waited for too long, one of the constraints that hold between
/// writers that decide at once, or a memory that was erased before another could name it.
fn lost_a_race(code: Option<&str>, constraint: Option<&str>) -> bool {
    const BETWEEN_WRITERS: [&str; 5] = [
        "memory_objects_current_text_unique",
        "memory_objects_one_in_slot",
        "memory_objects_one_successor",
        "entity_registry_name_unique",
        "conflicts_pair_unique",
    ];
    const NAMES_A_MEMORY: [&str; 4] = [
        "memory_objects_supersedes_fk",
        "memory_objects_restores_fk",
        "conflicts_incoming_fk",
        "conflicts_incumbent_fk",
    ];
    match code {
        Some("40001" | "40P01" | "55P03") => true,
        Some("23503") => constraint.is_some_and(|name| NAMES_A_MEMORY.contains(&name)),
        Some("23505") => constraint.is_some_and(|name| BETWEEN_WRITERS.contains(&name)),
        _ => false,
    }
}

impl StoreError {
    /// Whether trying again later may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}
