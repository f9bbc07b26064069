//! Why the language model gave no answer that can be used. No message carries a text, an
//! answer, the URL or the key.

use std::time::Duration;

use thiserror::Error;

/// Why the language model did not help. The write goes on without it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ModelError {
    /// Down, or it lets nobody in: no connection, one that broke, another status than 200.
    #[error("the model is unavailable: {0}")]
    Unavailable(String),
    /// No whole answer in time, waiting for a place included.
    #[error("the model did not answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    /// The service is there, and its status says that this request is one that it does not
    /// take: too long, as often as not.
    #[error("the model refused the request: {0}")]
    Refused(String),
    /// An answer that is none of the chat protocol.
    #[error("the model's answer cannot be used: {why}")]
    Misshapen {
        /// What is wrong with it.
        why: String,
        /// What it cost, if it says so all the same.
        tokens: u64,
    },
    /// An answer of the chat protocol in which the model did not write what was asked for.
    #[error("the model's answer cannot be used: {why}")]
    Garbage {
        /// What is wrong with it.
        why: String,
        /// What it cost.
        tokens: u64,
    },
    /// It failed several times in a row and is left alone. Nothing was sent.
    #[error("the model is left alone for another {} ms", .retry_after.as_millis())]
    CircuitOpen {
        /// Until it is worth asking again.
        retry_after: Duration,
    },
}

impl ModelError {
    /// A stable word for the answer and for the audit line `brownout=<word>`.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "llm_unavailable",
            Self::Timeout(_) => "llm_timeout",
            Self::Refused(_) => "llm_refused",
            Self::Misshapen { .. } | Self::Garbage { .. } => "llm_garbage",
            Self::CircuitOpen { .. } => "llm_circuit_open",
        }
    }

    /// Whether the service is at fault. What a text made the model write, and a text that it
    /// does not take, say nothing against it: one caller must not shut it for all others.
    pub(crate) fn is_outage(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Timeout(_) | Self::Misshapen { .. } => true,
            Self::Refused(_) | Self::Garbage { .. } | Self::CircuitOpen { .. } => false,
        }
    }

    /// What the service counts for it all the same.
    pub(crate) fn tokens(&self) -> u64 {
        match self {
            Self::Misshapen { tokens, .. } | Self::Garbage { tokens, .. } => *tokens,
            _ => 0,
        }
    }

    /// The label in the metrics.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "unavailable",
            Self::Timeout(_) => "timeout",
            Self::Refused(_) => "refused",
            Self::Misshapen { .. } | Self::Garbage { .. } => "garbage",
            Self::CircuitOpen { .. } => "circuit_open",
        }
    }
}
