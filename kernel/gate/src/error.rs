//! Why a call was refused, and what the audit log says about it.
//!
//! Not here: HTTP status codes and wording for people; the transport has those.

use std::time::Duration;

use halofy_audit::{Detail, Outcome};
use halofy_core::{Invalid, JobState, Op, Role};
use halofy_store::StoreError;
use thiserror::Error;

use crate::embed::EmbedError;

/// Why a call got no answer.
#[derive(Debug, Error)]
pub enum Refusal {
    /// No key, an unknown one, or one that no longer works. The caller is not
    /// told which.
    #[error("the key is missing, unknown, expired or revoked")]
    Unauthenticated {
        /// For the audit log only.
        why: &'static str,
    },
    /// The request names somebody. Only the key does that.
    #[error("the request names an identity in `{name}`; namespace and actor come from the key")]
    IdentityClaimed {
        /// Where the claim stood.
        name: String,
    },
    /// The role may not make this call.
    #[error("the role {role} may not {op}")]
    RoleForbids {
        /// The caller's role.
        role: Role,
        /// What it tried.
        op: Op,
    },
    /// The namespace or one above it is suspended.
    #[error("the namespace is suspended")]
    Suspended,
    /// Too many calls with this key.
    #[error("too many requests with this key")]
    RateLimited {
        /// When the next one will be let in.
        retry_after: Duration,
    },
    /// The body is not JSON.
    #[error("the body is not JSON: {0}")]
    Malformed(String),
    /// The body is larger than what a call may send.
    #[error("the body is larger than {limit} bytes")]
    TooLarge {
        /// Bytes allowed.
        limit: usize,
    },
    /// The body broke off, or came too slowly.
    #[error("the body did not arrive whole")]
    Incomplete,
    /// A field breaks a rule.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No such memory for this caller: missing or hidden.
    #[error("there is no such memory")]
    NotFound {
        /// For the audit log only.
        hidden: bool,
    },
    /// The key of the call stands for another call.
    #[error("the idempotency key was used for another call")]
    IdempotencyConflict,
    /// The call under this key is not finished.
    #[error("the first call with this idempotency key is not finished")]
    IdempotencyInProgress,
    /// What the call under this key answered was erased.
    #[error("what the call with this idempotency key stored was erased")]
    IdempotencyErased,
    /// What a call tells of was erased while it was under way.
    #[error("what it tells of was erased while it was written; nothing was stored")]
    Erased,
    /// A job stands where the change does not apply.
    #[error("the job is {state}{}", if *.erased { " and erased" } else { "" })]
    JobUnfit {
        /// Where it stands.
        state: JobState,
        /// Whether nothing is left to run.
        erased: bool,
    },
    /// A cartridge is not let in.
    #[error("the cartridge is refused: {why}")]
    DriverRefused {
        /// A stable word.
        reason: &'static str,
        /// What its vendor can do about it.
        why: String,
    },
    /// All places for cartridges are taken.
    #[error("too many searches are running")]
    Overloaded,
    /// Something that the call needs does not answer now.
    #[error("{what} is not available")]
    Unavailable {
        /// `store`, `audit`, `embedder`, `retrieval` or `job`.
        what: &'static str,
        /// For the kernel's own log.
        why: String,
    },
    /// The embedder answers, and not with vectors of the store's space.
    #[error("the embedder gave no vector of this store's space: {why}")]
    NoVector {
        /// What is wrong with them, such as both sizes; nothing of any text.
        why: String,
    },
    /// A fault of the kernel.
    #[error("the kernel failed")]
    Internal {
        /// For the kernel's own log.
        why: String,
    },
}

impl Refusal {
    /// A stable word for callers, metrics and the audit log.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unauthenticated { .. } => "unauthenticated",
            Self::IdentityClaimed { .. } => "identity_claimed",
            Self::RoleForbids { .. } => "role_forbids",
            Self::Suspended => "suspended",
            Self::RateLimited { .. } => "rate_limited",
            Self::Malformed(_) => "malformed_json",
            Self::TooLarge { .. } => "body_too_large",
            Self::Incomplete => "body_incomplete",
            Self::Invalid(_) => "invalid_field",
            Self::NotFound { .. } => "not_found",
            Self::IdempotencyConflict => "idempotency_conflict",
            Self::IdempotencyInProgress => "idempotency_in_progress",
            Self::IdempotencyErased => "idempotency_erased",
            Self::Erased => "erased",
            Self::JobUnfit { .. } => "job_unfit",
            Self::DriverRefused { .. } => "driver_refused",
            Self::Overloaded => "overloaded",
            Self::Unavailable { .. } | Self::NoVector { .. } => "unavailable",
            Self::Internal { .. } => "internal",
        }
    }

    /// How the audit log counts it.
    pub(crate) fn outcome(&self) -> Outcome {
        match self {
            Self::Unauthenticated { .. }
            | Self::IdentityClaimed { .. }
            | Self::RoleForbids { .. }
            | Self::Suspended
            | Self::RateLimited { .. }
            | Self::DriverRefused { .. }
            | Self::NotFound { hidden: true } => Outcome::Denied,
            Self::NotFound { hidden: false } => Outcome::Miss,
            Self::Malformed(_)
            | Self::TooLarge { .. }
            | Self::Incomplete
            | Self::Invalid(_)
            | Self::IdempotencyConflict
            | Self::IdempotencyInProgress
            | Self::IdempotencyErased
            | Self::Erased
            | Self::JobUnfit { .. }
            | Self::Overloaded
            | Self::Unavailable { .. }
            | Self::NoVector { .. }
            | Self::Internal { .. } => Outcome::Error,
        }
    }

    /// The audit detail: the true reason, and no text that the caller sent except
    /// the name of a field.
    pub(crate) fn detail(&self) -> Detail {
        let detail = Detail::new().field("reason", self.code());
        match self {
            Self::Unauthenticated { why } => detail.field("why", why),
            Self::IdentityClaimed { name } => detail.field("field", name),
            Self::RoleForbids { role, .. } => detail.field("role", role),
            Self::Invalid(invalid) => detail.field("field", &invalid.field),
            Self::NotFound { hidden } => {
                detail.field("why", if *hidden { "hidden" } else { "missing" })
            }
            Self::JobUnfit { state, .. } => detail.field("state", state),
            Self::DriverRefused { reason, .. } => detail.field("why", reason),
            Self::Unavailable { what, .. } => detail.field("what", what),
            Self::NoVector { .. } => detail.field("what", "embedder"),
            _ => detail,
        }
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let why = error.to_string();
        match error {
            // Cancelled, erased or taken over: the caller may ask again, and learns which.
            StoreError::LeaseLost => Self::Unavailable { what: "job", why },
            // Nothing was stored, and the next try meets what is there then.
            StoreError::Raced(_) => Self::Unavailable { what: "store", why },
            _ if error.is_transient() => Self::Unavailable { what: "store", why },
            _ => Self::Internal { why },
        }
    }
}

impl Refusal {
    /// An embedder's failure while the field `field` was embedded.
    pub(crate) fn embedding(error: &EmbedError, field: &str) -> Self {
        match error {
            EmbedError::EmptyText { .. } => {
                Invalid::new(field, "holds nothing that can be embedded").into()
            }
            EmbedError::WrongDimension { .. } | EmbedError::InvalidVector(_) => Self::NoVector {
                why: error.to_string(),
            },
            _ => Self::Unavailable {
                what: "embedder",
                why: error.to_string(),
            },
        }
    }
}
