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

impl StoreError {
    /// Whether trying again later may help.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}
