//! Why a cartridge was not admitted, and why a call of one failed.

use std::fmt;

use thiserror::Error;

use crate::outcome::CallStats;
use crate::signing::SignatureError;

/// Why there is no engine to run cartridges on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the cartridge engine does not start: {0}")]
pub struct EngineError(String);

impl EngineError {
    pub(crate) fn of(error: impl fmt::Display) -> Self {
        // The alternate form of the engine's errors shows their causes.
        Self(format!("{error:#}"))
    }
}

/// Why bytes were not admitted as a cartridge.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Larger than [`Limits::component`](crate::Limits::component).
    #[error("the component has {size} bytes, the limit is {limit}")]
    TooLarge {
        /// Bytes offered.
        size: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// Machine code. Only the kernel's own compiler makes that.
    #[error("a precompiled artefact is never accepted: send the WebAssembly component")]
    Precompiled,
    /// A core module, which has no typed interface to check.
    #[error("this is a core WebAssembly module, a cartridge is a component")]
    CoreModule,
    /// Neither a module nor a component, WebAssembly text included.
    #[error("these bytes are not a WebAssembly component")]
    NotWebAssembly,
    /// Structurally invalid.
    #[error("the component is malformed: {0}")]
    Malformed(String),
    /// Asks for something outside the scoped view.
    #[error("the component asks for what no cartridge gets: {}", imports.join("; "))]
    Refused {
        /// Every offending import, in the component's order. A function of the
        /// view is written `interface#function: why`.
        imports: Vec<String>,
    },
    /// Does not export the retriever.
    #[error("the component does not export {}", crate::RETRIEVER)]
    NoRetriever,
    /// Exports another version of the retriever.
    #[error("the component exports {found}, this kernel runs {}", crate::RETRIEVER)]
    RetrieverVersion {
        /// The name that was found.
        found: String,
    },
    /// Exports a retriever with other functions than the contract's.
    #[error("the retriever does not fit the contract: {}", problems.join("; "))]
    RetrieverShape {
        /// One sentence for each function that does not fit.
        problems: Vec<String>,
    },
    /// The manifest section is unusable.
    #[error("the manifest is unusable: {0}")]
    Manifest(String),
    /// No trusted signature.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// Built so that compiling it is costly, on purpose or not.
    #[error("the component has {found} {what}, the limit is {limit}")]
    Structure {
        /// What there is too much of.
        what: &'static str,
        /// How much was found before the count was given up.
        found: u64,
        /// How much is allowed.
        limit: u64,
    },
    /// The compiler used up what one component may: `time` or `memory`; or it
    /// crashed over it.
    #[error("the compiler was stopped: {0}; make the largest functions smaller")]
    CompileLimit(String),
    /// The compiler's process could not be run. Says nothing about the component.
    #[error("the compiler does not run: {0}")]
    Compiler(String),
    /// The compiler refused it, for instance because it exceeds the pool.
    #[error("the component does not compile here: {0}")]
    Compile(String),
}

impl LoadError {
    /// A stable word for audit rows and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::TooLarge { .. } => "too_large",
            Self::Precompiled => "precompiled",
            Self::CoreModule => "core_module",
            Self::NotWebAssembly => "not_webassembly",
            Self::Malformed(_) => "malformed",
            Self::Refused { .. } => "imports_refused",
            Self::NoRetriever => "no_retriever",
            Self::RetrieverVersion { .. } => "retriever_version",
            Self::RetrieverShape { .. } => "retriever_shape",
            Self::Manifest(_) => "manifest",
            Self::Signature(error) => error.reason(),
            Self::Structure { .. } => "structure",
            Self::CompileLimit(_) => "compile_limit",
            Self::Compiler(_) => "compiler",
            Self::Compile(_) => "compile",
        }
    }
}

/// Why one call did not give a plan. Its instance is gone in every case.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PlanFailure {
    /// The guest trapped.
    #[error("the cartridge trapped: {0}")]
    Trap(String),
    /// The call, or one import of it, ran out of time.
    #[error("the cartridge ran out of time in {during}")]
    Timeout {
        /// `guest`, or the name of the import that did not answer.
        during: &'static str,
    },
    /// The guest stopped after the host refused it more memory, or asked for too
    /// much from the start.
    #[error("the cartridge ran out of memory")]
    OutOfMemory,
    /// The guest's stack is used up.
    #[error("the cartridge used up its stack")]
    StackOverflow,
    /// More calls of the view than allowed.
    #[error("the cartridge called the view too often")]
    HostCallLimit,
    /// A value that crossed the boundary breaks the contract: invalid UTF-8, a
    /// bad discriminant, a list out of bounds, more bytes than allowed.
    #[error("the cartridge passed an invalid value: {0}")]
    InvalidResult(String),
    /// The cartridge says that it cannot serve now.
    #[error("the cartridge is unavailable: {0}")]
    Unavailable(String),
    /// The cartridge gave another error.
    #[error("the cartridge failed: {0}")]
    Other(String),
    /// All places are taken. Says nothing about the cartridge.
    #[error("too many calls are running")]
    Overloaded,
    /// The kernel's own side failed. Says nothing about the cartridge.
    #[error("the host failed: {0}")]
    Host(String),
}

impl PlanFailure {
    /// A stable word for the audit line
    /// `driver_fallback=<name>->baseline reason=<word>`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Trap(_) => "trap",
            Self::Timeout { .. } => "timeout",
            Self::OutOfMemory => "out_of_memory",
            Self::StackOverflow => "stack_overflow",
            Self::HostCallLimit => "host_call_limit",
            Self::InvalidResult(_) => "invalid_result",
            Self::Unavailable(_) => "unavailable",
            Self::Other(_) => "error",
            Self::Overloaded => "overloaded",
            Self::Host(_) => "host",
        }
    }

    /// Whether the failure counts against the cartridge. Overload, a fault of the
    /// kernel and an import that hangs do not.
    pub fn is_cartridge_fault(&self) -> bool {
        match self {
            Self::Overloaded | Self::Host(_) => false,
            Self::Timeout { during } => *during == GUEST,
            _ => true,
        }
    }
}

/// A call that failed, and what it had used by then.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{failure}")]
pub struct Failed {
    /// Why.
    pub failure: PlanFailure,
    /// What was used; all zero when the call never began.
    pub stats: CallStats,
}

/// Where time ran out when no import was running.
pub(crate) const GUEST: &str = "guest";

/// What the host raises inside a call, through the guest, to end it.
#[derive(Debug, Clone, Copy, Error)]
pub(crate) enum Stop {
    #[error("out of time in {0}")]
    Timeout(&'static str),
    #[error("too many calls of the view")]
    HostCalls,
    #[error("the view panicked in {0}")]
    ViewPanicked(&'static str),
}

impl From<Stop> for PlanFailure {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Timeout(during) => Self::Timeout { during },
            Stop::HostCalls => Self::HostCallLimit,
            Stop::ViewPanicked(import) => Self::Host(format!("the view panicked in {import}")),
        }
    }
}
