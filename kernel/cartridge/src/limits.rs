//! What a kernel's sandbox holds, and what a call gets where nobody says otherwise.
//! Numbers only; the code that enforces each stands where the resource is handed out.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::call_limits::{CallLimits, Overrides};

/// The bounds of the sandbox. Sizes are in bytes, times are wall-clock.
///
/// Raising `memory`, `calls` or `memories` raises the address space that the
/// engine reserves (not the memory that it uses): 4 GiB for each memory slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The largest component that is admitted: 32 MiB. CPython alone takes 18.
    pub component: usize,
    /// All linear memories of one call together: 64 MiB.
    pub memory: usize,
    /// Linear memories in one component: 4.
    pub memories: u32,
    /// Elements of one table: 20,000.
    pub table_elements: usize,
    /// Tables in one component: 16.
    pub tables: u32,
    /// Core instances in one component: 64.
    pub core_instances: u32,
    /// The stack of the guest: 512 KiB.
    pub wasm_stack: usize,
    /// What is left for the host's own functions when the guest calls one at its
    /// deepest point: 2 MiB. A view's futures are polled there.
    pub host_stack: usize,
    /// The whole call, instantiation and imports included: 1 s.
    pub total_time: Duration,
    /// One call of the view: 500 ms.
    pub import_time: Duration,
    /// How often a running guest is made to yield: 10 ms.
    pub tick: Duration,
    /// Calls of the view in one call: 10,000.
    pub host_calls: u64,
    /// The largest `limit` or `k` that the view is asked for: 1,000. A greater
    /// one is clamped.
    pub window: u32,
    /// Rows handed out in one call, repeats counted: 50,000.
    pub rows: u64,
    /// Bytes of content handed out in one call, repeats counted: 32 MiB.
    pub row_bytes: u64,
    /// A query or mention that the guest passes to the view: 64 KiB.
    pub text: usize,
    /// Texts in one `embed`: 64.
    pub embed_texts: usize,
    /// Texts in all `embed`s of one call, in bytes: 256 KiB.
    pub embed_bytes: u64,
    /// What the guest can make the host copy in one crossing, arguments of an
    /// import or the result of `plan`: 4 MiB.
    pub copy: usize,
    /// Calls that run at the same time: 64. The engine's pool is a little
    /// larger, so that a full house is told apart from a broken cartridge.
    pub calls: usize,
    /// How long a call waits for a free place before it is told `Overloaded`:
    /// 100 ms.
    pub queue_time: Duration,
    /// Calls older than one tick that compute at the same time: half the cores,
    /// at least one. The other cores stay free for short calls.
    pub long_calls: usize,
    /// Count what a guest executes, for a vendor's bench: [`CallStats::fuel`]. Slower,
    /// so a kernel that serves leaves it off.
    ///
    /// [`CallStats::fuel`]: crate::CallStats::fuel
    pub count_fuel: bool,
    /// How far an operator may raise the limits of one driver's calls, where that is
    /// above the defaults: 256 MiB, 10 s, 5 s an import, and so on. The pool is made
    /// for it.
    pub ceiling: CallLimits,
}

/// The settings that machine code depends on, where they are not constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CodeSettings {
    pub(crate) wasm_stack: usize,
    pub(crate) count_fuel: bool,
}

impl Limits {
    pub(crate) fn code_settings(&self) -> CodeSettings {
        CodeSettings {
            wasm_stack: self.wasm_stack,
            count_fuel: self.count_fuel,
        }
    }

    /// With these defaults for every call, none of them above [`Limits::ceiling`]. Times of
    /// single imports have no default of their own and are left out.
    #[must_use]
    pub fn with_defaults(self, set: &Overrides) -> Self {
        let call = CallLimits::default_of(&self).overridden(set, &self.ceiling);
        Self {
            memory: call.memory,
            total_time: call.total_time,
            import_time: call.import_time,
            host_calls: call.host_calls,
            window: call.window,
            rows: call.rows,
            row_bytes: call.row_bytes,
            text: call.text,
            embed_texts: call.embed_texts,
            embed_bytes: call.embed_bytes,
            copy: call.copy,
            ..self
        }
    }

    /// How far the limits of a call can be raised: the ceiling, and never less than
    /// the defaults.
    pub fn maxima(&self) -> CallLimits {
        let defaults = CallLimits::default_of(self);
        self.ceiling.clone().at_least(&defaults)
    }
}

fn ceiling() -> CallLimits {
    CallLimits {
        memory: 256 << 20,
        total_time: Duration::from_secs(10),
        import_time: Duration::from_secs(5),
        import_times: BTreeMap::new(),
        host_calls: 1_000_000,
        window: 10_000,
        rows: 1_000_000,
        row_bytes: 256 << 20,
        text: 1 << 20,
        embed_texts: 1_024,
        embed_bytes: 4 << 20,
        copy: 32 << 20,
    }
}

impl Default for Limits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        Self {
            component: 32 << 20,
            memory: 64 << 20,
            memories: 4,
            table_elements: 20_000,
            tables: 16,
            core_instances: 64,
            wasm_stack: 512 << 10,
            host_stack: 2 << 20,
            total_time: Duration::from_secs(1),
            import_time: Duration::from_millis(500),
            tick: Duration::from_millis(10),
            host_calls: 10_000,
            window: 1_000,
            rows: 50_000,
            row_bytes: 32 << 20,
            text: 64 << 10,
            embed_texts: 64,
            embed_bytes: 256 << 10,
            copy: 4 << 20,
            calls: 64,
            queue_time: Duration::from_millis(100),
            long_calls: (cores / 2).max(1),
            count_fuel: false,
            ceiling: ceiling(),
        }
    }
}
