//! The classification hook: every memory gets its protection label here, before it
//! is embedded or stored, whichever lane it came by.

use halofy_core::{Classification, Content, Sensitivity};

/// Labels a memory. What nothing more is known about stays in the organisation;
/// a turn marked sensitive goes to those who need it.
pub(crate) fn classify(_content: &Content, sensitive: bool) -> Classification {
    Classification {
        sensitivity: if sensitive {
            Sensitivity::Confidential
        } else {
            Sensitivity::Internal
        },
    }
}
