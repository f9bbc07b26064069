//! Configuration: one struct for each concern, from flags, environment and a TOML
//! file. A key that nothing reads is an error.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use halofy_cartridge::Overrides;
use halofy_gate::embed::EmbedderConfig;
use halofy_gate::{Conformance, ModelConfig};
use halofy_store::{Location, StoreConfig};
use serde::Deserialize;

/// Where `halofy serve` listens unless told otherwise.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:7077";
/// Where the embedded database lives unless told otherwise.
pub const DEFAULT_DATA: &str = ".halofy";
/// Compiled cartridges, below the data directory.
pub(crate) const CODE_CACHE: &str = "code-cache";

/// The file given by `--config`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// `[embedder]`.
    pub embedder: Option<EmbedderConfig>,
    /// `[model]`: draws facts from what is written; without it texts are stored verbatim.
    pub model: Option<ModelConfig>,
    /// `[server]`.
    #[serde(default)]
    pub server: ServerFile,
    /// `[limits]`: of every call of a cartridge, where neither its manifest nor its mount
    /// says otherwise.
    #[serde(default)]
    pub limits: Overrides,
}

/// `[server]` of the file.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerFile {
    /// Address and port.
    pub listen: Option<String>,
    /// Cartridges to mount at boot, beside the baseline.
    #[serde(default)]
    pub cartridges: Vec<PathBuf>,
    /// The most connections to a database server.
    pub max_connections: Option<u32>,
    /// Engines out of process: driver name and URL.
    #[serde(default)]
    pub sidecars: BTreeMap<String, String>,
    /// `required`, unless set: a cartridge that fails conformance is not mounted.
    #[serde(default)]
    pub conformance: Conformance,
    /// Where compiled cartridges are kept. Unless set: `code-cache` in the data directory,
    /// or with a server in `halofy` below `XDG_CACHE_HOME`.
    pub code_cache: Option<PathBuf>,
}

impl File {
    /// Reads the file, or gives the defaults when there is none to read.
    ///
    /// # Errors
    /// Names the file, the key and what is wrong.
    pub fn load(path: Option<&Path>) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration {}", path.display()))?;
        toml::from_str(&text).with_context(|| format!("in the configuration {}", path.display()))
    }
}

/// Everything that a kernel needs to boot.
#[derive(Debug, Clone)]
pub struct KernelConfig {
    /// The database.
    pub store: StoreConfig,
    /// What makes vectors.
    pub embedder: EmbedderConfig,
    /// What draws facts from texts, if anything.
    pub model: Option<ModelConfig>,
    /// Cartridges beside the baseline.
    pub cartridges: Vec<PathBuf>,
    /// Limits of every call of a cartridge.
    pub limits: Overrides,
    /// Engines out of process: driver name and URL.
    pub sidecars: BTreeMap<String, String>,
    /// Whether a cartridge that fails conformance is mounted.
    pub conformance: Conformance,
    /// Where compiled cartridges are kept.
    pub code_cache: PathBuf,
}

impl KernelConfig {
    /// A kernel on the embedded database in `data`, with the hash embedder.
    pub fn embedded(data: impl Into<PathBuf>) -> Self {
        let data = data.into();
        let code_cache = data.join(CODE_CACHE);
        Self::at(Location::Embedded(data), code_cache)
    }

    /// A kernel on a database, with the hash embedder.
    pub fn at(location: Location, code_cache: PathBuf) -> Self {
        Self {
            store: StoreConfig::new(location),
            embedder: EmbedderConfig::default(),
            model: None,
            cartridges: Vec::new(),
            limits: Overrides::default(),
            sidecars: BTreeMap::new(),
            conformance: Conformance::default(),
            code_cache,
        }
    }
}

/// Reads `--embedder`: `hash`, `hash:512` or `static:DIR`. A service is configured
/// in the file, where its key's variable can be named.
///
/// # Errors
/// Says which forms there are.
pub fn parse_embedder(spec: &str) -> Result<EmbedderConfig> {
    match spec.split_once(':') {
        None if spec == "hash" => Ok(EmbedderConfig::default()),
        Some(("hash", dimension)) => {
            let dimension = dimension
                .parse()
                .context("the dimension of hash: is not a number")?;
            Ok(EmbedderConfig::Hash { dimension })
        }
        Some(("static", dir)) => Ok(EmbedderConfig::Static { dir: dir.into() }),
        _ => bail!(
            "--embedder takes hash, hash:DIMENSION or static:DIR; \
             configure a service in the [embedder] table of --config"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unused_key_is_an_error() {
        let read = |text| toml::from_str::<File>(text);
        assert!(read("[server]\nlisten = \"127.0.0.1:1\"").is_ok());
        for text in [
            "[servre]",
            "[server]\nlissen = 1",
            "[limits]\ntotalTime = 1",
            "[embedder]\nkind = \"hash\"\nx = 1",
            "[model]\nbase_url = \"http://127.0.0.1:1\"\nmodel = \"m\"\nx = 1",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn embedders_are_named_on_the_command_line() {
        assert_eq!(parse_embedder("hash").ok(), Some(EmbedderConfig::default()));
        assert!(parse_embedder("static:/tables/a").is_ok());
        assert!(parse_embedder("openai").is_err());
    }
}
