//! The protection label of a memory, and the decision where its text may go.
//!
//! Not here: how a text is read for secrets and personal data. That is the gate's.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How far a memory may travel, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sensitivity {
    /// Anyone.
    Public,
    /// The organisation. The label of what nothing more is known about.
    Internal,
    /// Those who need it.
    Confidential,
    /// Named destinations only.
    Restricted,
}

/// A kind of personal data. The label says which kinds were found, never the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PiiKind {
    /// An e-mail address.
    Email,
    /// A telephone number.
    Phone,
    /// The number of a payment card.
    CreditCard,
    /// An international bank account number.
    Iban,
    /// A number that a state gave to one person.
    NationalId,
    /// A globally routable IP address.
    IpAddress,
}

/// Where the bytes of a memory may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Destination {
    /// The language model that takes facts out of a text.
    LlmExtraction,
    /// What turns a text into a vector.
    EmbeddingProvider,
    /// The authority that keeps it.
    #[serde(rename = "canonical-l2")]
    CanonicalL2,
}

impl Destination {
    /// Every destination, in order.
    pub const ALL: [Self; 3] = [
        Self::LlmExtraction,
        Self::EmbeddingProvider,
        Self::CanonicalL2,
    ];

    /// The name in a stored label and in the audit trail.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LlmExtraction => "llm-extraction",
            Self::EmbeddingProvider => "embedding-provider",
            Self::CanonicalL2 => "canonical-l2",
        }
    }

    /// Whether somebody else computes on the text there.
    pub fn is_inference(self) -> bool {
        matches!(self, Self::LlmExtraction | Self::EmbeddingProvider)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Who runs a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Provider<'a> {
    /// It runs inside the kernel's own trust boundary: nothing leaves.
    pub local: bool,
    /// Where it processes what it is sent, where that is known.
    pub region: Option<&'a str>,
}

impl<'a> Provider<'a> {
    /// One inside the kernel's own trust boundary.
    pub const LOCAL: Provider<'static> = Provider {
        local: true,
        region: None,
    };

    /// One outside of it.
    pub fn external(region: Option<&'a str>) -> Self {
        let local = false;
        Self { local, region }
    }
}

/// The protection label that every stored memory carries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Classification {
    /// How far it may travel.
    pub sensitivity: Sensitivity,
    /// Kinds of personal data found in it, in order.
    #[serde(default)]
    pub pii: Vec<PiiKind>,
    /// The rules that found a secret in it, in order.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Where it may go outside the kernel's trust boundary. A label that names none
    /// is from before they were recorded, and allows all.
    #[serde(default = "all_destinations")]
    pub destinations: Vec<Destination>,
    /// The regions in which it may be processed; any, where empty.
    #[serde(default)]
    pub regions: Vec<String>,
}

fn all_destinations() -> Vec<Destination> {
    Destination::ALL.to_vec()
}

/// Why a text may not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DestinationDenied {
    /// It holds a secret, and the provider is not local.
    #[error("a text with a secret in it may not go to {0}")]
    Secret(Destination),
    /// It is restricted, and the provider is not local.
    #[error("a restricted text may not go to {0}")]
    Restricted(Destination),
    /// Its label does not name the destination.
    #[error("its classification does not allow {0}")]
    NotAllowed(Destination),
    /// The provider is in none of its regions.
    #[error("its classification does not allow the region of {0}")]
    Region(Destination),
    /// It is bound to regions, and the provider's is not known.
    #[error("the region of {0} is not known, and its classification names regions")]
    RegionUnknown(Destination),
    /// It was cleared for another destination or provider.
    #[error("it was not cleared for this use of {0}")]
    NotCleared(Destination),
}

impl DestinationDenied {
    /// The reason in one word, for the audit trail.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Secret(_) => "secret",
            Self::Restricted(_) => "restricted",
            Self::NotAllowed(_) => "destination",
            Self::Region(_) => "region",
            Self::RegionUnknown(_) => "region-unknown",
            Self::NotCleared(_) => "not-cleared",
        }
    }
}

impl Classification {
    /// The label of what nothing more is known about.
    pub fn of(sensitivity: Sensitivity) -> Self {
        Self {
            sensitivity,
            pii: Vec::new(),
            secrets: Vec::new(),
            destinations: all_destinations(),
            regions: Vec::new(),
        }
    }

    /// The label of a text that has both labels: it may go where both allow it, and nowhere
    /// else. Regions of which none is in both allow no inference outside.
    pub fn tightened(&self, other: &Self) -> Self {
        let allowed = |to: &&Destination| other.destinations.contains(to);
        let mut destinations: Vec<_> = self.destinations.iter().filter(allowed).copied().collect();
        let regions = match (&self.regions[..], &other.regions[..]) {
            (any, named) | (named, any) if any.is_empty() => named.to_vec(),
            (own, theirs) => {
                let named = |one: &&String| theirs.iter().any(|two| one.eq_ignore_ascii_case(two));
                own.iter().filter(named).cloned().collect()
            }
        };
        let bound = !(self.regions.is_empty() && other.regions.is_empty());
        // No region named would allow all of them.
        let regions = match bound && regions.is_empty() {
            true => {
                destinations.retain(|to| !to.is_inference());
                self.regions.clone()
            }
            false => regions,
        };
        Self {
            sensitivity: self.sensitivity.max(other.sensitivity),
            pii: union(&self.pii, &other.pii),
            secrets: union(&self.secrets, &other.secrets),
            destinations,
            regions,
        }
    }

    /// Whether the text may go there. Inference by a local provider is always
    /// allowed: nothing leaves.
    ///
    /// # Errors
    /// When it may not, and when that cannot be told.
    pub fn allows(
        &self,
        destination: Destination,
        provider: &Provider<'_>,
    ) -> Result<(), DestinationDenied> {
        if provider.local && destination.is_inference() {
            return Ok(());
        }
        if destination.is_inference() && !self.secrets.is_empty() {
            return Err(DestinationDenied::Secret(destination));
        }
        if destination.is_inference() && self.sensitivity == Sensitivity::Restricted {
            return Err(DestinationDenied::Restricted(destination));
        }
        if !self.destinations.contains(&destination) {
            return Err(DestinationDenied::NotAllowed(destination));
        }
        if provider.local {
            return Ok(());
        }
        self.allows_region(destination, provider)
    }

    fn allows_region(
        &self,
        destination: Destination,
        provider: &Provider<'_>,
    ) -> Result<(), DestinationDenied> {
        if self.regions.is_empty() {
            return Ok(());
        }
        let Some(region) = provider.region.filter(|region| !region.is_empty()) else {
            return Err(DestinationDenied::RegionUnknown(destination));
        };
        let named = |allowed: &String| allowed.eq_ignore_ascii_case(region);
        if self.regions.iter().any(named) {
            return Ok(());
        }
        Err(DestinationDenied::Region(destination))
    }

    /// The text this label belongs to, cleared for one use.
    ///
    /// # Errors
    /// Those of [`Self::allows`].
    pub fn clear<'a>(
        &self,
        text: &'a str,
        destination: Destination,
        provider: &Provider<'a>,
    ) -> Result<Cleared<'a>, DestinationDenied> {
        self.allows(destination, provider)?;
        Ok(Cleared {
            text,
            destination,
            provider: *provider,
        })
    }
}

fn union<T: Ord + Clone>(a: &[T], b: &[T]) -> Vec<T> {
    let mut both = [a, b].concat();
    both.sort_unstable();
    both.dedup();
    both
}

/// A text that may be sent to one destination at one provider.
///
/// Invariant: only [`Classification::clear`] makes one, so a client that takes
/// nothing else cannot send a text that nobody decided on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cleared<'a> {
    text: &'a str,
    destination: Destination,
    provider: Provider<'a>,
}

impl<'a> Cleared<'a> {
    /// The text, for the client that states what it is. A text cleared for a local
    /// provider is not given to an external one.
    ///
    /// # Errors
    /// When it was cleared for another destination or provider.
    pub fn text_for(
        &self,
        destination: Destination,
        provider: &Provider<'_>,
    ) -> Result<&'a str, DestinationDenied> {
        if self.destination == destination && self.provider == *provider {
            return Ok(self.text);
        }
        Err(DestinationDenied::NotCleared(destination))
    }
}

impl fmt::Debug for Cleared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cleared")
            .field("destination", &self.destination)
            .field("provider", &self.provider)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFERENCE: [Destination; 2] =
        [Destination::LlmExtraction, Destination::EmbeddingProvider];
    const EXTERNAL: Provider<'static> = Provider {
        local: false,
        region: Some("eu"),
    };

    fn label() -> Classification {
        Classification::of(Sensitivity::Internal)
    }

    #[test]
    fn a_label_from_before_destinations_allows_all_of_them() {
        let old: Classification =
            serde_json::from_str(r#"{"sensitivity":"internal"}"#).expect("an old label");
        assert_eq!(old, label());
        for destination in Destination::ALL {
            assert_eq!(old.allows(destination, &EXTERNAL), Ok(()));
        }
    }

    #[test]
    fn a_label_that_names_no_destination_allows_none() {
        let text = r#"{"sensitivity":"internal","destinations":[]}"#;
        let none: Classification = serde_json::from_str(text).expect("a label");
        for destination in Destination::ALL {
            let denied = Err(DestinationDenied::NotAllowed(destination));
            assert_eq!(none.allows(destination, &EXTERNAL), denied);
        }
    }

    #[test]
    fn a_label_is_stored_in_camel_case_with_the_names_of_its_destinations() {
        let mut full = label();
        full.pii = vec![PiiKind::CreditCard, PiiKind::IpAddress];
        full.secrets = vec!["jwt".to_owned()];
        let text = serde_json::to_value(&full).expect("plain data");
        let names = Destination::ALL.map(Destination::as_str);
        assert_eq!(text["destinations"], serde_json::json!(names));
        assert_eq!(
            text["pii"],
            serde_json::json!(["credit-card", "ip-address"])
        );
        let back: Classification = serde_json::from_value(text).expect("what was written");
        assert_eq!(back, full);
    }

    #[test]
    fn secrets_and_restricted_texts_never_go_to_external_inference() {
        let mut secret = label();
        secret.secrets = vec!["jwt".to_owned()];
        let restricted = Classification::of(Sensitivity::Restricted);
        for to in INFERENCE {
            let denied = Err(DestinationDenied::Secret(to));
            assert_eq!(secret.allows(to, &EXTERNAL), denied);
            let denied = Err(DestinationDenied::Restricted(to));
            assert_eq!(restricted.allows(to, &EXTERNAL), denied);
            assert_eq!(secret.allows(to, &Provider::LOCAL), Ok(()));
            assert_eq!(restricted.allows(to, &Provider::LOCAL), Ok(()));
        }
        let kept = Destination::CanonicalL2;
        assert_eq!(secret.allows(kept, &Provider::LOCAL), Ok(()));
        assert_eq!(restricted.allows(kept, &EXTERNAL), Ok(()));
    }

    #[test]
    fn a_destination_that_is_not_named_is_reached_by_a_local_provider_only() {
        let mut local_only = label();
        local_only.destinations = vec![Destination::CanonicalL2];
        for to in INFERENCE {
            let denied = Err(DestinationDenied::NotAllowed(to));
            assert_eq!(local_only.allows(to, &EXTERNAL), denied);
            assert_eq!(local_only.allows(to, &Provider::LOCAL), Ok(()));
        }
    }

    #[test]
    fn an_unknown_region_is_denied_where_regions_are_named() {
        let mut bound = label();
        bound.regions = vec!["EU".to_owned()];
        for to in Destination::ALL {
            assert_eq!(bound.allows(to, &EXTERNAL), Ok(()));
            assert_eq!(bound.allows(to, &Provider::LOCAL), Ok(()));
            let elsewhere = Provider::external(Some("us"));
            let denied = Err(DestinationDenied::Region(to));
            assert_eq!(bound.allows(to, &elsewhere), denied);
            for unknown in [None, Some("")] {
                let denied = Err(DestinationDenied::RegionUnknown(to));
                assert_eq!(bound.allows(to, &Provider::external(unknown)), denied);
            }
        }
        bound.regions = vec![String::new()];
        let nowhere = Provider::external(Some(""));
        assert!(bound.allows(Destination::LlmExtraction, &nowhere).is_err());
    }

    /// Labels of every kind, for what holds of any two.
    fn labels() -> Vec<Classification> {
        let mut labels = vec![label(), Classification::of(Sensitivity::Restricted)];
        for regions in [&["eu"][..], &["EU", "us"], &["ap"]] {
            let mut bound = label();
            bound.regions = regions.iter().map(|&region| region.to_owned()).collect();
            labels.push(bound);
        }
        let mut local_only = label();
        local_only.destinations = vec![Destination::CanonicalL2];
        let mut secret = Classification::of(Sensitivity::Confidential);
        secret.secrets = vec!["jwt".to_owned()];
        secret.pii = vec![PiiKind::Iban, PiiKind::Email];
        labels.extend([local_only, secret]);
        labels
    }

    #[test]
    fn a_tightened_label_allows_inference_where_both_labels_do_and_nowhere_else() {
        let regions = [None, Some("eu"), Some("US"), Some("ap"), Some("sa")];
        for (a, b) in labels()
            .iter()
            .flat_map(|a| labels().into_iter().map(move |b| (a.clone(), b)))
        {
            let both = a.tightened(&b);
            for (region, to) in regions
                .into_iter()
                .flat_map(|region| INFERENCE.map(|to| (region, to)))
            {
                let provider = Provider::external(region);
                let allows = |label: &Classification| label.allows(to, &provider).is_ok();
                assert_eq!(
                    allows(&both),
                    allows(&a) && allows(&b),
                    "{a:?} {b:?} {region:?}"
                );
            }
            assert_eq!(both.tightened(&a), both, "{a:?} {b:?}");
            assert_eq!(both.tightened(&b), both, "{a:?} {b:?}");
            assert!(both.sensitivity >= a.sensitivity.max(b.sensitivity));
        }
    }

    #[test]
    fn a_cleared_text_is_given_only_for_what_it_was_cleared_for() {
        let to = Destination::EmbeddingProvider;
        let cleared = label().clear("a text", to, &Provider::LOCAL);
        let cleared = cleared.expect("nothing forbids it");
        assert_eq!(cleared.text_for(to, &Provider::LOCAL), Ok("a text"));
        let denied = Err(DestinationDenied::NotCleared(to));
        assert_eq!(cleared.text_for(to, &EXTERNAL), denied);
        let other = Destination::LlmExtraction;
        let denied = Err(DestinationDenied::NotCleared(other));
        assert_eq!(cleared.text_for(other, &Provider::LOCAL), denied);
        assert!(!format!("{cleared:?}").contains("a text"));
    }
}
