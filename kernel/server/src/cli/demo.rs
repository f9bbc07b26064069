//! `halofy demo`: the main job in one run, on an embedded database of its own and
//! over real HTTP.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use halofy_audit::Record;
use halofy_cartridge::{CartridgeHost, EngineError, Limits, LoadError};
use halofy_gate::{AuditTail, Gate};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::audit::{print_report, print_rows};
use super::memory::print_results;
use super::output::line;
use super::target::Target;
use crate::boot::boot;
use crate::config::KernelConfig;
use crate::http::{Command, Listener, public_router, serve};

/// A component that asks for more than the scoped view.
const HOSTILE: &str = r#"(component
    (import "wasi:cli/environment@0.2.0" (instance
        (export "get-environment" (func (result (list (tuple string string)))))))
    (import "wasi:sockets/tcp@0.2.0" (instance
        (export "connect" (func (param "address" string)))))
)"#;

const FACTS: [(&str, &str); 6] = [
    (
        "acme",
        "Acme closes its offices between Christmas and New Year.",
    ),
    (
        "acme/eng",
        "The staging cluster of engineering runs in Frankfurt.",
    ),
    (
        "acme/eng",
        "Dana owns the release checklist and signs every release.",
    ),
    (
        "acme/eng",
        "The on-call rotation changes on Mondays at nine.",
    ),
    (
        "acme/sales",
        "The discount floor for renewals is eighteen per cent.",
    ),
    (
        "acme/sales",
        "The sales cluster of demo tenants runs in Dublin.",
    ),
];

/// Show the whole system in one run, on a database of its own.
#[derive(Debug, Args)]
pub(crate) struct Demo {}

impl Demo {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let began = Instant::now();
        let scratch = tempfile::tempdir()?;
        step("1. Boot: embedded Postgres, baseline cartridge, audit chain");
        let gate = boot(&KernelConfig::embedded(scratch.path().join("data"))).await?;
        line(format_args!("ready after {:.1?}", began.elapsed()));
        for driver in gate.driver_list() {
            line(format_args!(
                "mounted {}, {} bytes, sha256 {}",
                driver.name,
                driver.size.unwrap_or_default(),
                driver.digest.unwrap_or_default()
            ));
        }
        let listener = Listener::tcp("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.address()?);
        let (stop, stopped) = oneshot::channel::<()>();
        let served = tokio::spawn(serve(listener, public_router(gate.clone(), None), async {
            drop(stopped.await);
        }));
        let outcome = show(&gate, &url).await;
        drop(stop);
        served.await.context("the server broke off")??;
        gate.close().await;
        outcome?;
        line(format_args!(
            "\ndone in {:.1?}. Next: halofy keys create --help, halofy serve",
            began.elapsed()
        ));
        Ok(ExitCode::SUCCESS)
    }
}

async fn show(gate: &Arc<Gate>, url: &str) -> Result<()> {
    let operator = Target::local(gate.clone());
    let agents = Target::remote(url)?;
    step("2. Keys in three namespaces: a key is all that says who calls");
    let mut keys = Vec::new();
    for (namespace, actor) in [
        ("acme", "user:ceo"),
        ("acme/eng", "user:dana"),
        ("acme/sales", "user:sam"),
    ] {
        keys.push((namespace, key(&operator, namespace, actor).await?));
        line(format_args!("{actor} lives in {namespace}"));
    }
    let key_of = |namespace: &str| {
        let found = keys.iter().find(|(of, _)| *of == namespace);
        found.map(|(_, key)| key.as_str()).unwrap_or_default()
    };

    step("3. Facts, each written with the key of its namespace");
    for (namespace, fact) in FACTS {
        agents
            .call("write", key_of(namespace), &json!({ "content": fact }))
            .await?
            .into_result()?;
        line(format_args!("{namespace:11} {fact}"));
    }

    step("4. The same question from engineering and from sales");
    let question = json!({ "query": "where does the cluster run?", "k": 3 });
    for (caller, hidden) in [("acme/eng", "acme/sales"), ("acme/sales", "acme/eng")] {
        let answer = agents
            .call("search", key_of(caller), &question)
            .await?
            .into_result()?;
        line(format_args!("as {caller}:"));
        print_results(&answer);
        let leaked = namespaces(&answer).any(|namespace| namespace == hidden);
        ensure!(!leaked, "a row of {hidden} reached {caller}");
    }

    step("5. A request that names a namespace of its own is refused");
    let claim = json!({ "query": "discount", "namespace": "acme/sales" });
    let refused = agents.call("search", key_of("acme/eng"), &claim).await?;
    ensure!(
        !refused.status.is_success(),
        "a claimed namespace was accepted"
    );
    line(format_args!(
        "{} {}",
        refused.status,
        refused.body["detail"].as_str().unwrap_or_default()
    ));

    step("6. A hostile cartridge is refused before it is compiled");
    let refusal = refuse_hostile().await?;
    line(refusal);

    step("7. The audit log, every outcome one row");
    let tail = Command::AuditTail(AuditTail {
        limit: 50,
        under: None,
    });
    let rows: Vec<Record> = serde_json::from_value(operator.command(&tail).await?)?;
    print_rows(&rows);

    step("8. The chain over it");
    let report = operator.command(&Command::AuditVerify).await?;
    print_report(&report);
    ensure!(report["ok"] == json!(true), "the audit log does not verify");
    Ok(())
}

async fn key(operator: &Target, namespace: &str, actor: &str) -> Result<String> {
    let create = Command::KeyCreate {
        namespace: namespace.to_owned(),
        actor: actor.to_owned(),
        role: "member".to_owned(),
        expires_at: None,
        groups: Vec::new(),
    };
    let reply = operator.command(&create).await?;
    Ok(reply["key"].as_str().unwrap_or_default().to_owned())
}

async fn refuse_hostile() -> Result<LoadError> {
    let component = wat::parse_str(HOSTILE).context("the hostile component does not assemble")?;
    let loaded = tokio::task::spawn_blocking(move || {
        let host = CartridgeHost::new(Limits::default())?;
        Ok::<_, EngineError>(host.load(&component, "hostile").map(drop))
    });
    match loaded.await?? {
        Err(refusal) => Ok(refusal),
        Ok(()) => anyhow::bail!("a cartridge that imports sockets was admitted"),
    }
}

fn namespaces(answer: &Value) -> impl Iterator<Item = &str> {
    let results = answer["results"].as_array().into_iter().flatten();
    results.filter_map(|hit| hit["namespace"].as_str())
}

fn step(title: &str) {
    line(format_args!("\n== {title}"));
}
