//! What becomes of two memories that cannot both be true: the trust lattice, and time.

use time::OffsetDateTime;

/// What counts of a memory when it is weighed against another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// The rank of its source.
    pub trust: i16,
    /// From when on it is believed.
    pub valid_from: OffsetDateTime,
    /// When the kernel was told.
    pub assertion_time: OffsetDateTime,
}

/// What becomes of an incoming memory and the incumbent that it contradicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The incumbent is closed where the incoming begins.
    Supersede,
    /// The incoming tells of an earlier time: it is closed where the incumbent begins.
    Historical,
    /// The incoming ranks lower: it is put aside until somebody decides.
    Dispute,
}

/// Weighs an incoming memory against a contradicting incumbent: the higher rank wins; of equal
/// rank the later.
pub fn weigh(incoming: &Standing, incumbent: &Standing) -> Verdict {
    let when = |one: &Standing| (one.valid_from, one.assertion_time);
    if incoming.trust < incumbent.trust {
        return Verdict::Dispute;
    }
    if incoming.trust == incumbent.trust && when(incoming) < when(incumbent) {
        return Verdict::Historical;
    }
    Verdict::Supersede
}

#[cfg(test)]
mod tests {
    use time::Duration;

    use super::*;

    fn standing(trust: i16, from: i64, told: i64) -> Standing {
        let at = |seconds| OffsetDateTime::UNIX_EPOCH + Duration::seconds(seconds);
        Standing {
            trust,
            valid_from: at(from),
            assertion_time: at(told),
        }
    }

    #[test]
    fn rank_decides_before_time_and_time_among_equals() {
        let incumbent = standing(40, 100, 100);
        for (trust, from, told, verdict) in [
            (50, 1, 200, Verdict::Supersede),
            (10, 500, 500, Verdict::Dispute),
            (40, 101, 200, Verdict::Supersede),
            (40, 99, 200, Verdict::Historical),
            (40, 100, 200, Verdict::Supersede),
            (40, 100, 99, Verdict::Historical),
        ] {
            assert_eq!(weigh(&standing(trust, from, told), &incumbent), verdict);
        }
    }
}
