//! Classification: every memory gets its protection label here, before it is
//! embedded or stored, whichever lane it came by. Pure and deterministic.
//!
//! Not here: the label itself and where it lets a text go; those are the core's.
//! No text that matched leaves this module, not even in a debug print.

mod pii;
mod secrets;

use halofy_core::{Classification, Destination, Sensitivity};

/// What the writer asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    /// The turn is marked sensitive.
    pub(crate) sensitive: bool,
    /// Nothing of it may reach an external provider.
    pub(crate) local_only: bool,
}

/// What the namespace's policy adds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PolicyRules<'a> {
    /// The one region in which its data may be processed.
    pub(crate) data_region: Option<&'a str>,
}

/// Labels a memory. What nothing more is known about stays in the organisation;
/// personal data and sensitive turns go to those who need them; a text with a secret
/// in it goes nowhere outside.
pub(crate) fn classify(content: &str, asked: Asked, rules: PolicyRules<'_>) -> Classification {
    let secrets = secrets::find(content);
    let pii = pii::find(content);
    let sensitivity = if !secrets.is_empty() {
        Sensitivity::Restricted
    } else if !pii.is_empty() || asked.sensitive {
        Sensitivity::Confidential
    } else {
        Sensitivity::Internal
    };
    let stays = asked.local_only || !secrets.is_empty();
    let destinations = Destination::ALL.into_iter();
    Classification {
        sensitivity,
        pii,
        secrets: secrets.into_iter().map(str::to_owned).collect(),
        destinations: destinations
            .filter(|destination| !(stays && destination.is_inference()))
            .collect(),
        regions: rules.data_region.map(str::to_owned).into_iter().collect(),
    }
}

/// Whether a secret is in the text.
pub(crate) fn holds_secret(text: &str) -> bool {
    !secrets::find(text).is_empty()
}

#[cfg(test)]
mod tests;
