//! What one call of one cartridge may use: the kernel's default, lowered by the
//! cartridge's manifest, overridden by an operator, never above the ceiling. The
//! code that enforces each number stands where the resource is handed out.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits::Limits;

/// A function of the view, as a key of time limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "named as in the interface definition")]
pub enum Import {
    Candidates,
    LexicalCandidates,
    VectorSearch,
    Embed,
    Concepts,
    EntityFacts,
}

impl Import {
    /// Its name in the interface definition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Candidates => "candidates",
            Self::LexicalCandidates => "lexical-candidates",
            Self::VectorSearch => "vector-search",
            Self::Embed => "embed",
            Self::Concepts => "concepts",
            Self::EntityFacts => "entity-facts",
        }
    }
}

/// The bounds of one call. Sizes are in bytes, times are wall-clock. The fields mean
/// what those of [`Limits`] mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallLimits {
    /// All linear memories together.
    pub memory: usize,
    /// The whole call, instantiation and imports included.
    pub total_time: Duration,
    /// One call of an import that `import_times` does not name.
    pub import_time: Duration,
    /// One call of these imports.
    pub import_times: BTreeMap<Import, Duration>,
    /// Calls of the view.
    pub host_calls: u64,
    /// The largest `limit` or `k` that the view is asked for.
    pub window: u32,
    /// Rows handed out, repeats counted.
    pub rows: u64,
    /// Bytes handed out, repeats counted.
    pub row_bytes: u64,
    /// A query or mention that the guest passes to the view.
    pub text: usize,
    /// Texts in one `embed`.
    pub embed_texts: usize,
    /// Bytes of text in all `embed`s.
    pub embed_bytes: u64,
    /// What the guest can make the host copy in one crossing, the result of `plan`
    /// included.
    pub copy: usize,
}

impl CallLimits {
    /// The defaults of a kernel.
    pub fn default_of(limits: &Limits) -> Self {
        Self {
            memory: limits.memory,
            total_time: limits.total_time,
            import_time: limits.import_time,
            import_times: BTreeMap::new(),
            host_calls: limits.host_calls,
            window: limits.window,
            rows: limits.rows,
            row_bytes: limits.row_bytes,
            text: limits.text,
            embed_texts: limits.embed_texts,
            embed_bytes: limits.embed_bytes,
            copy: limits.copy,
        }
    }

    /// Lowered to what a cartridge says that it needs. What it asks beyond is not
    /// given, and not an error.
    #[must_use]
    pub fn lowered_by(&self, asked: Option<&Overrides>) -> Self {
        asked.map_or_else(|| self.clone(), |asked| self.with(asked).at_most(self))
    }

    /// Set to what an operator says, and clamped to the `ceiling`.
    #[must_use]
    pub fn overridden(&self, overrides: &Overrides, ceiling: &Self) -> Self {
        self.with(overrides).at_most(ceiling)
    }

    /// How long one call of `import` may take.
    pub fn time_of(&self, import: Import) -> Duration {
        let named = self.import_times.get(&import);
        named.copied().unwrap_or(self.import_time)
    }

    fn with(&self, set: &Overrides) -> Self {
        let time = |ms: Option<u64>, or| ms.map_or(or, Duration::from_millis);
        let size = |bytes: Option<u64>, or| bytes.map_or(or, saturated);
        let mut import_times = self.import_times.clone();
        let named = set.import_times_ms.iter();
        import_times.extend(named.map(|(import, ms)| (*import, Duration::from_millis(*ms))));
        Self {
            memory: size(set.memory_bytes, self.memory),
            total_time: time(set.total_time_ms, self.total_time),
            import_time: time(set.import_time_ms, self.import_time),
            import_times,
            host_calls: set.host_calls.unwrap_or(self.host_calls),
            window: set.window.unwrap_or(self.window),
            rows: set.rows.unwrap_or(self.rows),
            row_bytes: set.row_bytes.unwrap_or(self.row_bytes),
            text: size(set.text_bytes, self.text),
            embed_texts: size(set.embed_texts, self.embed_texts),
            embed_bytes: set.embed_bytes.unwrap_or(self.embed_bytes),
            copy: size(set.copy_bytes, self.copy),
        }
    }

    fn at_most(mut self, most: &Self) -> Self {
        for (import, time) in &mut self.import_times {
            *time = (*time).min(most.time_of(*import));
        }
        // An import that only `most` names keeps that bound beside a new default.
        for (import, time) in &most.import_times {
            let own = self.time_of(*import);
            self.import_times.insert(*import, own.min(*time));
        }
        Self {
            memory: self.memory.min(most.memory),
            total_time: self.total_time.min(most.total_time),
            import_time: self.import_time.min(most.import_time),
            import_times: self.import_times,
            host_calls: self.host_calls.min(most.host_calls),
            window: self.window.min(most.window),
            rows: self.rows.min(most.rows),
            row_bytes: self.row_bytes.min(most.row_bytes),
            text: self.text.min(most.text),
            embed_texts: self.embed_texts.min(most.embed_texts),
            embed_bytes: self.embed_bytes.min(most.embed_bytes),
            copy: self.copy.min(most.copy),
        }
    }

    /// Each number the greater of the two.
    pub(crate) fn at_least(self, least: &Self) -> Self {
        Self {
            memory: self.memory.max(least.memory),
            total_time: self.total_time.max(least.total_time),
            import_time: self.import_time.max(least.import_time),
            import_times: BTreeMap::new(),
            host_calls: self.host_calls.max(least.host_calls),
            window: self.window.max(least.window),
            rows: self.rows.max(least.rows),
            row_bytes: self.row_bytes.max(least.row_bytes),
            text: self.text.max(least.text),
            embed_texts: self.embed_texts.max(least.embed_texts),
            embed_bytes: self.embed_bytes.max(least.embed_bytes),
            copy: self.copy.max(least.copy),
        }
    }
}

/// All of a call's limits, to show them.
impl From<&CallLimits> for Overrides {
    fn from(limits: &CallLimits) -> Self {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let named = limits.import_times.iter();
        Self {
            memory_bytes: Some(limits.memory as u64),
            total_time_ms: Some(ms(limits.total_time)),
            import_time_ms: Some(ms(limits.import_time)),
            import_times_ms: named.map(|(import, time)| (*import, ms(*time))).collect(),
            host_calls: Some(limits.host_calls),
            window: Some(limits.window),
            rows: Some(limits.rows),
            row_bytes: Some(limits.row_bytes),
            text_bytes: Some(limits.text as u64),
            embed_texts: Some(limits.embed_texts as u64),
            embed_bytes: Some(limits.embed_bytes),
            copy_bytes: Some(limits.copy as u64),
        }
    }
}

fn saturated(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Limits that somebody wants changed: the `limits` of a manifest, which only lower,
/// or an operator's, which also raise. As JSON in camelCase; an unknown name is an
/// error.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Overrides {
    /// [`CallLimits::memory`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// [`CallLimits::total_time`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_time_ms: Option<u64>,
    /// [`CallLimits::import_time`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import_time_ms: Option<u64>,
    /// [`CallLimits::import_times`].
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub import_times_ms: BTreeMap<Import, u64>,
    /// [`CallLimits::host_calls`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_calls: Option<u64>,
    /// [`CallLimits::window`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// [`CallLimits::rows`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// [`CallLimits::row_bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub row_bytes: Option<u64>,
    /// [`CallLimits::text`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_bytes: Option<u64>,
    /// [`CallLimits::embed_texts`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embed_texts: Option<u64>,
    /// [`CallLimits::embed_bytes`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub embed_bytes: Option<u64>,
    /// [`CallLimits::copy`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_bytes: Option<u64>,
}

impl Overrides {
    /// Refuses zeros: a limit of nothing is a driver that never answers, which is
    /// what unmounting is for.
    ///
    /// # Errors
    /// The name of the first limit that is zero.
    pub fn check(&self) -> Result<(), &'static str> {
        let scalars = [
            ("memoryBytes", self.memory_bytes),
            ("totalTimeMs", self.total_time_ms),
            ("importTimeMs", self.import_time_ms),
            ("hostCalls", self.host_calls),
            ("window", self.window.map(u64::from)),
            ("rows", self.rows),
            ("rowBytes", self.row_bytes),
            ("textBytes", self.text_bytes),
            ("embedTexts", self.embed_texts),
            ("embedBytes", self.embed_bytes),
            ("copyBytes", self.copy_bytes),
        ];
        let times = self.import_times_ms.values();
        let times = times.map(|ms| ("importTimesMs", Some(*ms)));
        match scalars
            .into_iter()
            .chain(times)
            .find(|(_, n)| *n == Some(0))
        {
            Some((name, _)) => Err(name),
            None => Ok(()),
        }
    }
}
