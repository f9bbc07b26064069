//! One token bucket for each key (the `governor` crate's GCRA on a monotonic
//! clock, so a wall clock that steps back gives nobody tokens).

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota};
use halofy_core::{KeyId, RateLimit};

/// Buckets by key. Only keys that resolved get one, so there are no more buckets
/// than keys.
#[derive(Default)]
pub(crate) struct Limiter {
    buckets: Mutex<HashMap<KeyId, Bucket>>,
    clock: DefaultClock,
}

struct Bucket {
    limit: RateLimit,
    limiter: Arc<DefaultDirectRateLimiter>,
}

impl Limiter {
    /// Takes a token of this key.
    ///
    /// # Errors
    /// How long to wait for the next one.
    pub(crate) fn take(&self, key: &KeyId, limit: RateLimit) -> Result<(), Duration> {
        let taken = self.bucket(key, limit).check();
        taken.map_err(|not_until| not_until.wait_time_from(self.clock.now()))
    }

    /// The key's bucket; a new one when its policy changed.
    fn bucket(&self, key: &KeyId, limit: RateLimit) -> Arc<DefaultDirectRateLimiter> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        match buckets.get(key) {
            Some(bucket) if bucket.limit == limit => bucket.limiter.clone(),
            _ => {
                let limiter = Arc::new(DefaultDirectRateLimiter::direct(quota(limit)));
                let bucket = Bucket {
                    limit,
                    limiter: limiter.clone(),
                };
                buckets.insert(key.clone(), bucket);
                limiter
            }
        }
    }
}

fn quota(limit: RateLimit) -> Quota {
    let at_least_one = |n: u32| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
    Quota::per_second(at_least_one(limit.per_second)).allow_burst(at_least_one(limit.burst))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_a_bucket_of_its_own_and_never_more_than_its_burst() {
        let limiter = Limiter::default();
        let limit = RateLimit {
            per_second: 1,
            burst: 3,
        };
        let key = |name: &str| KeyId(name.to_owned());
        let granted = (0..50)
            .filter(|_| limiter.take(&key("a"), limit).is_ok())
            .count();
        assert_eq!(granted, 3);
        assert!(limiter.take(&key("b"), limit).is_ok());
        let wait = limiter
            .take(&key("a"), limit)
            .expect_err("the bucket is empty");
        assert!(wait <= Duration::from_secs(1) && wait > Duration::ZERO);
    }
}
