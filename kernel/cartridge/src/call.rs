//! One call: a fresh store and instance, deadlines armed before anything of the
//! guest runs, and every way that it can end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;
use wasmtime::component::{ComponentExportIndex, ComponentNamedList, Instance, Lift, Lower};
use wasmtime::{Engine, PoolConcurrencyLimitError, Store, Trap};

use crate::call_limits::CallLimits;
use crate::cartridge::Cartridge;
use crate::error::{Failed, GUEST, PlanFailure, Stop};
use crate::host::CartridgeHost;
use crate::outcome::{CallStats, Plan, PlanQuery, settle};
use crate::state::CallState;
use crate::view::{NothingVisible, View};
use crate::wire::{Capabilities, PlanError, Query, ScoredRef};

/// More than a call can use.
const FUEL: u64 = u64::MAX;

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
        let planned = self.plan_measured(cartridge, view, query).await;
        planned.map_err(|failed| failed.failure)
    }

    /// As [`CartridgeHost::plan`], and says of a failure too what it cost.
    ///
    /// # Errors
    /// [`Failed`].
    pub async fn plan_measured(
        &self,
        cartridge: &Cartridge,
        view: Arc<dyn View>,
        query: PlanQuery,
    ) -> Result<Plan, Failed> {
        let _place = self.place(cartridge).await.map_err(|failure| Failed {
            failure,
            stats: CallStats::default(),
        })?;
        let mut call = Call::new(self, view, &cartridge.limits);
        let settled = call.plan(cartridge, &query).await;
        let mut stats = call.stats();
        let outcome = settled.map(|answer| {
            let table = &call.store.data().table;
            settle(&answer, table, &query, &mut stats)
        });
        stats.finish(call.began.elapsed());
        match outcome {
            Ok(hits) => Ok(Plan { hits, stats }),
            Err(failure) => Err(Failed { failure, stats }),
        }
    }

    /// Asks a cartridge what it makes use of, over a view that shows nothing and
    /// under the limits of any call.
    ///
    /// # Errors
    /// [`PlanFailure`], as for [`CartridgeHost::plan`].
    pub async fn capabilities(&self, cartridge: &Cartridge) -> Result<Capabilities, PlanFailure> {
        let _place = self.place(cartridge).await?;
        let mut call = Call::new(self, Arc::new(NothingVisible), &cartridge.limits);
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
    began: Instant,
    /// What making the instance took, once that is over.
    instantiated: Option<Duration>,
}

impl Call {
    fn new(host: &CartridgeHost, view: Arc<dyn View>, limits: &Arc<CallLimits>) -> Self {
        let began = Instant::now();
        let deadline = began + limits.total_time;
        let (copy, last_resort) = (limits.copy, host.limits.tick);
        let (lanes, table_elements) = (Arc::clone(&host.lanes), host.limits.table_elements);
        let state = CallState::new(view, Arc::clone(limits), table_elements, lanes, deadline);
        let mut store = Store::new(&host.engine, state);
        store.limiter(|state| &mut state.memory);
        store.set_hostcall_fuel(copy);
        if host.limits.count_fuel {
            // Counted, never a limit: time is.
            let _ = store.set_fuel(FUEL);
        }
        // A start function runs during instantiation: armed before it.
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|mut store| Ok(store.data_mut().on_tick()?));
        Self {
            store,
            deadline,
            last_resort,
            began,
            instantiated: None,
        }
    }

    async fn plan(
        &mut self,
        cartridge: &Cartridge,
        query: &PlanQuery,
    ) -> Result<Vec<ScoredRef>, PlanFailure> {
        let wire = Query {
            text: Arc::clone(&query.text),
            token_budget: query.token_budget,
            k: query.k,
        };
        let answered: (Planned,) = self.run(cartridge, &cartridge.plan, (wire,)).await?;
        answered.0.map_err(|error| match error {
            PlanError::Unavailable(why) => PlanFailure::Unavailable(brief(&why)),
            PlanError::Other(why) => PlanFailure::Other(brief(&why)),
        })
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
        let instantiated = cartridge.code.instantiate_async(&mut self.store).await;
        self.instantiated = Some(self.own_time());
        let instance: Instance =
            instantiated.map_err(|error| self.explain(&error, PlanFailure::Trap))?;
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

    /// Since the beginning, without the view: a start function may ask it too.
    fn own_time(&self) -> Duration {
        let view = self.store.data().used.waited();
        self.began.elapsed().saturating_sub(view)
    }

    fn stats(&self) -> CallStats {
        let used = &self.store.data().used;
        CallStats {
            host_calls: used.host_calls,
            rows: used.rows,
            bytes: used.bytes,
            instantiate: self.instantiated.unwrap_or_else(|| self.own_time()),
            view: used.waited(),
            memory: self.store.data().memory.held() as u64,
            // An error where nothing is counted.
            fuel: self.store.get_fuel().map_or(0, |left| FUEL - left),
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
