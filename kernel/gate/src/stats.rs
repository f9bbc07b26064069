//! `stats`: counts over what the caller sees.

use halofy_audit::Detail;
use halofy_store::Scope;
use serde_json::json;

use crate::Refusal;
use crate::audit::Ending;
use crate::body::StatsRequest;
use crate::gate::{Done, Gate, Recorded};
use crate::prologue::Authorized;

impl Gate {
    pub(crate) async fn stats(
        &self,
        caller: &Authorized,
        _: &StatsRequest,
    ) -> Result<Done, Refusal> {
        let namespace = &caller.identity().namespace;
        let hidden = Refusal::NotFound { hidden: true }.detail().to_string();
        let scope = Scope::of(caller.identity());
        let stats = self.store.stats(&scope, &hidden).await?;
        let rows: i64 = stats.audit.values().sum();
        let answer = json!({
            "namespace": namespace,
            "memories": {
                "current": stats.current,
                "superseded": stats.superseded,
                "disputed": stats.disputed,
            },
            "audit": { "rows": rows, "byOutcome": stats.audit },
        });
        let detail = Detail::new().field("current", stats.current);
        let recorded = Recorded::Pending(Ending::ok(detail));
        Ok(Done { answer, recorded })
    }
}
