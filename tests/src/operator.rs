//! What a test does as the operator of its kernel: keys, policies, drivers, the audit log.

use std::sync::Arc;

use halofy_audit::{Record, Report};
use halofy_core::{DriverRef, Namespace, Role};
use halofy_gate::{
    AuditTail, DriverSummary, Gate, MountChange, NewKeyRequest, PolicySet, Push, Pushed, Refusal,
};
use serde_json::Value;

use crate::{Caller, Kernel};

impl Kernel {
    /// Makes a key and gives a client that has it.
    ///
    /// # Panics
    /// When the key is refused.
    pub async fn key(&self, namespace: &str, actor: &str, role: Role) -> Caller {
        self.key_in_groups(namespace, actor, role, &[]).await
    }

    /// Makes a key that belongs to groups, and gives a client that has it.
    ///
    /// # Panics
    /// When the key is refused.
    pub async fn key_in_groups(
        &self,
        namespace: &str,
        actor: &str,
        role: Role,
        groups: &[&str],
    ) -> Caller {
        let request = NewKeyRequest {
            namespace: namespace.parse().expect("a namespace"),
            actor: actor.parse().expect("an actor"),
            role,
            expires_at: None,
            groups: groups.iter().map(ToString::to_string).collect(),
        };
        let made = self
            .on_gate(async move |gate| gate.key_create(&request).await)
            .await;
        let (key, record) = made.expect("a key");
        self.caller(key.reveal(), &record.id)
    }

    /// Sets a namespace's policy, also one that names drivers which are not mounted.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn policy(&self, namespace: &str, policy: Value) {
        let namespace: Namespace = namespace.parse().expect("a namespace");
        let policy = serde_json::from_value(policy).expect("a policy");
        let how = PolicySet {
            force: true,
            replace: true,
        };
        let set = async move |gate: Arc<Gate>| gate.policy_set(&namespace, &policy, how).await;
        self.on_gate(set).await.expect("the policy is taken");
    }

    /// Pushes a cartridge as an operator does.
    ///
    /// # Errors
    /// As the gate's.
    pub async fn push(&self, push: Push) -> Result<Pushed, Refusal> {
        self.on_gate(async move |gate| gate.cartridge_push(&push).await)
            .await
    }

    /// Changes what is mounted.
    ///
    /// # Errors
    /// As the gate's.
    pub async fn change(
        &self,
        driver: &str,
        change: MountChange,
    ) -> Result<Vec<DriverSummary>, Refusal> {
        let driver: DriverRef = driver.parse().expect("a driver");
        self.on_gate(async move |gate| gate.mount_change(&driver, &change).await)
            .await
    }

    /// The whole audit log, oldest row first (at most 10,000 rows).
    ///
    /// # Panics
    /// When it cannot be read.
    pub async fn audit(&self) -> Vec<Record> {
        let tail = AuditTail {
            limit: 10_000,
            under: None,
        };
        let rows = self
            .on_gate(async move |gate| gate.audit_tail(&tail).await)
            .await;
        rows.expect("the audit log")
    }

    /// The last row of the audit log.
    ///
    /// # Panics
    /// When there is none.
    pub async fn last_audit(&self) -> Record {
        self.audit().await.pop().expect("a row")
    }

    /// The last row of the audit log about one syscall.
    ///
    /// # Panics
    /// When there is none.
    pub async fn last_audit_of(&self, op: &str) -> Record {
        let mut rows = self.audit().await.into_iter();
        rows.rfind(|row| row.columns.op == op).expect("a row")
    }

    /// Chains and verifies the audit log.
    ///
    /// # Panics
    /// When it cannot be read.
    pub async fn verify(&self) -> Report {
        let report = self.on_gate(async |gate| gate.audit_verify().await).await;
        report.expect("a report").report
    }

    /// A namespace's policy as an operator sees it.
    ///
    /// # Errors
    /// As the gate's.
    pub async fn policy_of(&self, namespace: &str) -> Result<halofy_gate::PolicyView, Refusal> {
        let namespace: Namespace = namespace.parse().expect("a namespace");
        self.on_gate(async move |gate| gate.policy_get(&namespace).await)
            .await
    }
}
