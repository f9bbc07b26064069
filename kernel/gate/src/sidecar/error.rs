//! Why there is no sidecar, and why one gave no plan. No message carries the URL, the
//! query or an answer.

use halofy_cartridge::ViewFailure;
use thiserror::Error;

/// Why a sidecar cannot be mounted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SidecarError {
    /// No URL is configured.
    #[error("a sidecar needs a URL")]
    NoUrl,
    /// The URL cannot be used.
    #[error("the sidecar's URL {0}")]
    Url(String),
    /// What falls back to the baseline cannot be the baseline.
    #[error("a sidecar cannot be named {}", halofy_core::DEFAULT_DRIVER)]
    ReservedName,
    /// No HTTP client can be made here.
    #[error("no HTTP client: {0}")]
    Client(String),
}

/// Why a sidecar gave no plan. Of two attempts, the failure of the second.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SidecarFailure {
    /// The view could not offer candidates. Says nothing about the sidecar.
    #[error("the view failed: {0}")]
    View(#[from] ViewFailure),
    /// No whole answer in time.
    #[error("the sidecar did not answer in time")]
    Timeout,
    /// No connection, or one that broke.
    #[error("the sidecar cannot be reached: {0}")]
    Transport(String),
    /// Another status than 2xx; redirects are not followed.
    #[error("the sidecar answered with status {0}")]
    Status(u16),
    /// More bytes than an answer may have.
    #[error("the sidecar's answer is larger than {limit} bytes")]
    TooLarge {
        /// Bytes allowed.
        limit: usize,
    },
    /// Not the JSON of the contract.
    #[error("the sidecar's answer is not what the contract says (line {line}, column {column})")]
    Malformed {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// It says itself that it is not well. Only of `/healthz`.
    #[error("the sidecar says that it is not well")]
    Unwell,
}

impl SidecarFailure {
    /// A stable word for the audit line
    /// `driver_fallback=<name>->baseline reason=<word>`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::View(_) => "view",
            Self::Timeout => "sidecar_timeout",
            Self::Transport(_) => "sidecar_transport",
            Self::Status(_) => "sidecar_status",
            Self::TooLarge { .. } => "sidecar_too_large",
            Self::Malformed { .. } => "sidecar_malformed",
            Self::Unwell => "sidecar_unwell",
        }
    }

    /// Whether the failure counts against the sidecar.
    pub fn is_sidecar_fault(&self) -> bool {
        !matches!(self, Self::View(_))
    }
}
