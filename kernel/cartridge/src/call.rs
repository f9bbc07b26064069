//! One call: a fresh store and instance, deadlines armed before anything of the
//! guest runs, and every way that it can end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;
use wasmtime::component::{ComponentExportIndex, ComponentNamedList, Instance, Lift, Lower};
use wasmtime::{Engine, PoolConcurrencyLimitError, Store, Trap};

use crate::cartridge::Cartridge;
use crate::error::{GUEST, PlanFailure, Stop};
use crate::host::CartridgeHost;
use crate::outcome::{CallStats, Plan, PlanQuery, settle};
use crate::state::CallState;
use crate::view::{NothingVisible, View};
use crate::wire::{Capabilities, PlanError, Query, ScoredRef};

type Planned = Result<Vec<ScoredRef>, PlanError>;

impl CartridgeHost {
    /// Runs `plan` once over `view`, on an instance of its own.
    ///
    /// Needs a tokio runtime with timers. Dropping the future ends the guest.
    ///
    /// # Errors
    /// [`PlanFailure`]; the caller decides what to serve instead.
    pub async fn plan(
        &self,
        cartridge: &Cartridge,
        view: Arc<dyn View>,
        query: PlanQuery,
    ) -> Result<Plan, PlanFailure> {
        let _place = self.place(cartridge).await?;
        let began = Instant::now();
        let mut call = Call::new(self, view);
        let wire = Query {
            text: Arc::clone(&query.text),
            token_budget: query.token_budget,
            k: query.k,
        };
        let answered: (Planned,) = call.run(cartridge, &cartridge.plan, (wire,)).await?;
        let answer = answered.0.map_err(|error| match error {
            PlanError::Unavailable(why) => PlanFailure::Unavailable(brief(&why)),
            PlanError::Other(why) => PlanFailure::Other(brief(&why)),
        })?;
        let mut stats = call.stats();
        let hits = settle(&answer, &call.store.data().table, &query, &mut stats);
        stats.total = began.elapsed();
        Ok(Plan { hits, stats })
    }

    /// Asks a cartridge what it makes use of, over a view that shows nothing and
    /// under the limits of any call.
    ///
    /// # Errors
    /// [`PlanFailure`], as for [`CartridgeHost::plan`].
    pub async fn capabilities(&self, cartridge: &Cartridge) -> Result<Capabilities, PlanFailure> {
        let _place = self.place(cartridge).await?;
        let mut call = Call::new(self, Arc::new(NothingVisible));
        let answered: (Capabilities,) = call.run(cartridge, &cartridge.capabilities, ()).await?;
        Ok(answered.0)
    }

    /// Waits a little for a free place. A full house says nothing about the
    /// cartridge.
    async fn place(&self, cartridge: &Cartridge) -> Result<OwnedSemaphorePermit, PlanFailure> {
        if !Engine::same(cartridge.code.engine(), &self.engine) {
            let why = "the cartridge was loaded by another host".to_owned();
            return Err(PlanFailure::Host(why));
        }
        let place = Arc::clone(&self.places).acquire_owned();
        match tokio::time::timeout(self.limits.queue_time, place).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(PlanFailure::Overloaded),
        }
    }
}

/// A store for one call. Whatever happens, it is never used again.
struct Call {
    store: Store<CallState>,
    deadline: Instant,
    /// Past the deadline by enough for the guest's own check to come first.
    last_resort: Duration,
    instantiate: Duration,
}

impl Call {
    fn new(host: &CartridgeHost, view: Arc<dyn View>) -> Self {
        let limits = Arc::clone(&host.limits);
        let deadline = Instant::now() + limits.total_time;
        let (copy, last_resort) = (limits.copy, limits.tick);
        let state = CallState::new(view, limits, Arc::clone(&host.lanes), deadline);
        let mut store = Store::new(&host.engine, state);
        store.limiter(|state| &mut state.memory);
        store.set_hostcall_fuel(copy);
        // A start function runs during instantiation: armed before it.
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|mut store| Ok(store.data_mut().on_tick()?));
        Self {
            store,
            deadline,
            last_resort,
            instantiate: Duration::ZERO,
        }
    }

    /// Instantiates `cartridge` and calls one of its functions.
    async fn run<P, R>(
        &mut self,
        cartridge: &Cartridge,
        function: &ComponentExportIndex,
        params: P,
    ) -> Result<R, PlanFailure>
    where
        P: ComponentNamedList + Lower + Send + Sync + 'static,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        // Ticks stop a guest that computes; this stops one that waits.
        let end = (self.deadline + self.last_resort).into();
        match tokio::time::timeout_at(end, self.enter(cartridge, function, params)).await {
            Ok(result) => result,
            Err(_) => Err(PlanFailure::Timeout { during: GUEST }),
        }
    }

    async fn enter<P, R>(
        &mut self,
        cartridge: &Cartridge,
        function: &ComponentExportIndex,
        params: P,
    ) -> Result<R, PlanFailure>
    where
        P: ComponentNamedList + Lower + Send + Sync + 'static,
        R: ComponentNamedList + Lift + Send + Sync + 'static,
    {
        let began = Instant::now();
        let instance: Instance = match cartridge.code.instantiate_async(&mut self.store).await {
            Ok(instance) => instance,
            Err(error) => return Err(self.explain(&error, PlanFailure::Trap)),
        };
        self.instantiate = began.elapsed();
        let function = instance
            .get_typed_func::<P, R>(&mut self.store, function)
            .map_err(|error| PlanFailure::Host(format!("{error:#}")))?;
        let called = function.call_async(&mut self.store, params).await;
        called.map_err(|error| self.explain(&error, PlanFailure::InvalidResult))
    }

    /// Why the engine gave up. What is neither a stop of ours nor a trap is called
    /// by `otherwise`.
    fn explain(
        &self,
        error: &wasmtime::Error,
        otherwise: impl Fn(String) -> PlanFailure,
    ) -> PlanFailure {
        if let Some(stop) = error.downcast_ref::<Stop>() {
            return (*stop).into();
        }
        if error.is::<PoolConcurrencyLimitError>() {
            return PlanFailure::Overloaded;
        }
        let trap = error.downcast_ref::<Trap>();
        match trap {
            Some(Trap::StackOverflow) => PlanFailure::StackOverflow,
            Some(Trap::Interrupt) => PlanFailure::Timeout { during: GUEST },
            // Invariant: a refusal of memory is reported as such, whatever the
            // guest made of it.
            _ if self.store.data().memory.refused() => PlanFailure::OutOfMemory,
            Some(trap) if is_bad_value(*trap) => PlanFailure::InvalidResult(trap.to_string()),
            Some(trap) => PlanFailure::Trap(trap.to_string()),
            None => otherwise(error.root_cause().to_string()),
        }
    }

    fn stats(&self) -> CallStats {
        let used = &self.store.data().used;
        CallStats {
            host_calls: used.host_calls,
            rows: used.rows,
            bytes: used.bytes,
            instantiate: self.instantiate,
            view: used.view_time,
            ..CallStats::default()
        }
    }
}

/// A vendor's own words on their way to a log: one line, at most 200 characters.
fn brief(why: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    why.chars().take(200).map(printable).collect()
}

/// Traps that the engine raises while it reads a value of the guest.
fn is_bad_value(trap: Trap) -> bool {
    matches!(
        trap,
        Trap::InvalidChar
            | Trap::StringOutOfBounds
            | Trap::ListOutOfBounds
            | Trap::InvalidDiscriminant
            | Trap::UnalignedPointer
    )
}
