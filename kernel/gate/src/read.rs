//! `read`: one memory by id. Hidden and missing look the same to the caller, and
//! are told apart in the audit log.

use halofy_audit::Detail;
use halofy_core::{Memory, MemoryId};
use halofy_store::{Found, Scope};

use crate::Refusal;
use crate::audit::{Ending, Trail};
use crate::body::ReadRequest;
use crate::gate::{Done, Gate, Recorded};
use crate::prologue::Authorized;

impl Gate {
    pub(crate) async fn read(
        &self,
        caller: &Authorized,
        request: &ReadRequest,
        trail: &mut Trail,
    ) -> Result<Done, Refusal> {
        let id = request.id()?;
        trail.memory(id);
        let scope = Scope::of(caller.identity());
        let memory = match request.as_of()? {
            Some(at) => self.memory_at(&scope, &id, at).await?,
            None => self.memory_now(&scope, &id).await?,
        };
        let answer = serde_json::to_value(&memory).map_err(|error| Refusal::Internal {
            why: error.to_string(),
        })?;
        let recorded = Recorded::Pending(Ending::ok(Detail::new().field("returned", 1)));
        Ok(Done { answer, recorded })
    }

    async fn memory_now(&self, scope: &Scope, id: &MemoryId) -> Result<Memory, Refusal> {
        match self.store.memory_read(scope, id).await? {
            Found::Memory(memory) => Ok(*memory),
            Found::Hidden => Err(Refusal::NotFound { hidden: true }),
            Found::Missing => Err(Refusal::NotFound { hidden: false }),
        }
    }
}
