//! [`Claims`]: keys that exactly one of several callers obtains, for engines that belong to one process.
//!
//! A lapsed claim is removed. Claims are not persisted: they decide between simultaneous callers, and the runs that follow
//! record the decision.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use aqueduct_core::Timestamp;

/// The claimed keys, with the value that holds each and the end of the claim.
#[derive(Debug, Default)]
pub(crate) struct Claims(Mutex<HashMap<String, (String, Timestamp)>>);

impl Claims {
    /// As [`RunLog::claim`](crate::RunLog::claim).
    pub(crate) fn claim(&self, key: String, value: String, now: Timestamp, until: Timestamp) -> String {
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claims.retain(|_, (_, until)| *until > now);
        if let Some((held, _)) = claims.get(&key).filter(|(held, _)| *held != value) {
            return held.clone();
        }
        if until > now {
            claims.insert(key, (value.clone(), until));
        } else {
            claims.remove(&key);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(claims: &Claims, value: &str, now: i64, until: i64) -> String {
        claims.claim("key".to_owned(), value.to_owned(), Timestamp(now), Timestamp(until))
    }

    #[test]
    fn a_claim_has_lapsed_at_its_end() {
        let claims = Claims::default();
        assert_eq!(claim(&claims, "a", 1, 10), "a");
        assert_eq!(claim(&claims, "b", 9, 20), "a");
        assert_eq!(claim(&claims, "b", 10, 20), "b");
        assert_eq!(claim(&claims, "a", 11, 20), "b");
    }

    #[test]
    fn a_claim_that_ends_at_once_releases_the_key_also_for_a_clock_that_is_behind() {
        let claims = Claims::default();
        assert_eq!(claim(&claims, "a", 1, 100), "a");
        assert_eq!(claim(&claims, "a", 10, 10), "a");
        assert_eq!(claim(&claims, "b", 9, 100), "b");
    }
}
