//! What passes between a cartridge and its view, free of any version of the contract.

/// A handle to one memory, given out in this call only, in the order of admission.
pub type Handle = u32;

/// A memory that the caller may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Names the memory in this call.
    pub handle: Handle,
    /// Its text.
    pub content: String,
}

/// A memory with the score that the view gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredCandidate {
    /// Names the memory in this call.
    pub handle: Handle,
    /// Its text.
    pub content: String,
    /// Cosine similarity, in [-1, 1].
    pub score: f64,
}

/// A memory that mentions an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntityFact {
    /// Names the memory in this call.
    pub handle: Handle,
    /// Its text.
    pub content: String,
    /// The canonical name of the entity that it mentions.
    pub entity: String,
}

/// What a cartridge makes use of. Conformance checks that it is honest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// It calls [`ScopedView::entity_facts`](crate::ScopedView::entity_facts).
    pub graph: bool,
    /// Reserved: no contract streams yet.
    pub streaming: bool,
}

/// One request for context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// What is asked.
    pub text: String,
    /// The sum of ceil(characters / 4) over the results stays within this; the top hit
    /// alone may exceed it.
    pub token_budget: u32,
    /// At most this many results.
    pub k: u32,
}

/// One ranked result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredRef {
    /// A memory that the view admitted in this call.
    pub handle: Handle,
    /// Finite; higher is better.
    pub score: f64,
}

/// Why the view could not answer. A cartridge may go on without that arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewError {
    /// The store or the embedder is not reachable now.
    Unavailable(String),
    /// An argument is out of range, or has the wrong size.
    InvalidArgument(String),
    /// A limit of this call is used up.
    LimitExceeded(String),
}

/// Why a plan could not be made. The kernel then serves its baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanError {
    /// The engine cannot serve now.
    Unavailable(String),
    /// Anything else.
    Other(String),
}

/// For a retriever that cannot do without the arm that failed.
impl From<ViewError> for PlanError {
    fn from(error: ViewError) -> Self {
        match error {
            ViewError::Unavailable(why)
            | ViewError::InvalidArgument(why)
            | ViewError::LimitExceeded(why) => Self::Unavailable(why),
        }
    }
}
