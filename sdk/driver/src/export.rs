//! From a [`Retriever`] to the exports of a component.

use std::marker::PhantomData;

use crate::bindings::exports::halofy::driver::retriever::Guest;
use crate::bindings::halofy::driver::types as wire;
use crate::host::HostView;
use crate::types::{Capabilities, PlanError, Query, ScoredRef};
use crate::view::ScopedView;

/// A retrieval engine. Each plan runs on a fresh instance: nothing is kept between calls,
/// and the same query over the same view must give the same answer.
pub trait Retriever {
    /// What it makes use of.
    const CAPABILITIES: Capabilities;

    /// Ranks what the view offers, best first. Handles that the view did not give out in
    /// this call are dropped by the kernel.
    ///
    /// # Errors
    /// A [`PlanError`] when it cannot serve; the kernel then serves its baseline.
    fn plan(view: &impl ScopedView, query: &Query) -> Result<Vec<ScoredRef>, PlanError>;
}

/// Makes the crate a cartridge whose engine is the given [`Retriever`]. Once in a crate
/// of type `cdylib`.
#[macro_export]
macro_rules! export {
    ($retriever:ty) => {
        #[allow(unsafe_code, reason = "entry points of the component")]
        const _: () = {
            type Component = $crate::Component<$retriever>;
    $crate::bindings::__export_component!(Component with_types_in $crate::bindings);
        };
    };
}

/// The component that [`export!`] exports.
#[doc(hidden)]
#[derive(Debug)]
pub struct Component<R>(PhantomData<R>);

impl<R: Retriever> Guest for Component<R> {
    fn capabilities() -> wire::Capabilities {
        let Capabilities { graph, streaming } = R::CAPABILITIES;
        wire::Capabilities { graph, streaming }
    }

    fn plan(query: wire::Query) -> Result<Vec<wire::ScoredRef>, wire::PlanError> {
        let wire::Query {
            text,
            token_budget,
            k,
        } = query;
        match R::plan(
            &HostView,
            &Query {
                text,
                token_budget,
                k,
            },
        ) {
            Ok(ranked) => Ok(ranked.into_iter().map(wire::ScoredRef::from).collect()),
            Err(error) => Err(error.into()),
        }
    }
}

impl From<ScoredRef> for wire::ScoredRef {
    fn from(hit: ScoredRef) -> Self {
        Self {
            ref_: hit.handle,
            score: hit.score,
        }
    }
}

impl From<PlanError> for wire::PlanError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Unavailable(why) => Self::Unavailable(why),
            PlanError::Other(why) => Self::Other(why),
        }
    }
}
