//! [`TaskLog`]: the run log as the server reads its tasks from it.
//!
//! ```text
//! task T:  run T ──► waits ──► run T.1 ──► waits ──► run T.2 …      each with a record: the task, and the client's message
//! ```
//!
//! A task is its runs. Their ids follow from the id of the task, so that any replica finds the turns of a task by asking for
//! the next one, and a turn is begun by opening its run, which succeeds once. What a run does not say of itself, the message
//! that it answers, is its record ([`RunInput::record`]).

use std::sync::Arc;

use aqueduct_core::service::{BoxFuture, Caller, EventStream, ServiceError, StartedRun};
use aqueduct_core::{BlockEvent, RunId, RunInput, Timestamp};
use serde_json::{Map, Value};

use crate::wire::{Dialect, Message};

/// Reads runs from the log that holds them. Runs of other owners do not exist.
pub trait TaskLog: Send + Sync + 'static {
    /// Returns `true` if other processes write the log at the same time.
    fn is_shared(&self) -> bool;

    /// Returns a run of `owner` at `agent`; `None` if there is none.
    fn run<'a>(
        &'a self,
        owner: &'a str,
        agent: &'a str,
        run: &'a RunId,
    ) -> BoxFuture<'a, Result<Option<LoggedRun>, ServiceError>>;

    /// Returns the newest runs of `owner` at `agent` that have a record, at most `most`, each with its last event if it has
    /// ended.
    fn runs<'a>(
        &'a self,
        owner: &'a str,
        agent: &'a str,
        context: Option<&'a str>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<LoggedRun>, ServiceError>>;

    /// Ends what a task waits for: logs a run that is cancelled before its agent is asked. One reply or end is taken.
    fn dismiss<'a>(
        &'a self,
        caller: &'a Caller,
        agent: &'a str,
        input: RunInput,
    ) -> BoxFuture<'a, Result<StartedRun, ServiceError>>;

    /// Returns the events of a run of `owner` after a number. They end without the end of the run if the log cannot be read.
    fn events(&self, owner: &str, run: &RunId, after: u64) -> EventStream;

    /// Returns what was added about push configurations of a task, in that order.
    fn wishes<'a>(
        &'a self,
        owner: &'a str,
        agent: &'a str,
        task: &'a str,
    ) -> BoxFuture<'a, Result<Vec<LoggedWish>, ServiceError>>;

    /// Adds a record about push configurations of a task. Where it `works`, [`AgentServer::carry`](super::AgentServer::carry)
    /// is called with it at one replica after another, until its future ends once or the record is ended.
    fn add_wish<'a>(
        &'a self,
        owner: &'a str,
        agent: &'a str,
        task: &'a str,
        value: Value,
        works: bool,
    ) -> BoxFuture<'a, Result<(), ServiceError>>;

    /// Ends the work on a record, at whichever replica it is done. The record stays.
    fn end_wish<'a>(&'a self, key: &'a RunId) -> BoxFuture<'a, Result<(), ServiceError>>;
}

/// A record about a push configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedWish {
    /// Its name in the log.
    pub key: RunId,
    /// What was saved last.
    pub value: Arc<Value>,
}

/// A record about a push configuration that is worked on here.
pub trait WishRecord: Send + Sync + 'static {
    /// Returns the owner of the task.
    fn owner(&self) -> &str;

    /// Returns what was saved last.
    fn value(&self) -> &Value;

    /// Saves how far the work came, if the log takes it.
    fn save(&mut self, value: Value) -> BoxFuture<'_, ()>;
}

/// A run, as the log holds it.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedRun {
    /// The id by which its owner knows it.
    pub id: RunId,
    /// Its conversation.
    pub context_id: String,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When it ended, if it has.
    pub closed_at: Option<Timestamp>,
    /// The number of its last event.
    pub head: u64,
    /// Its record.
    pub record: Option<Value>,
    /// Its last event, in lists of runs that have ended.
    pub end: Option<BlockEvent>,
}

/// The member of a record that names the task.
const TASK: &str = "a2aTask";
/// The member of a record that is the message.
const MESSAGE: &str = "message";

/// What is kept with a run of a task: which task it is, and the message that the run answers.
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

/// Returns the id of the run that is this turn of a task; the first has the id of the task.
pub(super) fn turn_id(task: &str, turn: usize) -> RunId {
    if turn == 0 { RunId::from(task) } else { RunId::from(format!("{task}.{turn}")) }
}

/// Returns which turn of the task a run is: the first has the id of the task, `T`, the n-th follow-up `T.n`. Returns `None` for any
/// other run.
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
