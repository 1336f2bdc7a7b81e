//! [`TaskLog`]: reads tasks from the run log.
//!
//! ```text
//! task T:  run T ──► interrupted ──► run T.1 ──► interrupted ──► run T.2 …      each with a record: the task and the client's message
//! ```
//!
//! A task consists of its runs. Their ids are derived from the id of the task, so that any replica finds the turns of a
//! task by reading the next one, and a turn is started by opening its run, which succeeds once. The message that a run
//! answers is its record ([`RunInput::record`]).

use std::sync::Arc;

use aqueduct_core::service::{BoxFuture, Caller, EventStream, ServiceFuture, StartedRun};
use aqueduct_core::{BlockEvent, RunId, RunInput, Timestamp};
use serde_json::{Map, Value};

use crate::wire::{Dialect, Message};

/// Reads runs from their log. Runs of other owners do not exist for it.
pub trait TaskLog: Send + Sync + 'static {
    /// Returns `true` if other processes write the log at the same time.
    fn is_shared(&self) -> bool;

    /// Returns a run of `owner` at `agent`, or `None` if there is none.
    fn run<'a>(
        &'a self,
        owner: &'a str,
        agent: &'a str,
        run: &'a RunId,
    ) -> ServiceFuture<'a, Option<LoggedRun>>;

    /// Returns the newest runs of `owner` at `agent` that have a record, at most `most`, each with its last event
    /// if it has ended.
    fn runs<'a>(
        &'a self,
        owner: &'a str,
        agent: &'a str,
        context: Option<&'a str>,
        most: usize,
    ) -> ServiceFuture<'a, Vec<LoggedRun>>;

    /// Ends the interrupts of a task: logs a run that is cancelled before its agent is called. Only one reply or end is
    /// accepted.
    fn dismiss<'a>(
        &'a self,
        caller: &'a Caller,
        agent: &'a str,
        input: RunInput,
    ) -> ServiceFuture<'a, StartedRun>;

    /// Returns the events of a run of `owner` after a number. They end without a terminal event if the log cannot be
    /// read.
    fn events(&self, owner: &str, run: &RunId, after: u64) -> EventStream;

    /// Returns the records about push configurations of a task, in the order they were added.
    fn wishes<'a>(
        &'a self,
        owner: &'a str,
        agent: &'a str,
        task: &'a str,
    ) -> ServiceFuture<'a, Vec<LoggedWish>>;

    /// Adds a record about push configurations of a task. If `works` is set,
    /// [`AgentServer::carry`](super::AgentServer::carry) is called with it at one replica at a time, until its future
    /// completes or the record is ended.
    fn add_wish<'a>(
        &'a self,
        owner: &'a str,
        agent: &'a str,
        task: &'a str,
        value: Value,
        works: bool,
    ) -> ServiceFuture<'a, ()>;

    /// Ends the work on a record, at whatever replica. The record stays.
    fn end_wish<'a>(&'a self, key: &'a RunId) -> ServiceFuture<'a, ()>;
}

/// A record about a push configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedWish {
    /// The key in the log.
    pub key: RunId,
    /// The value that was saved last.
    pub value: Arc<Value>,
}

/// A record about a push configuration that this replica works on.
pub trait WishRecord: Send + Sync + 'static {
    /// Returns the owner of the task.
    fn owner(&self) -> &str;

    /// Returns the value that was saved last.
    fn value(&self) -> &Value;

    /// Saves the progress, if the log accepts it.
    fn save(&mut self, value: Value) -> BoxFuture<'_, ()>;
}

/// A run in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedRun {
    /// The id by which the owner addresses the run.
    pub id: RunId,
    /// The context of the run.
    pub context_id: String,
    /// The time of its opening.
    pub opened_at: Timestamp,
    /// The time of its end, if it has ended.
    pub closed_at: Option<Timestamp>,
    /// The number of its last event.
    pub head: u64,
    /// The record of the run.
    pub record: Option<Value>,
    /// The last event, in lists of runs that have ended.
    pub end: Option<BlockEvent>,
}

/// The member of a record that names the task.
const TASK: &str = "a2aTask";
/// The member of a record that contains the message.
const MESSAGE: &str = "message";

/// Returns the record of a run: its task, and the message that the run answers.
pub(super) fn record(task: &str, message: Option<&Message<'static>>) -> Value {
    let mut members = Map::new();
    members.insert(TASK.to_owned(), task.into());
    members.extend(message.map(|message| (MESSAGE.to_owned(), message.to_json(Dialect::V1))));
    Value::Object(members)
}

impl LoggedRun {
    /// Returns the id of the task that the run is a turn of.
    pub(super) fn task(&self) -> Option<&str> {
        self.record.as_ref()?.get(TASK)?.as_str()
    }

    /// Returns the message that the run answers.
    pub(super) fn message(&self) -> Option<Message<'static>> {
        let text = self.record.as_ref()?.get(MESSAGE).filter(|message| message.is_object())?.to_string();
        Some(serde_json::from_str::<Message<'_>>(&text).ok()?.into_owned())
    }
}

/// Returns the id of the run of a turn; the first has the id of the task.
pub(super) fn turn_id(task: &str, turn: usize) -> RunId {
    if turn == 0 { RunId::from(task) } else { RunId::from(format!("{task}.{turn}")) }
}

/// Returns which turn of the task a run is: the first has the id of the task, `T`, the n-th follow-up `T.n`.
/// Returns `None` for any other run.
pub fn turn_of(task: &str, run: &RunId) -> Option<usize> {
    let rest = run.as_str().strip_prefix(task)?;
    if rest.is_empty() { Some(0) } else { rest.strip_prefix('.')?.parse().ok().filter(|turn| *turn > 0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Part, Role, Text};

    #[test]
    fn the_turns_of_a_task_are_told_from_other_runs() {
        for turn in [0, 1, 2, 17] {
            assert_eq!(turn_of("t", &turn_id("t", turn)), Some(turn));
        }
        for other in ["", "x", "tt", "t.", "t.0", "t.x", "t.1.1", "x.1"] {
            assert_eq!(turn_of("t", &other.into()), None, "{other}");
        }
    }

    #[test]
    fn a_record_gives_the_message_back() {
        let mut message =
            Message { message_id: Text::from("m".to_owned()), role: Role::User, ..Message::default() };
        message.task_id = Text::from("t".to_owned());
        message.parts = vec![Part::text("hi".to_owned()), Part::data(&serde_json::json!({"a": [1, 2]}))];
        let kept = |record| LoggedRun {
            id: "t".into(),
            context_id: "c".to_owned(),
            opened_at: Timestamp(0),
            closed_at: None,
            head: 0,
            record,
            end: None,
        };
        let run = kept(Some(record("t", Some(&message))));
        assert_eq!(run.task(), Some("t"));
        let shown = |message: Option<Message<'_>>| message.map(|message| message.to_json(Dialect::V1));
        assert_eq!(shown(run.message()), shown(Some(message)));
        let foreign = kept(Some(serde_json::json!({"a2aTask": 1, "message": "x"})));
        assert_eq!((foreign.task(), foreign.message()), (None, None));
        assert_eq!(kept(None).task(), None);
    }
}
