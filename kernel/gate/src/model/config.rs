//! The settings of the language model, `[model]` of the configuration. Sends nothing.

use serde::Deserialize;

use crate::breaker::BreakerConfig;
use crate::outbound::{HttpStyle, Misconfigured, Service};

/// A language model behind a service that speaks the OpenAI chat protocol. A key that
/// nothing reads is an error.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelConfig {
    /// What comes before `/chat/completions`, such as `http://127.0.0.1:11434/v1` for
    /// Ollama; for [`HttpStyle::Azure`] the resource's endpoint, without a path.
    pub base_url: String,
    /// The model's name; for [`HttpStyle::Azure`] the deployment's.
    pub model: String,
    /// The environment variable that holds the key. Without it no key is sent.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// How the address and the key are written.
    #[serde(default)]
    pub style: HttpStyle,
    /// The `api-version` that [`HttpStyle::Azure`] requires, such as `2024-10-21`.
    #[serde(default)]
    pub api_version: Option<String>,
    /// How the service is told to answer in JSON.
    #[serde(default)]
    pub response_format: ResponseFormat,
    /// Milliseconds one call may take, waiting for a place included; 20,000 unless given.
    #[serde(default = "default_timeout_ms")]
    pub timeout_ms: u64,
    /// Calls at the same time; 4 unless given. Others wait for a place.
    #[serde(default = "default_max_concurrent")]
    pub max_concurrent: usize,
    /// Where the service computes, such as `eu`. What may not leave a region is not sent
    /// to a model of another, nor to one that does not say.
    #[serde(default)]
    pub region: Option<String>,
    /// Whether the text stays with the operator. Only he knows: an address on this host may
    /// be a relay. Without it, what must stay local is never sent.
    #[serde(default)]
    pub local: bool,
    /// When the service is left alone after failures.
    #[serde(default)]
    pub breaker: BreakerConfig,
}

/// How a service is told to answer in JSON. Every answer is checked, whichever it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResponseFormat {
    /// By a schema that it keeps to.
    #[default]
    JsonSchema,
    /// As any object; for services that know no schemas.
    JsonObject,
    /// By the prompt alone; for services that refuse `response_format`.
    None,
}

impl ModelConfig {
    /// The settings for this model at this address, all others as they are without a word
    /// about them.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            model: model.into(),
            api_key_env: None,
            style: HttpStyle::default(),
            api_version: None,
            response_format: ResponseFormat::default(),
            timeout_ms: default_timeout_ms(),
            max_concurrent: default_max_concurrent(),
            region: None,
            local: false,
            breaker: BreakerConfig::default(),
        }
    }

    pub(super) fn service(&self) -> Service<'_> {
        Service {
            base_url: &self.base_url,
            model: &self.model,
            style: self.style,
            api_version: self.api_version.as_deref(),
            timeout_ms: self.timeout_ms,
        }
    }

    /// Refuses settings that cannot work together, naming the one at fault.
    pub(super) fn check(&self, has_key: bool) -> Result<(), Misconfigured> {
        self.service().check(has_key)?;
        let blank = |text: &String| text.trim().is_empty();
        if !(1..=MOST_CONCURRENT).contains(&self.max_concurrent) {
            return Err(Misconfigured::new("max_concurrent must be 1 to 1024"));
        }
        if self.region.as_ref().is_some_and(blank) {
            return Err(Misconfigured::new("region must not be empty"));
        }
        Ok(())
    }
}

const MOST_CONCURRENT: usize = 1024;

fn default_timeout_ms() -> u64 {
    20_000
}

fn default_max_concurrent() -> usize {
    4
}
