//! Lists of runs: a caller lists the runs of its own principal, an admin those of all.

use aqueduct_core::Identity;
use aqueduct_core::service::{Caller, ServiceError};
use aqueduct_runlog::{LogError, RunQuery, RunState};

use crate::publish::mailbox::is_box;
use crate::runs::{Runs, refuse};

/// Runs that are read from the log at once.
const PAGE: usize = 256;

impl Runs {
    /// Returns the caller's runs that the log still holds, newest first, at most `most`.
    ///
    /// # Errors
    ///
    /// Returns a refusal if the caller lacks a required identity, or the log cannot be read.
    pub async fn list_runs(&self, caller: &Caller, most: usize) -> Result<Vec<RunState>, ServiceError> {
        // Callers without proof are refused as unauthenticated, as for the list of agents.
        self.list(caller)?;
        let identity = self.identify(caller)?;
        let owners =
            if identity.is_admin { vec![None] } else { identity.owners().into_iter().map(Some).collect() };
        let mut runs = Vec::new();
        for owner in owners {
            let found = self.newest_of(owner, &identity, most).await;
            runs.extend(found.map_err(|error| refuse(&error))?);
        }
        runs.sort_by_cached_key(|run| std::cmp::Reverse(run.place()));
        runs.truncate(most);
        Ok(runs)
    }

    /// Returns the newest runs of one or all owners that the identity may see. Reads only as many pages as needed.
    async fn newest_of(
        &self,
        owner: Option<String>,
        identity: &Identity,
        most: usize,
    ) -> Result<Vec<RunState>, LogError> {
        let mut runs = Vec::new();
        let mut query = RunQuery { owner, newest_first: true, ..RunQuery::default() };
        while runs.len() < most {
            let page = self.run_log().list(query.clone(), PAGE).await?;
            let Some(last) = page.last() else { break };
            query.after = Some(last.place());
            let is_run = |run: &RunState| !is_box(&run.meta.thread_id) && !run.meta.agent.is_empty();
            runs.extend(page.into_iter().filter(|run| is_run(run) && self.may_see(identity, &run.meta)));
        }
        Ok(runs)
    }
}
