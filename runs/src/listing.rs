//! Lists of runs: a caller sees those of its own principals, and no others.

use std::collections::HashMap;

use aqueduct_core::service::{Caller, ServiceError};
use aqueduct_runlog::{LogError, RunQuery, RunState};

use crate::publish::mailbox::is_box;
use crate::runs::{Runs, refuse};

/// Runs that are listed at once.
const PAGE: usize = 256;

impl Runs {
    /// Returns the runs of this caller that the log still holds, newest first, at most `most`.
    ///
    /// # Errors
    ///
    /// The caller has to bring an identity, or the log cannot be read.
    pub async fn list_runs(&self, caller: &Caller, most: usize) -> Result<Vec<RunState>, ServiceError> {
        // Strangers are told to bring a token, as for the list of agents.
        let listed = self.list(caller)?;
        let mut agents: HashMap<String, Vec<String>> = HashMap::new();
        for agent in listed {
            if let Some(principal) = self.0.host.access.identify(caller, &agent.name) {
                agents.entry(principal.to_string()).or_default().push(agent.name);
            }
        }
        let mut runs = Vec::new();
        for (owner, agents) in agents {
            let found = self.newest_of(owner, &agents, most).await;
            runs.extend(found.map_err(|error| refuse(&error))?);
        }
        runs.sort_by_cached_key(|run| std::cmp::Reverse(run.place()));
        runs.truncate(most);
        Ok(runs)
    }

    /// The newest runs of an owner that some of these agents had; no more pages are read than that takes.
    async fn newest_of(
        &self,
        owner: String,
        agents: &[String],
        most: usize,
    ) -> Result<Vec<RunState>, LogError> {
        let mut runs = Vec::new();
        let mut query = RunQuery { owner: Some(owner), newest_first: true, ..RunQuery::default() };
        while runs.len() < most {
            let page = self.run_log().list(query.clone(), PAGE).await?;
            let Some(last) = page.last() else { break };
            query.after = Some(last.place());
            let is_shown = |run: &RunState| agents.contains(&run.meta.agent) && !is_box(&run.meta.thread_id);
            runs.extend(page.into_iter().filter(is_shown));
        }
        Ok(runs)
    }
}
