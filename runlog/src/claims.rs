//! [`Claims`]: keys that one of several takes, for engines that one process has to itself.
//!
//! A claim that has lapsed is gone. Claims are not written to the disk: they decide between callers that come at once,
//! and what was decided stands in the runs that followed.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use aqueduct_core::Timestamp;

/// The keys that are claimed: the value that holds each, and until when.
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
