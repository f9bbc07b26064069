//! When a job that failed is tried again: exponential back-off with jitter. Pure.

use std::time::Duration;

/// The ceiling after the first try.
const BASE: Duration = Duration::from_secs(1);
/// The ceiling after many.
const CAP: Duration = Duration::from_secs(300);

/// How long to wait after so many tries: a share of `BASE * 2^(attempts - 1)`, of `CAP` at
/// most. `random` chooses the share: 0 none of it, `u32::MAX` all.
///
/// The whole range is used ("full jitter"), so that jobs which failed together do not come
/// back together.
pub(crate) fn backoff(attempts: u32, random: u32) -> Duration {
    let doublings = attempts.saturating_sub(1).min(16);
    let ceiling = BASE.saturating_mul(1 << doublings).min(CAP);
    ceiling.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// So often a service may be away when a job asks for it: about an hour in all.
pub(crate) const MAX_WAITS: u32 = 12;
/// The ceiling of the first wait for a service.
const PATIENT_BASE: Duration = Duration::from_secs(30);
/// The ceiling of later ones.
const PATIENT_CAP: Duration = Duration::from_secs(600);

/// How long to leave a service alone that was away so often: between half of
/// `PATIENT_BASE * 2^waits`, of `PATIENT_CAP` at most, and the whole of it.
pub(crate) fn patience(waits: u32, random: u32) -> Duration {
    let ceiling = PATIENT_BASE
        .saturating_mul(1 << waits.min(16))
        .min(PATIENT_CAP);
    ceiling / 2 + (ceiling / 2).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_may_be_away_for_about_an_hour() {
        let whole = |random| -> u64 {
            let waits = (0..MAX_WAITS).map(|waits| patience(waits, random));
            waits.map(|wait| wait.as_secs()).sum()
        };
        assert_eq!(patience(0, u32::MAX), Duration::from_secs(30));
        assert_eq!(patience(0, 0), Duration::from_secs(15));
        assert_eq!(patience(u32::MAX, u32::MAX), PATIENT_CAP);
        let (least, most) = (whole(0), whole(u32::MAX));
        assert!((40 * 60..=60 * 60).contains(&least), "{least}");
        assert!((60 * 60..=100 * 60).contains(&most), "{most}");
    }

    #[test]
    fn the_ceiling_doubles_from_one_second_to_five_minutes() {
        let ceilings: Vec<u64> = (1..=12)
            .map(|attempts| backoff(attempts, u32::MAX).as_secs())
            .collect();
        assert_eq!(ceilings, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert_eq!(backoff(u32::MAX, u32::MAX), CAP);
        assert_eq!(backoff(0, u32::MAX), BASE);
    }

    #[test]
    fn the_wait_is_spread_over_the_whole_range() {
        for attempts in 1..=20 {
            let ceiling = backoff(attempts, u32::MAX);
            assert_eq!(backoff(attempts, 0), Duration::ZERO);
            let half = backoff(attempts, u32::MAX / 2);
            assert!(half > ceiling.mul_f64(0.49) && half < ceiling.mul_f64(0.51));
        }
    }
}
