//! [`TasksInLog`]: finds the tasks of A2A servers in the run log, at any replica and after a restart; push
//! configurations are errands.
//!
//! | a server needs | the log has |
//! |---|---|
//! | one task | the run of that id, if principal and agent match |
//! | a list of tasks | runs of the principal, newest first, in pages of [`PAGE`] |
//! | the events of a task | the events of its run, followed at any replica |
//! | push configurations | errands: work that a replica takes over when their owner stops |
//!
//! A run of another principal is not found, as if it did not exist. Errors of the log become `Unavailable`, and the caller may retry.

use std::sync::{Arc, Weak};

use aqueduct_adapter_a2a::server::{LoggedRun, LoggedWish, TaskLog, WishRecord};
use aqueduct_core::service::{
    BoxFuture, Caller, EventStream, RefusalKind, ServiceError, ServiceFuture, StartedRun,
};
use aqueduct_core::{RunId, RunInput, ThreadId};
use aqueduct_runlog::{Follow, LogError, LogScope, RunMeta, RunQuery, RunState};
use aqueduct_runs::Runs;
use aqueduct_runs::errands::{Errand, ErrandHandler, ErrandRecord, Subject};
use futures_util::{StreamExt as _, TryStreamExt as _};
use serde_json::Value;

use super::Servers;

/// Runs per page of a list.
const PAGE: usize = 256;

/// Runs of a list that are read concurrently.
const AT_ONCE: usize = 32;

/// The task log over the runs of one engine.
#[derive(Debug, Clone)]
pub(super) struct TasksInLog(pub(super) Runs);

impl TasksInLog {
    /// Reads a run of the principal at the agent, with its record. Returns `None` if it does not exist.
    async fn read_run(&self, owner: &str, agent: &str, run: &RunId) -> Result<Option<LoggedRun>, LogError> {
        let state = match self.0.run_log().state(&RunMeta::key(owner, run)).await {
            Ok(state) => state,
            Err(LogError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        if state.meta.owner != owner || state.meta.agent != agent {
            return Ok(None);
        }
        let record = self.0.record_of(owner, run).await?;
        Ok(Some(LoggedRun { record, ..logged(&state) }))
    }

    /// Reads a listed run with its record and its end. Returns `None` if it has no record, or has expired.
    async fn read_listed(&self, state: RunState) -> Result<Option<LoggedRun>, LogError> {
        let (key, head, is_closed) = (state.meta.run_id.clone(), state.head, state.closed_at.is_some());
        let owner = state.meta.owner.clone();
        let run = logged(&state);
        let Some(record) = self.0.record_of(&owner, &run.id).await? else { return Ok(None) };
        let end = if is_closed {
            match self.0.run_log().read(&key, head.saturating_sub(1), 1).await {
                Ok(page) => page.events.into_iter().next().map(|event| event.event),
                Err(LogError::NotFound(_) | LogError::Gone { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        } else {
            None
        };
        Ok(Some(LoggedRun { record: Some(record), end, ..run }))
    }

    /// Reads the newest runs of the principal at the agent, page by page.
    async fn read_runs(
        &self,
        owner: &str,
        agent: &str,
        context: Option<&str>,
        most: usize,
    ) -> Result<Vec<LoggedRun>, LogError> {
        let mut query = RunQuery {
            thread_id: context.map(ThreadId::from),
            owner: Some(owner.to_owned()),
            newest_first: true,
            ..RunQuery::default()
        };
        let mut found = Vec::new();
        while found.len() < most {
            let page = self.0.run_log().list(query.clone(), PAGE).await?;
            let Some(last) = page.last() else { break };
            query.after = Some(last.place());
            let of_agent = page.into_iter().filter(|state| state.meta.agent == agent);
            let read = of_agent.map(|state| self.read_listed(state));
            let runs: Vec<_> = futures_util::stream::iter(read).buffered(AT_ONCE).try_collect().await?;
            found.extend(runs.into_iter().flatten());
        }
        found.truncate(most);
        Ok(found)
    }
}

impl TaskLog for TasksInLog {
    fn is_shared(&self) -> bool {
        self.0.run_log().scope() == LogScope::Replicas
    }

    fn run<'a>(
        &'a self,
        owner: &'a str,
        agent: &'a str,
        run: &'a RunId,
    ) -> ServiceFuture<'a, Option<LoggedRun>> {
        Box::pin(async move { self.read_run(owner, agent, run).await.map_err(|error| unavailable(&error)) })
    }

    fn runs<'a>(
        &'a self,
        owner: &'a str,
        agent: &'a str,
        context: Option<&'a str>,
        most: usize,
    ) -> ServiceFuture<'a, Vec<LoggedRun>> {
        Box::pin(async move {
            let runs = self.read_runs(owner, agent, context, most).await;
            runs.map_err(|error| unavailable(&error))
        })
    }

    fn dismiss<'a>(
        &'a self,
        caller: &'a Caller,
        agent: &'a str,
        input: RunInput,
    ) -> ServiceFuture<'a, StartedRun> {
        Box::pin(self.0.dismiss(caller, agent, input))
    }

    fn events(&self, owner: &str, run: &RunId, after: u64) -> EventStream {
        let follow = Follow::new(Arc::clone(self.0.run_log()), RunMeta::key(owner, run), after);
        Box::pin(
            follow
                .take_while(|event| std::future::ready(event.is_ok()))
                .filter_map(|event| std::future::ready(event.ok())),
        )
    }

    fn wishes<'a>(
        &'a self,
        owner: &'a str,
        agent: &'a str,
        task: &'a str,
    ) -> ServiceFuture<'a, Vec<LoggedWish>> {
        Box::pin(async move {
            let records = self.0.errands(&subject(owner, agent, task)).await;
            let records = records.map_err(|error| unavailable(&error))?;
            let wish = |record: ErrandRecord| LoggedWish { key: record.key, value: record.value };
            Ok(records.into_iter().map(wish).collect())
        })
    }

    fn add_wish<'a>(
        &'a self,
        owner: &'a str,
        agent: &'a str,
        task: &'a str,
        value: Value,
        works: bool,
    ) -> ServiceFuture<'a, ()> {
        let value = with_agent(value, Some(agent.into()));
        Box::pin(async move {
            let begun = self.0.begin_errand(&subject(owner, agent, task), value, works).await;
            begun.map_err(|error| unavailable(&error))
        })
    }

    fn end_wish<'a>(&'a self, key: &'a RunId) -> ServiceFuture<'a, ()> {
        Box::pin(async move { self.0.cancel_errand(key).await.map_err(|error| unavailable(&error)) })
    }
}

/// The kind of the errands for push configurations.
pub(super) const PUSH: &str = "a2a-push";

/// The member of a record that names the agent.
const AGENT: &str = "agent";

/// Adds the agent to a record: couriers work on it without a call that would name the agent.
fn with_agent(mut value: Value, agent: Option<Value>) -> Value {
    if let (Some(members), Some(agent)) = (value.as_object_mut(), agent) {
        members.insert(AGENT.to_owned(), agent);
    }
    value
}

/// Returns the subject of the push configurations of a task.
fn subject(owner: &str, agent: &str, task: &str) -> Subject {
    Subject { owner: owner.to_owned(), kind: PUSH, name: format!("{agent}/{task}") }
}

/// A push configuration that this replica works on.
struct CarriedWish(Errand);

impl WishRecord for CarriedWish {
    fn owner(&self) -> &str {
        self.0.owner()
    }

    fn value(&self) -> &Value {
        self.0.value()
    }

    fn save(&mut self, value: Value) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let value = with_agent(value, self.0.value().get(AGENT).cloned());
            if let Err(error) = self.0.save(value).await {
                tracing::debug!(%error, "the position of a receiver is not saved: it may be notified again");
            }
        })
    }
}

/// Works on the push configurations of all agents, as long as their servers exist.
pub(super) struct Couriers(pub(super) Weak<Servers>);

impl ErrandHandler for Couriers {
    fn work(&self, errand: Errand) -> BoxFuture<'static, ()> {
        let agent = errand.value().get(AGENT).and_then(Value::as_str).map(str::to_owned);
        match (self.0.upgrade(), agent) {
            (Some(servers), Some(agent)) => servers.server(&agent).carry(Box::new(CarriedWish(errand))),
            // The servers are gone with their process, or about to be: another replica continues.
            _ => Box::pin(std::future::pending()),
        }
    }
}

/// Converts the state of a run.
fn logged(state: &RunState) -> LoggedRun {
    LoggedRun {
        id: state.meta.public_id(),
        context_id: state.meta.thread_id.as_str().to_owned(),
        opened_at: state.meta.opened_at,
        closed_at: state.closed_at,
        head: state.head,
        record: None,
        end: None,
    }
}

/// Converts an error of the log into a refusal.
fn unavailable(error: &LogError) -> ServiceError {
    ServiceError::new(RefusalKind::Unavailable, format!("the run log cannot be read: {error}"))
}
