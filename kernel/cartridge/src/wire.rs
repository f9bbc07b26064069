//! The types of `halofy:driver/types@1.0.0` as they cross the boundary, field for
//! field. Content is shared, not copied, until it is written into the guest.

use std::sync::Arc;

use wasmtime::component::{ComponentType, Lift, Lower};

use crate::view::ViewFailure;

#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct Candidate {
    #[component(name = "ref")]
    pub(crate) handle: u32,
    pub(crate) content: Arc<str>,
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct ScoredCandidate {
    #[component(name = "ref")]
    pub(crate) handle: u32,
    pub(crate) content: Arc<str>,
    pub(crate) score: f64,
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct EntityFact {
    #[component(name = "ref")]
    pub(crate) handle: u32,
    pub(crate) content: Arc<str>,
    pub(crate) entity: Arc<str>,
}

/// What a driver says that it makes use of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ComponentType, Lift)]
#[component(record)]
pub struct Capabilities {
    /// It calls `entity-facts`.
    pub graph: bool,
    /// It can give results one by one.
    pub streaming: bool,
}

#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct Query {
    pub(crate) text: Arc<str>,
    #[component(name = "token-budget")]
    pub(crate) token_budget: u32,
    pub(crate) k: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, ComponentType, Lift)]
#[component(record)]
pub(crate) struct ScoredRef {
    #[component(name = "ref")]
    pub(crate) handle: u32,
    pub(crate) score: f64,
}

#[derive(ComponentType, Lower)]
#[component(variant)]
pub(crate) enum ViewError {
    #[component(name = "unavailable")]
    Unavailable(String),
    #[component(name = "invalid-argument")]
    InvalidArgument(String),
    #[component(name = "limit-exceeded")]
    LimitExceeded(String),
}

impl From<ViewFailure> for ViewError {
    fn from(failure: ViewFailure) -> Self {
        match failure {
            ViewFailure::Unavailable(why) => Self::Unavailable(why),
            ViewFailure::InvalidArgument(why) => Self::InvalidArgument(why),
            ViewFailure::Limit(why) => Self::LimitExceeded(why),
        }
    }
}

#[derive(ComponentType, Lift)]
#[component(variant)]
pub(crate) enum PlanError {
    #[component(name = "unavailable")]
    Unavailable(String),
    #[component(name = "other")]
    Other(String),
}
