//! The operator's commands as messages, for the control socket: one kernel holds
//! the embedded database, and `halofy keys create` must work while it runs.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use halofy_core::{Namespace, Policy};
use halofy_gate::{AuditTail, NewKeyRequest, Refusal};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::problem::Problem;
use super::routes::Shared;

/// What an operator can ask of a running kernel.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(
    tag = "command",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Command {
    /// Makes a key.
    KeyCreate {
        /// Where its holder lives.
        namespace: String,
        /// Whom the audit log names.
        actor: String,
        /// What it may do.
        role: String,
        /// When it stops working, if ever.
        #[serde(with = "time::serde::rfc3339::option", default)]
        expires_at: Option<OffsetDateTime>,
    },
    /// Lists keys.
    KeyList {
        /// Only a namespace and what lies below it.
        under: Option<Namespace>,
    },
    /// Revokes a key.
    KeyRevoke {
        /// Its public name.
        id: String,
    },
    /// Shows a policy.
    PolicyGet {
        /// Whose.
        namespace: Namespace,
    },
    /// Sets a policy.
    PolicySet {
        /// Whose.
        namespace: Namespace,
        /// What it says.
        policy: Policy,
        /// Although a driver that it names is not mounted.
        force: bool,
    },
    /// Lists the mounted cartridges.
    DriverList,
    /// Shows the newest audit rows.
    AuditTail(AuditTail),
    /// Verifies the audit log.
    AuditVerify,
}

/// The answer to a [`Command`], as JSON.
pub type Reply = Value;

pub(super) async fn control(
    State(shared): State<Shared>,
    Json(command): Json<Command>,
) -> Response {
    match run(&shared, command).await {
        Ok(reply) => Json(reply).into_response(),
        Err(refusal) => {
            tracing::warn!(code = refusal.code(), %refusal, "an operator's command failed");
            Problem::from(&refusal).into_response()
        }
    }
}

async fn run(shared: &Shared, command: Command) -> Result<Reply, Refusal> {
    let gate = &shared.gate;
    let reply = match command {
        Command::KeyCreate {
            namespace,
            actor,
            role,
            expires_at,
        } => {
            let request = NewKeyRequest {
                namespace: namespace.parse()?,
                actor: actor.parse()?,
                role: role.parse()?,
                expires_at,
            };
            let (key, summary) = gate.key_create(&request).await?;
            json!({ "key": key.reveal(), "record": summary })
        }
        Command::KeyList { under } => json!(gate.key_list(under.as_ref()).await?),
        Command::KeyRevoke { id } => json!(gate.key_revoke(&id).await?),
        Command::PolicyGet { namespace } => json!(gate.policy_get(&namespace).await?),
        Command::PolicySet {
            namespace,
            policy,
            force,
        } => {
            json!(gate.policy_set(&namespace, &policy, force).await?)
        }
        Command::DriverList => json!(gate.driver_list()),
        Command::AuditTail(tail) => json!(gate.audit_tail(&tail).await?),
        Command::AuditVerify => json!(gate.audit_verify().await?),
    };
    Ok(reply)
}
