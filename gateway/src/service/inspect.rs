//! Which runs a caller may look back at: its own, and no others.

use std::collections::HashMap;

use aqueduct_core::service::{Caller, ServiceError};
use aqueduct_runlog::{RunQuery, RunState};

use super::{Gateway, refuse};

impl Gateway {
    /// The runs of this caller that the log still holds, newest first, at most `most`.
    pub(crate) async fn runs_of(&self, caller: &Caller, most: usize) -> Result<Vec<RunState>, ServiceError> {
        // Strangers are told to bring a token, as for the list of agents.
        let listed = self.list(caller)?;
        let owners: HashMap<String, String> = listed
            .into_iter()
            .filter_map(|agent| {
                let owner = self.authenticate(self.agents.get(&agent.name)?, caller).ok()?;
                Some((agent.name, owner))
            })
            .collect();
        let mut runs =
            self.log.list(RunQuery::default(), usize::MAX).await.map_err(|error| refuse(&error))?;
        runs.reverse();
        runs.retain(|run| owners.get(&run.meta.agent) == Some(&run.meta.owner));
        runs.truncate(most);
        Ok(runs)
    }
}
