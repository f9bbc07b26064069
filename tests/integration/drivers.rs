//! Cartridges that vendors ship and operators mount: from the push to the answer, with a
//! way back from each step. Not here: what a hostile cartridge tries inside the sandbox.

mod command_line;
mod reference;
mod registry;
mod sidecar;
mod swap;
mod trust;

use std::sync::Arc;

use halofy_cartridge::{Limits, SignatureFile, VendorKey};
use halofy_gate::{Gate, Push, VendorTrust};
use halofy_tests::{Caller, Kernel, Role};
use serde_json::Value;

const FACT: &str = "The observatory opens on Tuesdays.";
const QUESTION: &str = "when does the observatory open";

async fn with_fact(kernel: &Kernel) -> Caller {
    let caller = kernel.key("acme", "user:u", Role::Agent).await;
    caller.write(FACT).await.expect_status(200);
    caller
}

/// Lists a key of a new vendor that may sign anything.
async fn vendor(kernel: &Kernel) -> VendorKey {
    let key = VendorKey::generate().expect("a key");
    let trust = VendorTrust {
        vendor: "Acme Ranking".to_owned(),
        public_key: key.public().to_string(),
        names: vec!["*".to_owned()],
    };
    let add = async move |gate: Arc<Gate>| gate.vendor_key_add(&trust).await;
    kernel.on_gate(add).await.expect("the key is listed");
    key
}

/// A signed cartridge, to be mounted.
fn signed(component: Vec<u8>, key: &VendorKey) -> Push {
    let limit = Limits::default().component;
    let signature = SignatureFile::sign(&component, key, limit).expect("a signature");
    Push {
        signature: Some(signature.to_json()),
        mount: true,
        component,
        ..Push::default()
    }
}

fn served_by(answer: &Value) -> (&str, Option<&str>) {
    let fallback = answer["driverFallback"]["reason"].as_str();
    (answer["driver"].as_str().expect("a driver"), fallback)
}

/// A field of the last row of that operation.
async fn audited(kernel: &Kernel, op: &str, field: &str) -> String {
    let rows = kernel.audit().await;
    let row = rows.iter().rev().find(|row| row.columns.op == op);
    let detail = row
        .expect("a row")
        .columns
        .detail
        .clone()
        .unwrap_or_default();
    let mut fields = detail.split(' ').filter_map(|part| part.split_once('='));
    let found = fields.find(|(name, _)| *name == field);
    let found = found.unwrap_or_else(|| panic!("{detail:?} does not say {field}"));
    found.1.to_owned()
}
