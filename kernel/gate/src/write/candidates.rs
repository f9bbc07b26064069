//! Stages one and two: from a text to the facts that may become memories.
//!
//! Without a model, with one that fails, or with a spent budget, the text itself is the one
//! candidate: a caller never loses what it said. Both model calls are over before anything
//! is committed, so a failure leaves nothing half-done.

use halofy_core::{Classification, Destination};
use halofy_core::{Content, DestinationDenied, EffectivePolicy, Kind, Namespace, Provider};
use halofy_retrieval::terms;
use halofy_store::StoreError;
use serde::Serialize;
use time::OffsetDateTime;

use super::Rider;
use super::draft::Draft;
use crate::gate::Gate;
use crate::jobs::lease::LEASE;
use crate::model::{Extracted, Extraction, Model, ModelError, Reply};
use crate::{Refusal, metrics};

/// A fact needs so many telling words.
const TELLING_WORDS: usize = 2;

/// A fact on its way to become a memory.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) content: Content,
    pub(super) kind: Kind,
    pub(super) event_time: Option<OffsetDateTime>,
    /// Names as the text has them.
    pub(super) mentions: Vec<String>,
    /// The model that drew it; absent for the caller's own words.
    pub(super) model: Option<String>,
}

/// A fact that did not become one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Rejected {
    pub(crate) candidate: String,
    pub(crate) reason: &'static str,
}

/// What the first two stages came to.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub(super) found: Vec<Candidate>,
    pub(super) rejected: Vec<Rejected>,
    /// Why a model did not help although one should have.
    pub(super) brownout: Option<&'static str>,
    /// Why the text may not go to the model.
    pub(super) denied: Option<DestinationDenied>,
}

/// Why no facts were drawn.
enum Undrawn {
    /// The model did not help; the text is stored as it is.
    Brownout(&'static str),
    /// Nothing is to be stored.
    GivenUp,
}

impl From<NoAllowance> for Undrawn {
    fn from(none: NoAllowance) -> Self {
        Self::Brownout(none.reason())
    }
}

impl From<ModelError> for Undrawn {
    fn from(error: ModelError) -> Self {
        Self::Brownout(error.reason())
    }
}

/// Why a namespace may not ask the model now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoAllowance {
    /// What it may spend in a day is spent.
    Spent,
    /// It may spend nothing on any day.
    Nothing,
    /// What it spent cannot be read.
    Unknown,
}

impl NoAllowance {
    /// A stable word, as that of a failure of the model.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Spent | Self::Nothing => "llm_budget",
            Self::Unknown => "llm_budget_unknown",
        }
    }
}

impl Candidates {
    fn verbatim(draft: &Draft) -> Self {
        let whole = Candidate {
            content: draft.content.clone(),
            kind: draft.kind,
            event_time: draft.event_time,
            mentions: Vec::new(),
            model: None,
        };
        Self {
            found: vec![whole],
            ..Self::default()
        }
    }

    /// The model found nothing in the text that is worth keeping, which the caller learns of.
    fn nothing(draft: &Draft) -> Self {
        let whole = Rejected {
            candidate: draft.content.as_str().to_owned(),
            reason: "low-information-fact",
        };
        Self {
            rejected: vec![whole],
            ..Self::default()
        }
    }

    /// The text itself in place of facts that nobody checked, which the caller learns of.
    fn unverified(
        draft: &Draft,
        facts: Vec<Extracted>,
        surplus: Vec<String>,
        reason: &'static str,
    ) -> Self {
        let drawn = facts.iter().map(|fact| fact.content.as_str());
        let all = drawn.chain(surplus.iter().map(String::as_str));
        let rejected = all.map(|candidate| Rejected {
            candidate: super::annotation::without_annotation(candidate).to_owned(),
            reason: "llm-unavailable",
        });
        Self {
            rejected: rejected.collect(),
            brownout: Some(reason),
            ..Self::verbatim(draft)
        }
    }
}

impl Gate {
    /// The facts of a draft, or the draft itself.
    pub(super) async fn candidates(
        &self,
        namespace: &Namespace,
        policy: &EffectivePolicy,
        draft: &Draft,
        label: &Classification,
        told_at: OffsetDateTime,
        rider: Rider<'_>,
    ) -> Result<Candidates, Refusal> {
        let Some(model) = self.model.as_ref().filter(|_| !draft.verbatim) else {
            return Ok(Candidates::verbatim(draft));
        };
        let provider = Provider {
            local: model.is_local(),
            region: model.region(),
        };
        if let Err(denied) = label.allows(Destination::LlmExtraction, &provider) {
            return Ok(Candidates {
                denied: Some(denied),
                ..Candidates::verbatim(draft)
            });
        }
        let candidates = match self
            .draw(namespace, policy, model, draft, told_at, rider)
            .await
        {
            Ok(candidates) => candidates,
            Err(Undrawn::Brownout(reason)) => Candidates {
                brownout: Some(reason),
                ..Candidates::verbatim(draft)
            },
            Err(Undrawn::GivenUp) => {
                return Err(Refusal::Unavailable {
                    what: "kernel",
                    why: "the write is not its own any more, or it stops".to_owned(),
                });
            }
        };
        if let Some(reason) = candidates.brownout {
            metrics::brownout(reason);
        }
        Ok(candidates)
    }

    /// One call for the facts, one for all verdicts on them.
    async fn draw(
        &self,
        namespace: &Namespace,
        policy: &EffectivePolicy,
        model: &Model,
        draft: &Draft,
        told_at: OffsetDateTime,
        rider: Rider<'_>,
    ) -> Result<Candidates, Undrawn> {
        let text = draft.content.as_str();
        self.model_allowance(namespace, policy).await?;
        let extracted = unless_given_up(rider, model.extract(text, told_at)).await?;
        let Reply {
            value: Extraction { facts, surplus },
            model: name,
            ..
        } = self.spent(namespace, extracted).await?;
        let verdicts = match policy.verifier {
            true => match self
                .verdicts(namespace, policy, model, (text, &facts), rider)
                .await
            {
                Err(Undrawn::Brownout(reason)) => {
                    return Ok(Candidates::unverified(draft, facts, surplus, reason));
                }
                verdicts => verdicts?,
            },
            false => vec![true; facts.len()],
        };
        if facts.is_empty() {
            return Ok(Candidates::nothing(draft));
        }
        let mut sifted = sift(draft, facts, &verdicts, &name);
        let surplus = surplus.into_iter().map(|candidate| Rejected {
            candidate,
            reason: "max-facts-cap",
        });
        sifted.rejected.extend(surplus);
        Ok(sifted)
    }

    async fn verdicts(
        &self,
        namespace: &Namespace,
        policy: &EffectivePolicy,
        model: &Model,
        (text, facts): (&str, &[Extracted]),
        rider: Rider<'_>,
    ) -> Result<Vec<bool>, Undrawn> {
        self.model_allowance(namespace, policy).await?;
        self.still_own(rider).await?;
        let verified = unless_given_up(rider, model.verify(text, facts)).await?;
        Ok(self.spent(namespace, verified).await?.value)
    }

    /// Whether a deferred write still is this kernel's, before more of its text is sent: it
    /// may have been erased while the model thought.
    async fn still_own(&self, rider: Rider<'_>) -> Result<(), Undrawn> {
        let Rider::Job(run) = rider else {
            return Ok(());
        };
        match self.store.job_extend(&run.job.lease, LEASE).await {
            Err(StoreError::LeaseLost) => Err(Undrawn::GivenUp),
            // What cannot be asked now is asked again at the commit.
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Notes what a call of the model cost, one of no use too, and passes its reply on.
    pub(crate) async fn spent<T>(
        &self,
        namespace: &Namespace,
        reply: Result<Reply<T>, ModelError>,
    ) -> Result<Reply<T>, ModelError> {
        let tokens = match &reply {
            Ok(reply) => reply.tokens,
            Err(error) if error.tokens() == 0 => return reply,
            Err(error) => error.tokens(),
        };
        let today = OffsetDateTime::now_utc().date();
        let noted = self.store.model_usage_add(namespace, today, tokens).await;
        if let Err(error) = noted {
            // The store is about to fail the write itself; a budget that is a call short is
            // the smaller harm.
            tracing::warn!(%error, "what the model cost was not noted");
        }
        reply
    }

    /// Whether the namespace may still spend on the model today.
    pub(crate) async fn model_allowance(
        &self,
        namespace: &Namespace,
        policy: &EffectivePolicy,
    ) -> Result<(), NoAllowance> {
        let Some(cap) = policy.model_tokens_per_day else {
            return Ok(());
        };
        let today = OffsetDateTime::now_utc().date();
        match self.store.model_usage(namespace, today).await {
            Ok(spent) if spent < cap => Ok(()),
            Ok(_) if cap == 0 => Err(NoAllowance::Nothing),
            Ok(_) => Err(NoAllowance::Spent),
            Err(error) => {
                tracing::warn!(%error, "what the model cost today is not known");
                Err(NoAllowance::Unknown)
            }
        }
    }
}

/// What the model answers. It is not waited for, nor asked for more, once the write is
/// somebody else's: its text may be erased by then.
async fn unless_given_up<T>(
    rider: Rider<'_>,
    answer: impl Future<Output = T>,
) -> Result<T, Undrawn> {
    tokio::select! {
        answer = answer => Ok(answer),
        () = rider.given_up() => Err(Undrawn::GivenUp),
    }
}

/// Those that may become memories, and why the others may not.
fn sift(draft: &Draft, extracted: Vec<Extracted>, verdicts: &[bool], model: &str) -> Candidates {
    let mut sifted = Candidates::default();
    for (fact, verified) in extracted.into_iter().zip(verdicts) {
        let content = super::annotation::without_annotation(&fact.content);
        let refusal = match Content::parse(content) {
            _ if !verified => "failed-verification",
            Ok(content) if is_telling(content.as_str()) => {
                sifted.found.push(Candidate {
                    content,
                    kind: fact.kind,
                    event_time: fact.event_time.or(draft.event_time),
                    mentions: fact.entities,
                    model: Some(model.to_owned()),
                });
                continue;
            }
            _ => "low-information-fact",
        };
        sifted.rejected.push(Rejected {
            candidate: fact.content,
            reason: refusal,
        });
    }
    sifted
}

/// Whether it says more than a name or a filler.
fn is_telling(fact: &str) -> bool {
    let mut stems = terms(fact);
    stems.sort_unstable();
    stems.dedup();
    stems.len() >= TELLING_WORDS
}
