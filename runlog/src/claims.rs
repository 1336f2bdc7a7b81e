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
