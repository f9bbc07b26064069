//! Finds requests that try to say who the caller is. Only the key says that.

use serde_json::Value;

/// Names of fields and headers that speak of identity, without case, `-` and `_`.
const IDENTITY_NAMES: [&str; 24] = [
    "namespace",
    "namespaces",
    "actor",
    "actorid",
    "agent",
    "agentid",
    "user",
    "userid",
    "username",
    "tenant",
    "tenantid",
    "org",
    "orgid",
    "organization",
    "organizationid",
    "role",
    "roles",
    "principal",
    "principals",
    "keyid",
    "owner",
    "ownerid",
    "onbehalfof",
    "impersonate",
];

/// Names who may read what is written, and nobody who writes.
const READERS: &str = "provenance.sourceAccess.principals";

/// A place where a request names an identity, such as `metadata.user_id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim(pub String);

/// Whether a header speaks of identity: `X-Namespace`, `X-Halofy-Actor`, `X-User-Id`, …
pub fn claim_in_header(name: &str) -> Option<Claim> {
    let lower = name.to_ascii_lowercase();
    let bare = lower.strip_prefix("x-").unwrap_or(&lower);
    let bare = [
        "halofy-",
        "halomem-",
        "forwarded-",
        "auth-request-",
        "remote-",
    ]
    .iter()
    .find_map(|prefix| bare.strip_prefix(prefix))
    .unwrap_or(bare);
    // `User-Agent` names a program, not an identity.
    let claims = lower != "user-agent" && is_identity_name(bare);
    claims.then(|| Claim(format!("header {lower}")))
}

/// The first field of a body that speaks of identity, at the top or in metadata.
pub(crate) fn claim_in_body(body: &Value) -> Option<Claim> {
    claim_in(body, "")
}

/// The depth is the parser's: it refuses what is nested more than 128 deep.
fn claim_in(value: &Value, path: &str) -> Option<Claim> {
    match value {
        Value::Object(fields) => fields.iter().find_map(|(name, inner)| {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            if is_identity_name(name) && path != READERS {
                return Some(Claim(path));
            }
            claim_in(inner, &path)
        }),
        Value::Array(items) => items.iter().find_map(|item| claim_in(item, path)),
        _ => None,
    }
}

fn is_identity_name(name: &str) -> bool {
    let folded: String = name
        .chars()
        .filter(|c| !matches!(c, '-' | '_'))
        .flat_map(char::to_lowercase)
        .collect();
    IDENTITY_NAMES.contains(&folded.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn identity_is_found_wherever_it_hides() {
        for (body, path) in [
            (json!({"namespace": "x"}), "namespace"),
            (json!({"metadata": {"user_id": "bob"}}), "metadata.user_id"),
            (json!({"metadata": [{"Agent-Id": 1}]}), "metadata.Agent-Id"),
        ] {
            assert_eq!(claim_in_body(&body), Some(Claim(path.to_owned())));
        }
        for body in [
            json!({"query": "namespace", "metadata": {"team": 1}}),
            json!({"provenance": {"sourceAccess": {"principals": ["user:bob"]}}}),
        ] {
            assert_eq!(claim_in_body(&body), None);
        }
    }

    #[test]
    fn headers_that_name_somebody_are_found() {
        for name in [
            "X-Namespace",
            "x-halofy-actor",
            "X-User-Id",
            "X-Tenant-ID",
            "X-Forwarded-User",
        ] {
            assert!(claim_in_header(name).is_some(), "{name}");
        }
        for name in [
            "user-agent",
            "host",
            "x-request-id",
            "authorization",
            "x-forwarded-for",
        ] {
            assert_eq!(claim_in_header(name), None, "{name}");
        }
    }
}
