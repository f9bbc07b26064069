//! `halofy serve`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use halofy_gate::Gate;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::output::line;
use super::settings::Settings;
use super::target::control_socket;
use crate::boot::boot;
use crate::config::DEFAULT_LISTEN;
use crate::http::{Listener, control_router, public_router, serve};

/// Upper bounds of the latency buckets, in seconds.
const LATENCY_BUCKETS: [f64; 13] = [
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0,
];
/// Upper bounds of the buckets for rows of one audit commit.
const BATCH_BUCKETS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

/// Run the kernel: HTTP for agents, a control socket for the operator.
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address and port; port 0 takes a free one and prints it.
    #[arg(long, env = "HALOFY_LISTEN", value_name = "ADDRESS")]
    listen: Option<String>,
}

impl Serve {
    pub(crate) async fn run(self, settings: &Settings) -> Result<ExitCode> {
        let listen = match self.listen {
            Some(listen) => listen,
            None => settings
                .file()?
                .server
                .listen
                .unwrap_or_else(|| DEFAULT_LISTEN.to_owned()),
        };
        let listener = Listener::tcp(&listen).await?;
        let address = listener.address()?;
        // Before anything counts: what is set while booting would be lost.
        let recorder = recorder()?;
        let gate = boot(&settings.kernel()?).await?;
        gate.warm().await.context(
            "the database gives fewer connections than configured; \
             lower max_connections in the [server] table of --config",
        )?;
        let (stop, stopped) = watch::channel(false);
        let control = open_control(settings, &gate, stopped.clone())?;
        let router = public_router(gate.clone(), Some(recorder));
        line(format_args!("listening on http://{address}"));
        tokio::spawn(async move {
            wait_for_signal().await;
            tracing::info!("stopping: no new connections, answering what was taken");
            stop.send_replace(true);
        });
        let served = serve(listener, router, until(stopped)).await;
        if let Some(control) = control {
            control.await.context("the control socket broke off")??;
            drop(std::fs::remove_file(control_socket(&settings.data)));
        }
        gate.close().await;
        served.map(|()| ExitCode::SUCCESS)
    }
}

type ControlTask = tokio::task::JoinHandle<Result<()>>;

/// The operator's door, beside the embedded database. With a database server the
/// operator's commands go to that instead.
fn open_control(
    settings: &Settings,
    gate: &Arc<Gate>,
    stopped: watch::Receiver<bool>,
) -> Result<Option<ControlTask>> {
    if settings.database_url.is_some() {
        return Ok(None);
    }
    let path = control_socket(&settings.data);
    let listener = match Listener::unix(&path) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(
                error = format!("{error:#}"),
                "no control socket: stop the kernel before running operator commands, \
                 or use a shorter --data path"
            );
            return Ok(None);
        }
    };
    only_for_me(&path)?;
    let router = control_router(gate.clone());
    Ok(Some(tokio::spawn(serve(listener, router, until(stopped)))))
}

fn only_for_me(path: &Path) -> Result<()> {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .with_context(|| format!("cannot restrict {}", path.display()))
}

async fn until(mut stopped: watch::Receiver<bool>) {
    // An error means that the sender is gone, and so is the reason to go on.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

async fn wait_for_signal() {
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(_) => {
            // Without a signal handler the process ends as the system decides.
            std::future::pending::<()>().await;
        }
    }
}

fn recorder() -> Result<PrometheusHandle> {
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &LATENCY_BUCKETS)?
        .set_buckets_for_metric(Matcher::Suffix("_rows".to_owned()), &BATCH_BUCKETS)?
        .install_recorder()
        .context("the metrics recorder does not start")?;
    Ok(handle)
}
