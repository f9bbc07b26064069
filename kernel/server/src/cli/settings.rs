//! What every command takes: which database, which embedder, which form of output.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use halofy_store::{Location, StoreConfig};

use crate::config::{CODE_CACHE, DEFAULT_DATA, File, KernelConfig, parse_embedder};

/// Flags that every command takes.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// Directory of the embedded database.
    #[arg(long, global = true, env = "HALOFY_DATA", value_name = "DIR", default_value = DEFAULT_DATA)]
    pub data: PathBuf,
    /// A Postgres server with pgvector, instead of the embedded database.
    #[arg(
        long,
        global = true,
        env = "DATABASE_URL",
        value_name = "URL",
        hide_env_values = true
    )]
    pub database_url: Option<String>,
    /// Configuration file (TOML): [server], [embedder], [model] and [limits].
    #[arg(long, global = true, env = "HALOFY_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What makes vectors: hash, hash:DIMENSION or static:DIR. Fixed at the first start.
    #[arg(long, global = true, env = "HALOFY_EMBEDDER", value_name = "SPEC")]
    pub embedder: Option<String>,
    /// Mount a cartridge beside the baseline. May be given several times.
    #[arg(long = "cartridge", global = true, value_name = "FILE.wasm")]
    pub cartridges: Vec<PathBuf>,
    /// Offer an engine out of process as a driver. May be given several times.
    #[arg(long = "sidecar", global = true, value_name = "NAME=URL")]
    pub sidecars: Vec<String>,
    /// Print JSON.
    #[arg(long, global = true)]
    pub json: bool,
}

impl Settings {
    /// Gives the embedded database a place for its runtime. To be called before any
    /// thread is started: where the usual place cannot be written, the process starts
    /// anew with another.
    ///
    /// # Errors
    /// When no place can be written.
    pub fn prepare(&self) -> Result<()> {
        match self.database_url {
            Some(_) => Ok(()),
            None => Ok(halofy_store::relocate_cache(&self.data)?),
        }
    }

    /// The configuration file, or its defaults.
    ///
    /// # Errors
    /// See [`File::load`].
    pub fn file(&self) -> Result<File> {
        File::load(self.config.as_deref())
    }

    /// The kernel that the flags and the file describe; flags win.
    ///
    /// # Errors
    /// Names the flag or the key that is wrong.
    pub fn kernel(&self) -> Result<KernelConfig> {
        let file = self.file()?;
        let location = match &self.database_url {
            Some(url) => Location::Server(url.clone()),
            None => Location::Embedded(self.data.clone()),
        };
        let mut store = StoreConfig::new(location);
        store.max_connections = file.server.max_connections.unwrap_or(store.max_connections);
        let embedder = match &self.embedder {
            Some(spec) => parse_embedder(spec)?,
            None => file.embedder.unwrap_or_default(),
        };
        let mut cartridges = file.server.cartridges;
        cartridges.extend(self.cartridges.iter().cloned());
        let mut sidecars = file.server.sidecars;
        for sidecar in &self.sidecars {
            let Some((name, url)) = sidecar.split_once('=') else {
                bail!("--sidecar takes NAME=URL, such as mem0=http://127.0.0.1:8765");
            };
            sidecars.insert(name.to_owned(), url.to_owned());
        }
        if let Err(field) = file.limits.check() {
            bail!("[limits] {field} must be at least 1");
        }
        let code_cache = file.server.code_cache;
        Ok(KernelConfig {
            store,
            embedder,
            model: file.model,
            cartridges,
            limits: file.limits,
            sidecars,
            conformance: file.server.conformance,
            code_cache: code_cache.unwrap_or_else(|| self.code_cache()),
        })
    }

    /// Beside the embedded database; with a server, where this user's caches are.
    fn code_cache(&self) -> PathBuf {
        let set = std::env::var_os("XDG_CACHE_HOME").filter(|home| !home.is_empty());
        let home = set.map(PathBuf::from);
        let home = home.or_else(|| Some(std::env::home_dir()?.join(".cache")));
        match (&self.database_url, home) {
            (Some(_), Some(home)) => home.join("halofy").join(CODE_CACHE),
            _ => self.data.join(CODE_CACHE),
        }
    }
}
