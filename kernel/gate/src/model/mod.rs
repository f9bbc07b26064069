//! The language model of the write path: facts out of a text, whether a text states them,
//! and what contradicts what. Here live its configuration, one bounded request a call, and
//! the circuit breaker that leaves a failing service alone.
//!
//! Not here: whether a text may be sent (the caller asks [`Model::is_local`] and
//! [`Model::region`] first), what a failure means for a write, budgets, the audit.

mod answer;
mod config;
mod error;
mod exchange;
mod prompt;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use halofy_core::Kind;
use halofy_retrieval::estimate_tokens;
use time::OffsetDateTime;
use tokio::sync::Semaphore;
use tokio::time::timeout_at;

use self::answer::{Completion, Unusable};
use self::exchange::Endpoint;
use self::prompt::Call;
use crate::breaker::Breaker;
use crate::metrics;
use crate::outbound::{Misconfigured, key_from};

pub use config::{ModelConfig, ResponseFormat};
pub(crate) use error::ModelError;

/// Facts of one extraction; further ones are not looked at.
pub(crate) const MAX_FACTS: usize = 64;
/// Names of one fact; further ones are left out.
const MAX_ENTITIES: usize = 32;
/// Bytes of a name; longer ones are left out.
const MAX_ENTITY_BYTES: usize = 256;
/// Beyond the time of a call, after which a probe counts as lost.
const SLACK: Duration = Duration::from_secs(10);

/// A fact that the model found in a text: not yet verified, not yet stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extracted {
    /// What `halofy_core::Content` takes, without white space at its ends.
    pub(crate) content: String,
    pub(crate) kind: Kind,
    /// When it happened, if the text says so in a way that can be read.
    pub(crate) event_time: Option<OffsetDateTime>,
    /// Names, as the text has them: at most 32 of at most 256 bytes, each once, none with
    /// a control character.
    pub(crate) entities: Vec<String>,
}

/// What the model found in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extraction {
    /// At most 64, none blank, in the order of the answer.
    pub(crate) facts: Vec<Extracted>,
    /// What those behind them say.
    pub(crate) surplus: Vec<String>,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply<T> {
    pub(crate) value: T,
    /// Used for it, as the service counts them; else an estimate from the characters.
    pub(crate) tokens: u64,
    /// Who answered: the exact version where the service names it.
    pub(crate) model: String,
}

/// A language model. Each call is one request with one deadline; there are at most
/// `max_concurrent` at the same time.
///
/// After `breaker.failures` calls in a row that failed, calls end at once with
/// [`ModelError::CircuitOpen`]; after a rest one call finds out whether it is back. Only what
/// the service does counts: an answer of the protocol is a success whatever the model wrote in
/// it, since that is the text's doing. One that its caller gave up, or that never got a place,
/// counts neither way.
pub struct Model {
    endpoint: Endpoint,
    breaker: Breaker,
    places: Semaphore,
    timeout: Duration,
    name: String,
    region: Option<String>,
    local: bool,
}

impl Model {
    /// The model of `config` with the key that its `api_key_env` names. Opens no connection.
    ///
    /// # Errors
    /// The setting that cannot work, or the variable that is not set.
    pub fn from_config(config: &ModelConfig) -> Result<Self, Misconfigured> {
        let key = key_from(config.api_key_env.as_deref())?;
        Self::new(config, key.as_deref())
    }

    /// The model of `config` with this key, whatever `api_key_env` says. Opens no connection.
    ///
    /// # Errors
    /// The setting that cannot work.
    pub fn new(config: &ModelConfig, api_key: Option<&str>) -> Result<Self, Misconfigured> {
        config.check(api_key.is_some())?;
        let timeout = Duration::from_millis(config.timeout_ms);
        let breaker = Breaker::new(config.breaker.figures(timeout + SLACK)?);
        // Seen from the start, not only after the first call.
        metrics::model_circuit(breaker.state());
        Ok(Self {
            endpoint: Endpoint::new(config, api_key)?,
            breaker,
            places: Semaphore::new(config.max_concurrent),
            timeout,
            name: config.model.clone(),
            region: config.region.clone(),
            local: config.local,
        })
    }

    /// Whether the text stays with the operator.
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// Where the service computes, if the operator says so.
    pub fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    /// The facts that `text`, told at `told_at`, states.
    pub(crate) async fn extract(
        &self,
        text: &str,
        told_at: OffsetDateTime,
    ) -> Result<Reply<Extraction>, ModelError> {
        let data = prompt::extract(text, told_at);
        self.call(Call::Extract, &data, answer::facts).await
    }

    /// Whether `text` states each of the candidates, in their order. Sends nothing when
    /// there are none.
    pub(crate) async fn verify(
        &self,
        text: &str,
        candidates: &[Extracted],
    ) -> Result<Reply<Vec<bool>>, ModelError> {
        let data = prompt::verify(text, candidates);
        self.judge(Call::Verify, &data, candidates.len()).await
    }

    /// Which of the incumbents are about the same subject as `incoming` and cannot be true
    /// at the same time as it, in their order. Sends nothing when there are none.
    pub(crate) async fn contradicts(
        &self,
        incoming: &str,
        incumbents: &[String],
    ) -> Result<Reply<Vec<bool>>, ModelError> {
        let data = prompt::contradicts(incoming, incumbents);
        self.judge(Call::Contradicts, &data, incumbents.len()).await
    }

    async fn judge(
        &self,
        call: Call,
        data: &str,
        count: usize,
    ) -> Result<Reply<Vec<bool>>, ModelError> {
        if count == 0 {
            return Ok(Reply {
                value: Vec::new(),
                tokens: 0,
                model: self.name.clone(),
            });
        }
        let read = |content: &str| answer::verdicts(content, count);
        self.call(call, data, read).await
    }

    /// Asks, and counts what came of it.
    async fn call<T>(
        &self,
        call: Call,
        data: &str,
        read: impl Fn(&str) -> Result<T, Unusable>,
    ) -> Result<Reply<T>, ModelError> {
        let started = Instant::now();
        let answered = self.admitted(call, data, read).await;
        let (label, tokens) = match &answered {
            Ok(reply) => ("ok", reply.tokens),
            Err(error) => {
                // Each failure once: what follows of an open circuit only repeats them.
                if !matches!(error, ModelError::CircuitOpen { .. }) {
                    tracing::warn!(call = call.as_str(), %error, "the model did not help");
                }
                (error.label(), error.tokens())
            }
        };
        metrics::model_asked(call.as_str(), label, started.elapsed(), tokens);
        metrics::model_circuit(self.breaker.state());
        answered
    }

    async fn admitted<T>(
        &self,
        call: Call,
        data: &str,
        read: impl Fn(&str) -> Result<T, Unusable>,
    ) -> Result<Reply<T>, ModelError> {
        let deadline = Instant::now() + self.timeout;
        let circuit_open = |retry_after| ModelError::CircuitOpen { retry_after };
        // Before and after the wait: nobody queues for a service that is left alone.
        self.breaker
            .refuses()
            .map_or(Ok(()), |wait| Err(circuit_open(wait)))?;
        let place = timeout_at(deadline.into(), self.places.acquire()).await;
        let _place = place.map_err(|_| ModelError::Timeout(self.timeout))?;
        let permit = self.breaker.ask().map_err(circuit_open)?;
        metrics::model_circuit(self.breaker.state());
        let asked = Instant::now();
        let answered = timeout_at(deadline.into(), self.asked(call, data, read)).await;
        let answered = answered.unwrap_or(Err(ModelError::Timeout(self.timeout)));
        match &answered {
            // The queue here took the time, so it says little about the service.
            Err(ModelError::Timeout(_)) if asked.elapsed() < self.timeout / 2 => drop(permit),
            Err(error) => permit.record(!error.is_outage()),
            Ok(_) => permit.record(true),
        }
        answered
    }

    async fn asked<T>(
        &self,
        call: Call,
        data: &str,
        read: impl Fn(&str) -> Result<T, Unusable>,
    ) -> Result<Reply<T>, ModelError> {
        let Completion {
            content,
            tokens,
            model,
        } = self.endpoint.ask(call, data).await?;
        let wrote = content.as_deref().unwrap_or_default();
        let tokens = tokens.unwrap_or_else(|| estimate_tokens(data) + estimate_tokens(wrote));
        let value = match content.as_deref().map(read) {
            Some(Ok(value)) => value,
            Some(Err(why)) => return Err(ModelError::Garbage { why, tokens }),
            None => {
                let why = "it holds no message".to_owned();
                return Err(ModelError::Garbage { why, tokens });
            }
        };
        Ok(Reply {
            value,
            tokens,
            model: model.unwrap_or_else(|| self.name.clone()),
        })
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("origin", &self.endpoint.origin())
            .field("name", &self.name)
            .field("region", &self.region)
            .field("local", &self.local)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
