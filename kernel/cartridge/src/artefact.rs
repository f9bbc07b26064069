//! Machine code on its way from the kernel's own compiler to its engine. The only
//! place with `unsafe`: an engine cannot check machine code, so what reaches it is
//! decided by who can make an [`Artefact`].

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::error::LoadError;

/// Bytes that the kernel's own compiler made.
///
/// Invariant: made from the output of a child process of ours that ended well, or
/// from a cache entry whose authentication code is right. Nothing else makes one.
pub(crate) struct Artefact(Vec<u8>);

impl Artefact {
    /// The whole output of a child that compiles and does nothing else.
    pub(crate) fn from_our_compiler(output: Vec<u8>) -> Self {
        Self(output)
    }

    /// A cache entry whose authentication code was found right.
    pub(crate) fn from_authenticated_cache(entry: Vec<u8>) -> Self {
        Self(entry)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Loads the code into `engine`, which refuses code made under other settings.
    pub(crate) fn load(&self, engine: &Engine) -> Result<Component, LoadError> {
        #[allow(
            unsafe_code,
            reason = "no engine can check machine code; the invariant of the type is the check"
        )]
        // SAFETY: these bytes are what `Engine::precompile_component` gave, unchanged,
        // by the invariant of `Artefact`.
        let component = unsafe { Component::deserialize(engine, &self.0) };
        component.map_err(|e| LoadError::Compile(format!("{e:#}")))
    }
}
