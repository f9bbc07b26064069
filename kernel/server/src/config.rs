//! Configuration: one struct for each concern, from flags, environment and a TOML
//! file. A key that nothing reads is an error.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use halofy_gate::embed::EmbedderConfig;
use halofy_store::{Location, StoreConfig};
use serde::Deserialize;

/// Where `halofy serve` listens unless told otherwise.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:7077";
/// Where the embedded database lives unless told otherwise.
pub const DEFAULT_DATA: &str = ".halofy";

/// The file given by `--config`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// `[embedder]`.
    pub embedder: Option<EmbedderConfig>,
    /// `[server]`.
    #[serde(default)]
    pub server: ServerFile,
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
    /// Cartridges beside the baseline.
    pub cartridges: Vec<PathBuf>,
}

impl KernelConfig {
    /// A kernel on the embedded database in `data`, with the hash embedder.
    pub fn embedded(data: impl Into<PathBuf>) -> Self {
        Self::at(Location::Embedded(data.into()))
    }

    /// A kernel on a database, with the hash embedder.
    pub fn at(location: Location) -> Self {
        Self {
            store: StoreConfig::new(location),
            embedder: EmbedderConfig::default(),
            cartridges: Vec::new(),
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
            "[embedder]\nkind = \"hash\"\nx = 1",
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
