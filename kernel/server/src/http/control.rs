//! The operator's commands as messages, for the control socket: one kernel holds
//! the embedded database, and `halofy keys create` must work while it runs.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use halofy_cartridge::Overrides;
use halofy_core::{DriverRef, Namespace, Policy};
use halofy_gate::{
    AuditTail, DriverSummary, JobQuery, MissingDriver, MountChange, NewKeyRequest, PolicySet, Push,
    Refusal, VendorTrust,
};
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
        /// Groups that it belongs to.
        #[serde(default)]
        groups: Vec<String>,
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
        /// Whether the rest is kept.
        #[serde(default)]
        how: PolicySet,
    },
    /// Lists the drivers, and what policies name in vain.
    DriverList,
    /// Takes a cartridge in.
    CartridgePush(PushRequest),
    /// Changes what is mounted.
    MountChange {
        /// Of which driver.
        driver: DriverRef,
        /// How.
        #[serde(flatten)]
        change: MountChange,
    },
    /// Lists vendors' keys.
    TrustList,
    /// Trusts a vendor's key.
    TrustAdd(VendorTrust),
    /// Revokes a vendor's key.
    TrustRevoke {
        /// Its fingerprint.
        id: String,
    },
    /// Lists jobs.
    JobList(JobQuery),
    /// Shows a job.
    JobShow {
        /// Its id.
        id: String,
    },
    /// Brings a dead or cancelled job back.
    JobRetry {
        /// Its id.
        id: String,
    },
    /// Brings all dead or cancelled jobs back that pass.
    JobsRetry(JobQuery),
    /// Stops a job.
    JobCancel {
        /// Its id.
        id: String,
    },
    /// Runs the search of an audit row again.
    Replay {
        /// The row.
        seq: i64,
        /// The query, where the log has it not.
        query: Option<String>,
    },
    /// Shows the newest audit rows.
    AuditTail(AuditTail),
    /// Verifies the audit log.
    AuditVerify,
}

/// The answer to [`Command::DriverList`] and [`Command::MountChange`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DriverReply {
    /// By name, the default of each first.
    pub drivers: Vec<DriverSummary>,
    /// What policies name in vain.
    pub missing: Vec<MissingDriver>,
}

impl Command {
    /// What the audit log calls a refusal of it. Nothing for what only looks, and for what
    /// the gate records itself.
    fn op(&self) -> Option<&'static str> {
        match self {
            Self::KeyCreate { .. } => Some("key_create"),
            Self::KeyRevoke { .. } => Some("key_revoke"),
            Self::PolicySet { .. } => Some("policy_set"),
            Self::TrustAdd(_) => Some("vendor_key_add"),
            Self::TrustRevoke { .. } => Some("vendor_key_revoke"),
            Self::JobRetry { .. } | Self::JobsRetry(_) => Some("job_retry"),
            Self::JobCancel { .. } => Some("job_cancel"),
            Self::Replay { .. } => Some("replay"),
            Self::KeyList { .. }
            | Self::PolicyGet { .. }
            | Self::DriverList
            | Self::CartridgePush(_)
            | Self::MountChange { .. }
            | Self::TrustList
            | Self::JobList(_)
            | Self::JobShow { .. }
            | Self::AuditTail(_)
            | Self::AuditVerify => None,
        }
    }
}

/// A cartridge on its way in.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PushRequest {
    /// The bytes.
    pub component: Base64,
    /// The signature file.
    pub signature: Option<String>,
    /// Whether it is mounted too.
    pub mount: bool,
    /// The operator's limits for it.
    #[serde(default)]
    pub limits: Overrides,
    /// Although nobody signed it.
    #[serde(default)]
    pub allow_unsigned: bool,
    /// Although it fails conformance.
    #[serde(default)]
    pub force: bool,
}

impl From<PushRequest> for Push {
    fn from(request: PushRequest) -> Self {
        Self {
            component: request.component.into(),
            signature: request.signature,
            mount: request.mount,
            limits: request.limits,
            allow_unsigned: request.allow_unsigned,
            force: request.force,
        }
    }
}

/// Bytes that stand in JSON as base64.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Base64(Vec<u8>);

impl From<Vec<u8>> for Base64 {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<Base64> for Vec<u8> {
    fn from(bytes: Base64) -> Self {
        bytes.0
    }
}

impl From<Base64> for String {
    fn from(bytes: Base64) -> Self {
        STANDARD.encode(bytes.0)
    }
}

impl TryFrom<String> for Base64 {
    type Error = base64::DecodeError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        STANDARD.decode(text).map(Self)
    }
}

/// The answer to a [`Command`], as JSON.
pub type Reply = Value;

pub(super) async fn control(
    State(shared): State<Shared>,
    Json(command): Json<Command>,
) -> Response {
    let op = command.op();
    match run(&shared, command).await {
        Ok(reply) => Json(reply).into_response(),
        Err(refusal) => {
            tracing::warn!(code = refusal.code(), %refusal, "an operator's command failed");
            if let Some(op) = op
                && let Err(error) = shared.gate.refused_command(op, &refusal).await
            {
                tracing::error!(%error, "a refused command is not in the audit log");
            }
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
            groups,
        } => {
            let request = NewKeyRequest {
                namespace: namespace.parse()?,
                actor: actor.parse()?,
                role: role.parse()?,
                expires_at,
                groups,
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
            how,
        } => {
            json!(gate.policy_set(&namespace, &policy, how).await?)
        }
        Command::DriverList => {
            let (drivers, missing) = (gate.driver_list(), gate.drivers_missing());
            json!(DriverReply { drivers, missing })
        }
        Command::CartridgePush(request) => json!(gate.cartridge_push(&request.into()).await?),
        Command::MountChange { driver, change } => {
            let drivers = gate.mount_change(&driver, &change).await?;
            let missing = gate.drivers_missing();
            json!(DriverReply { drivers, missing })
        }
        Command::TrustList => json!(gate.vendor_key_list().await?),
        Command::TrustAdd(trust) => json!(gate.vendor_key_add(&trust).await?),
        Command::TrustRevoke { id } => json!(gate.vendor_key_revoke(&id).await?),
        Command::JobList(query) => json!(gate.job_list(&query).await?),
        Command::JobShow { id } => json!(gate.job_show(&id).await?),
        Command::JobRetry { id } => json!(gate.job_retry(&id).await?),
        Command::JobsRetry(query) => json!(gate.jobs_retry(&query).await?),
        Command::JobCancel { id } => json!(gate.job_cancel(&id).await?),
        Command::Replay { seq, query } => json!(gate.replay(seq, query.as_deref()).await?),
        Command::AuditTail(tail) => json!(gate.audit_tail(&tail).await?),
        Command::AuditVerify => json!(gate.audit_verify().await?),
    };
    Ok(reply)
}
