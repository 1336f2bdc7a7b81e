//! Refusals of new runs: the engine drains, the log is unavailable, or the limit of runs is reached.
//!
//! | refused because | kind |
//! |---|---|
//! | the engine drains, the log is unavailable | `Unavailable`: another replica may accept the run |
//! | `runs.limit` is reached, the log is full | `Busy`: a retry may succeed |
//! | the run exists | `Conflict` |
//! | the events were trimmed | `Gone`, with the lowest number that is stored |

use aqueduct_core::service::{RefusalKind, ServiceError};
use aqueduct_runlog::LogError;

use crate::runs::Runs;

impl Runs {
    /// Refuses a start that would exceed the limit together with the runs that are held for a reply.
    pub(crate) fn check_held(&self) -> Result<(), ServiceError> {
        let limit = self.setup().settings.limit;
        if self.active_runs() + self.held_runs() < limit {
            return Ok(());
        }
        let message = format!(
            "run limit reached (`runs.limit` = {limit}, with runs that wait for a reply): retry later"
        );
        Err(ServiceError::new(RefusalKind::Busy, message))
    }

    /// Refuses new runs while the engine drains, the log is unavailable, or the limit is reached.
    pub(crate) fn check_room(&self) -> Result<(), ServiceError> {
        if self.is_draining() {
            let message = "the service is stopping: retry, or use another replica";
            return Err(ServiceError::new(RefusalKind::Unavailable, message));
        }
        self.check_log()?;
        let limit = self.setup().settings.limit;
        if self.active_runs() >= limit {
            return Err(self.full(limit));
        }
        Ok(())
    }
}

/// Converts an error of the log into a refusal.
pub(crate) fn refuse(error: &LogError) -> ServiceError {
    let kind = match error {
        LogError::NotFound(_) => RefusalKind::NotFound,
        LogError::Exists(_) => RefusalKind::Conflict,
        LogError::Full { .. } => RefusalKind::Busy,
        LogError::Unavailable(_) => RefusalKind::Unavailable,
        LogError::Gone { earliest, .. } => RefusalKind::Gone { earliest: *earliest },
        _ => RefusalKind::Internal,
    };
    ServiceError::new(kind, error.to_string())
}
