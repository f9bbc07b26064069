//! Listening, and stopping without leaving a call that was taken unanswered.

use std::path::Path;

use anyhow::{Context, Result};
use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::{TcpListener, TcpStream, UnixListener};

/// A door that is open.
pub enum Listener {
    /// Over TCP, for agents.
    Tcp(TcpListener),
    /// A Unix socket, for the operator of this machine.
    Unix(UnixListener),
}

impl Listener {
    /// Binds a TCP address; port 0 takes a free one.
    ///
    /// # Errors
    /// Says which address is not to be had.
    pub async fn tcp(address: &str) -> Result<Self> {
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}; choose another with --listen"))?;
        Ok(Self::Tcp(listener))
    }

    /// Binds a Unix socket, in the place of one that a killed kernel left.
    ///
    /// # Errors
    /// Says which path is not to be had. The directory must be the kernel's own.
    pub fn unix(path: &Path) -> Result<Self> {
        if path.exists() {
            std::fs::remove_file(path)
                .with_context(|| format!("cannot replace {}", path.display()))?;
        }
        let listener = UnixListener::bind(path)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        Ok(Self::Unix(listener))
    }

    /// `127.0.0.1:7077`, for a TCP listener.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> Result<String> {
        match self {
            Self::Tcp(listener) => Ok(listener.local_addr()?.to_string()),
            Self::Unix(_) => Ok("unix".to_owned()),
        }
    }
}

/// Serves until `stop`, then takes no new connection and answers what it took.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: Listener,
    router: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    match listener {
        Listener::Tcp(listener) => axum::serve(listener.tap_io(answer_at_once), router)
            .with_graceful_shutdown(stop)
            .await
            .context("the HTTP server failed"),
        Listener::Unix(listener) => axum::serve(listener, router)
            .with_graceful_shutdown(stop)
            .await
            .context("the control socket failed"),
    }
}

/// An answer is one small write: waiting for more to send with it only delays it.
fn answer_at_once(stream: &mut TcpStream) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps Nagle's algorithm");
    }
}
