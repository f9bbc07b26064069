//! Bodies of calls: what each may hold, and reading one so that a mistake is
//! named by its field.

use halofy_core::{Invalid, Kind, MemoryId, Namespace, Provenance, QueryText};
use halofy_store::ErasureTarget;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::Refusal;
use crate::claims::claim_in_body;
use crate::clock::read_moment;

/// Results of a search that names no `k`.
pub const DEFAULT_K: u32 = 10;
/// The most results of a search.
pub const MAX_K: u32 = 100;
const MAX_TOKEN_BUDGET: u32 = 100_000;
const DEFAULT_DISPUTES: u32 = 100;
const MAX_DISPUTES: u32 = 1_000;
const MAX_METADATA_BYTES: usize = 16 * 1024;

/// `POST /v1/mem/write`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteRequest {
    /// What to remember, verbatim: not blank, at most 64 KiB.
    pub content: String,
    /// What sort of thing it is; a fact if absent.
    #[serde(default)]
    pub kind: Kind,
    /// When it happened: RFC 3339 with an offset.
    pub event_time: Option<String>,
    /// Anything of the writer's own, at most 16 KiB of JSON; no identities.
    pub metadata: Option<Map<String, Value>>,
    /// Labels the memory as confidential.
    #[serde(default)]
    pub sensitive: bool,
    /// Stores the text as it is: no model draws facts from it.
    #[serde(default)]
    pub verbatim: bool,
    /// Nothing of it leaves for a model or an embedder outside.
    #[serde(default)]
    pub local_only: bool,
    /// At most so many facts: 1 to 64.
    pub max_facts: Option<u32>,
    /// What it fills: a newer memory of the same slot supersedes the older. At most 256
    /// bytes. For pointers and caches; stored verbatim.
    pub slot: Option<String>,
    /// The memory that it replaces. Stored verbatim.
    pub supersedes: Option<String>,
    /// Where it comes from; a conversation if absent.
    #[serde(default)]
    pub provenance: Provenance,
    /// Answers with a ticket at once, and stores afterwards.
    #[serde(default, rename = "async")]
    pub deferred: bool,
}

/// `POST /v1/mem/search`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SearchRequest {
    /// What is asked: not blank, at most 8 KiB.
    pub query: String,
    /// At most so many results: 1 to 100, 10 if absent.
    pub k: Option<u32>,
    /// Tokens that the results may have together: 1 to 100,000; the policy's if absent.
    pub token_budget: Option<u32>,
    /// `false` also ranks what was superseded, in a lane that no driver has.
    #[serde(default = "yes")]
    pub valid_only: bool,
    /// What held then, and not now: RFC 3339 with an offset. Not with `validOnly: false`.
    pub as_of: Option<String>,
    /// Keeps the query out of the audit log.
    #[serde(default)]
    pub sensitive: bool,
    /// Adds what ran and what it cost to the answer.
    #[serde(default)]
    pub explain: bool,
}

/// `POST /v1/mem/read`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadRequest {
    /// The memory's id.
    pub id: String,
    /// The one of its chain that held then: RFC 3339 with an offset.
    pub as_of: Option<String>,
}

/// `POST /v1/mem/history`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistoryRequest {
    /// The memory's id.
    pub id: String,
    /// Only what comes behind this one of its chain: the last that an earlier answer has,
    /// where that says `truncated`.
    pub after: Option<String>,
}

/// `POST /v1/mem/disputes`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisputesRequest {
    /// Also what is settled.
    #[serde(default)]
    pub all: bool,
    /// Only those about this memory.
    pub memory: Option<String>,
    /// Only those behind this one: the last that an earlier answer has, where that says
    /// `truncated`.
    pub after: Option<String>,
    /// At most so many, newest first: 1 to 1,000, 100 if absent.
    pub limit: Option<u32>,
}

/// `POST /v1/mem/resolve`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResolveRequest {
    /// The dispute's id.
    pub id: String,
    /// What becomes of it.
    pub verdict: Resolution,
}

/// How a dispute is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resolution {
    /// The incoming memory holds, the incumbent is closed.
    Accept,
    /// The incumbent holds, the incoming memory is closed.
    Reject,
    /// They do not contradict each other: both hold.
    Both,
    /// What the kernel decided by itself is taken back.
    Undo,
}

impl Resolution {
    /// The name as it is stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Reject => "reject",
            Self::Both => "both",
            Self::Undo => "undo",
        }
    }
}

/// `POST /v1/mem/forget`: exactly one of the three.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForgetRequest {
    /// One memory.
    pub id: Option<String>,
    /// What came from one document or episode, by its `provenance.ref`.
    pub source_ref: Option<String>,
    /// Everything of the key's namespace and below it.
    #[serde(default)]
    pub everything: bool,
}

/// `POST /v1/mem/stats`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatsRequest {}

/// `POST /v1/mem/ticket`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TicketRequest {
    /// What a call was answered with: `job_…`.
    pub ticket: String,
}

fn yes() -> bool {
    true
}

/// Reads a body: first for claims of identity, then as `T`.
///
/// # Errors
/// [`Refusal::Malformed`], [`Refusal::IdentityClaimed`], or [`Refusal::Invalid`]
/// naming the field.
pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    let value: Value = serde_json::from_slice(bytes).map_err(unreadable)?;
    if let Some(claim) = claim_in_body(&value) {
        return Err(Refusal::IdentityClaimed { name: claim.0 });
    }
    // Else serde would also take an array, as the fields in their order.
    if !value.is_object() {
        return Err(Invalid::new("body", "must be a JSON object").into());
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    serde_path_to_error::deserialize(&mut json).map_err(wrong_field)
}

/// Text that JSON can escape and UTF-8 cannot hold is a bad value, not bad JSON.
fn unreadable(error: serde_json::Error) -> Refusal {
    let text = error.to_string();
    let not_text = ["surrogate", "hex escape", "unicode code point"];
    if not_text.iter().any(|sign| text.contains(sign)) {
        return Invalid::new("body", format!("holds text that is not Unicode ({text})")).into();
    }
    Refusal::Malformed(text)
}

fn wrong_field(error: serde_path_to_error::Error<serde_json::Error>) -> Refusal {
    let path = error.path().to_string();
    let text = error.into_inner().to_string();
    // The reader's position says nothing to the caller.
    let problem = text.split(" at line ").next().unwrap_or(&text).to_owned();
    let field = match quoted(&problem) {
        Some(name) if about_a_field(&problem) => name.to_owned(),
        _ => path,
    };
    let field = if field == "." {
        "body".to_owned()
    } else {
        field
    };
    Invalid::new(field, problem).into()
}

/// Whether the name that a problem quotes is a field's, and not a value.
fn about_a_field(problem: &str) -> bool {
    let beginnings = ["missing field", "unknown field", "duplicate field"];
    beginnings
        .iter()
        .any(|beginning| problem.starts_with(beginning))
}

/// The name in ``missing field `query` ``.
fn quoted(problem: &str) -> Option<&str> {
    problem.split('`').nth(1)
}

impl WriteRequest {
    pub(crate) fn event_time(&self) -> Result<Option<OffsetDateTime>, Invalid> {
        moment("eventTime", self.event_time.as_deref())
    }

    pub(crate) fn metadata(&self) -> Result<Option<Value>, Invalid> {
        let Some(metadata) = &self.metadata else {
            return Ok(None);
        };
        let value = Value::Object(metadata.clone());
        let text = value.to_string();
        if text.len() > MAX_METADATA_BYTES {
            return Err(Invalid::new("metadata", "is larger than 16 KiB"));
        }
        if holds_nul(&value) {
            return Err(Invalid::new("metadata", "holds the character U+0000"));
        }
        Ok(Some(value))
    }
}

impl SearchRequest {
    pub(crate) fn query(&self) -> Result<QueryText, Invalid> {
        QueryText::parse(&self.query)
    }

    pub(crate) fn as_of(&self) -> Result<Option<OffsetDateTime>, Invalid> {
        let as_of = moment("asOf", self.as_of.as_deref())?;
        if as_of.is_some() && !self.valid_only {
            let problem = "is of one moment, and validOnly: false is of all; send one of them";
            return Err(Invalid::new("asOf", problem));
        }
        Ok(as_of)
    }

    pub(crate) fn k(&self) -> Result<u32, Invalid> {
        in_range("k", self.k.unwrap_or(DEFAULT_K), MAX_K)
    }

    pub(crate) fn token_budget(&self, of_policy: u32) -> Result<u32, Invalid> {
        let asked = self.token_budget.unwrap_or(of_policy);
        in_range("tokenBudget", asked, MAX_TOKEN_BUDGET)
    }
}

impl ReadRequest {
    pub(crate) fn id(&self) -> Result<MemoryId, Invalid> {
        MemoryId::parse(&self.id)
    }

    pub(crate) fn as_of(&self) -> Result<Option<OffsetDateTime>, Invalid> {
        moment("asOf", self.as_of.as_deref())
    }
}

impl HistoryRequest {
    pub(crate) fn id(&self) -> Result<MemoryId, Invalid> {
        MemoryId::parse(&self.id)
    }

    pub(crate) fn after(&self) -> Result<Option<MemoryId>, Invalid> {
        optional("after", self.after.as_deref(), MemoryId::parse)
    }
}

impl DisputesRequest {
    pub(crate) fn limit(&self) -> Result<u32, Invalid> {
        in_range(
            "limit",
            self.limit.unwrap_or(DEFAULT_DISPUTES),
            MAX_DISPUTES,
        )
    }

    pub(crate) fn memory(&self) -> Result<Option<MemoryId>, Invalid> {
        optional("memory", self.memory.as_deref(), MemoryId::parse)
    }

    pub(crate) fn after(&self) -> Result<Option<&str>, Invalid> {
        optional("after", self.after.as_deref(), dispute_id)
    }
}

impl ResolveRequest {
    /// The name of a dispute.
    pub(crate) fn id(&self) -> Result<&str, Invalid> {
        dispute_id(&self.id)
    }
}

/// A name under a field that may be absent: what is wrong with it is wrong with that field.
fn optional<'a, T>(
    field: &str,
    name: Option<&'a str>,
    read: impl FnOnce(&'a str) -> Result<T, Invalid>,
) -> Result<Option<T>, Invalid> {
    let read = name.map(read).transpose();
    read.map_err(|invalid| Invalid::new(field, invalid.problem))
}

fn dispute_id(id: &str) -> Result<&str, Invalid> {
    match MemoryId::parse(id.strip_prefix("cfl_").unwrap_or_default()) {
        Ok(_) => Ok(id),
        Err(_) => Err(Invalid::new(
            "id",
            "must be a dispute's id, such as cfl_01J…",
        )),
    }
}

impl ForgetRequest {
    pub(crate) fn target(&self, own: &Namespace) -> Result<ErasureTarget, Invalid> {
        match (&self.id, &self.source_ref, self.everything) {
            (Some(id), None, false) => MemoryId::parse(id).map(ErasureTarget::Memory),
            (None, Some(reference), false) if reference.contains('\0') => {
                Err(Invalid::new("sourceRef", "holds the character U+0000"))
            }
            (None, Some(reference), false) => Ok(ErasureTarget::Source(reference.clone())),
            (None, None, true) => Ok(ErasureTarget::Namespace(own.clone())),
            _ => {
                let problem = "must name exactly one of id, sourceRef, everything";
                Err(Invalid::new("body", problem))
            }
        }
    }
}

/// Stored to the microsecond, and so compared.
fn moment(field: &str, text: Option<&str>) -> Result<Option<OffsetDateTime>, Invalid> {
    let read = |text: &str| {
        read_moment(text).ok_or_else(|| {
            let problem = "must be RFC 3339 with an offset, such as 2026-03-01T12:00:00Z";
            Invalid::new(field, problem)
        })
    };
    text.map(read).transpose()
}

/// Whether a name or a text in it holds U+0000, which no JSON column can store. The
/// depth is the parser's.
fn holds_nul(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(items) => items.iter().any(holds_nul),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.contains('\0') || holds_nul(value)),
        _ => false,
    }
}

fn in_range(field: &str, value: u32, max: u32) -> Result<u32, Invalid> {
    match value {
        0 => Err(Invalid::new(field, format!("must be 1 to {max}"))),
        n if n > max => Err(Invalid::new(field, format!("is {n}; must be 1 to {max}"))),
        n => Ok(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field_of<T: DeserializeOwned>(body: &str) -> String {
        match read::<T>(body.as_bytes()).map(|_| ()) {
            Err(Refusal::Invalid(invalid)) => invalid.field,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_mistake_is_named_by_its_field() {
        assert_eq!(field_of::<SearchRequest>(r#"{"query":"x","k":-1}"#), "k");
        assert_eq!(field_of::<SearchRequest>(r#"{"query":7}"#), "query");
        assert_eq!(field_of::<SearchRequest>(r#"{"query":"x","kk":1}"#), "kk");
        assert_eq!(field_of::<SearchRequest>("{}"), "query");
        assert_eq!(field_of::<SearchRequest>("[1,2,3,4,5,6]"), "body");
        assert_eq!(field_of::<SearchRequest>("7"), "body");
        assert_eq!(field_of::<WriteRequest>(r#"{"content":"\ud800"}"#), "body");
        assert_eq!(
            field_of::<WriteRequest>(r#"{"content":"x","kind":"y"}"#),
            "kind"
        );
    }

    #[test]
    fn broken_json_is_told_apart_from_a_bad_field() {
        assert!(matches!(
            read::<StatsRequest>(b"{"),
            Err(Refusal::Malformed(_))
        ));
        assert!(matches!(
            read::<StatsRequest>(b""),
            Err(Refusal::Malformed(_))
        ));
        assert!(read::<StatsRequest>(b"{}").is_ok());
    }

    #[test]
    fn metadata_may_speak_of_nul_and_not_hold_it() {
        let taken = |metadata: &str| {
            let body = format!(r#"{{"content":"x","metadata":{metadata}}}"#);
            let request: WriteRequest = read(body.as_bytes()).expect("readable");
            request.metadata().is_ok()
        };
        assert!(!taken(r#"{"a":"\u0000"}"#));
        assert!(!taken(r#"{"a":[{"b\u0000":1}]}"#));
        assert!(taken(r#"{"a":"\\u0000"}"#));
    }
}
