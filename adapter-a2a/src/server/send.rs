//! Messages to the agent.
//!
//! | message names | effect |
//! |---|---|
//! | nothing | a new task in a new context |
//! | a context | a new task in it |
//! | an interrupted task | the reply to its interrupts: another run of the same task |
//! | a task that has ended, or works and is not interrupted | refused (-32004) |
//! | a task and another context than its own | refused (-32602) |
//!
//! ```text
//! send, send_streaming ─► begin ─┬─► begin_task: new entry in the store ─► service.start ─► recorder of turn 0
//!                                └─► follow_up: claim ─► service.start ─► begin_turn ──────► recorder of turn n
//! ```
//!
//! Invariants: every run that starts has a recorder, so a caller that disconnects stops nothing; at most one
//! message continues an interrupted task at a time ([`Claim`] at this replica, the id of the run among replicas);
//! a message that is refused changes no task.

use std::sync::Arc;
use std::time::Duration;

use aqueduct_core::service::{Caller, RefusalKind, StartedRun};
use aqueduct_core::{
    ContentBlock, Interrupt, InterruptReply, Message as CanonicalMessage, MessageId, Role as CanonicalRole,
    RunId, RunInput, wellknown,
};
use serde_json::{Map, Value, json};

use super::adopt::status;
use super::agent::{AgentServer, has_ended};
use super::check::message_violations;
use super::items::Items;
use super::log::{TaskLog, record, turn_id};
use super::record::{Past, Recorder};
use super::task::TaskEntry;
use super::watch::{Decided, Watcher, decide};
use super::{Answer, CallContext, ServerError};
use crate::call::SendMessage;
use crate::frontend;
use crate::wire::{Content, ErrorKind, Message, Part, Raw, StateClass, Task, TaskState, Text};

/// How often the log is read for a turn that another replica starts, and the pause between: together longer than an
/// append that is retried once.
const TURN_LOOKS: usize = 20;
/// The pause between two readings of the log.
const TURN_PAUSE: Duration = Duration::from_millis(100);

/// A turn that has started. Its recorder runs already.
struct Begun {
    entry: Arc<TaskEntry>,
    /// The index of the turn in the task.
    turn: usize,
    /// The task at that time: the first item of a stream.
    first: Task<'static>,
}

/// The right to start the next turn of an interrupted task, until it is dropped.
///
/// It is held over the call of the service, which can take long; the lock of the task is not. Dropping it, also
/// when the caller disconnects in between, lets another message try.
struct Claim {
    entry: Arc<TaskEntry>,
    /// The interrupts that the message replies to.
    questions: Vec<Interrupt>,
    turn: usize,
    /// The run of the turn.
    run: RunId,
    /// The run whose interrupts are answered: the last turn that has a run.
    parent: Option<RunId>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.entry.lock().is_claimed = false;
        // A cancel waits for it.
        self.entry.changed();
    }
}

impl AgentServer {
    /// Sends a message and returns the complete response: a message, or the task when its turn has ended (spec:
    /// terminal or interrupted), or at once if the client asked for that.
    ///
    /// # Errors
    ///
    /// Returns what [`Self::begin`] refuses, and the error of an agent that declared a message and did not finish
    /// it.
    pub(super) async fn send(
        &self,
        caller: Caller,
        owner: String,
        context: &CallContext,
        send: SendMessage,
    ) -> Result<Answer, ServerError> {
        let (history, at_once) = (send.history_length, send.return_immediately);
        let Begun { entry, turn, .. } = self.begin(&caller, owner, context, send).await?;
        match decide(Arc::clone(&self.shared), Arc::clone(&entry)).await? {
            Decided::Message(message) => Ok(Answer::Message(message)),
            Decided::Task if at_once => Ok(task_answer(&entry, history)),
            Decided::Task => {
                entry.wait(|state| state.is_over(turn).then_some(())).await;
                Ok(task_answer(&entry, history))
            }
        }
    }

    /// Sends a message and returns the stream of the turn. The first item contains as much history as the client
    /// asked for.
    ///
    /// # Errors
    ///
    /// Returns what [`Self::begin`] refuses. Later errors are items of the stream.
    pub(super) async fn send_streaming(
        &self,
        caller: Caller,
        owner: String,
        context: &CallContext,
        send: SendMessage,
    ) -> Result<Answer, ServerError> {
        let history = send.history_length;
        let Begun { entry, turn, mut first } = self.begin(&caller, owner, context, send).await?;
        if let Some(length) = history {
            let surplus = first.history.len().saturating_sub(usize::try_from(length).unwrap_or(usize::MAX));
            first.history.drain(..surplus);
        }
        Ok(Answer::Stream(Watcher::of_turn(&self.shared, &entry, caller, turn, first)))
    }

    /// Validates a message, and starts a task or a turn of one.
    ///
    /// # Errors
    ///
    /// Returns `InvalidParams` for an invalid message or push address, `ContentTypeNotSupported` for media types
    /// that the agent does not have, `TaskNotFound` for a task of another principal, and the refusals of
    /// [`Self::begin_task`] and [`Self::follow_up`].
    async fn begin(
        &self,
        caller: &Caller,
        owner: String,
        context: &CallContext,
        send: SendMessage,
    ) -> Result<Begun, ServerError> {
        let violations = message_violations(&send.message, &self.shared.config.limits);
        if !violations.is_empty() {
            return Err(ServerError::invalid_fields(violations));
        }
        self.check_input_modes(&send.message.parts)?;
        self.check_output_modes(&send.accepted_output_modes)?;
        if let Some(push) = &send.push {
            self.check_push(push).await?;
        }
        if send.message.task_id.is_empty() {
            self.begin_task(caller, owner, context, send).await
        } else {
            let entry = self.find(caller, &owner, &send.message.task_id).await?;
            self.follow_up(caller, entry, context, send).await
        }
    }

    /// Starts a task. The id of its first run is the id of the task.
    ///
    /// # Errors
    ///
    /// Returns `Unavailable` if the store is full of working tasks, and what the service refuses. Nothing stays
    /// behind then but a push configuration in the log, whose courier ends when it finds no run.
    async fn begin_task(
        &self,
        caller: &Caller,
        owner: String,
        context: &CallContext,
        mut send: SendMessage,
    ) -> Result<Begun, ServerError> {
        let shared = &self.shared;
        let id = shared.host.new_id();
        let context_id = send.message.context_id.set().map_or_else(|| shared.host.new_id(), str::to_owned);
        let now = shared.host.now();
        name_task(&mut send.message, &id, &context_id);
        let run_id = RunId::from(id.as_str());
        let mut input = run_input(&send, &context_id, &run_id, context);
        input.record = Some(Arc::new(record(&id, Some(&send.message))));
        let task = Task {
            id: Text::from(id),
            context_id: Text::from(context_id),
            status: status(TaskState::Submitted, now),
            history: vec![send.message],
            ..Task::default()
        };
        let maker = Items::new(&shared.config, &task.id, &task.context_id);
        let entry = Arc::new(TaskEntry::new(owner, task.clone(), run_id, maker, now));
        if let Some(push) = send.push {
            self.add_push(&entry, push, context).await?;
        }
        // The task is stored before its run starts: otherwise a run without a place would have to be cancelled.
        shared.store.insert(&entry)?;
        match shared.service.start(caller, &shared.agent, input).await {
            Ok(started) => {
                self.record(caller, &entry, 0, started);
                Ok(Begun { entry, turn: 0, first: task })
            }
            Err(error) => {
                shared.store.remove(&entry.id);
                Err(not_started(error))
            }
        }
    }

    /// Starts another turn of an interrupted task: a run that resumes the one before with the replies.
    ///
    /// # Errors
    ///
    /// Returns `InvalidParams` for another context, `UnsupportedOperation` if the task is not interrupted, is
    /// being answered, or has had `TaskLimits::turns` messages, and what the service refuses.
    async fn follow_up(
        &self,
        caller: &Caller,
        entry: Arc<TaskEntry>,
        context: &CallContext,
        mut send: SendMessage,
    ) -> Result<Begun, ServerError> {
        let shared = &self.shared;
        if send.message.context_id.set().is_some_and(|context| context != entry.context_id) {
            let words = "is not the context of the task: leave it out, or send the task's own";
            return Err(ServerError::invalid_field("message.contextId", words));
        }
        let claim = claim(&entry)?;
        if entry.lock().turns.len() >= shared.config.limits.turns {
            let words = format!(
                "task {} has had as many messages as a task may have: start another one in the same context",
                entry.id
            );
            return Err(ServerError::new(ErrorKind::UnsupportedOperation, words));
        }
        if let Some(push) = send.push.take() {
            self.add_push(&entry, push, context).await?;
        }
        name_task(&mut send.message, &entry.id, &entry.context_id);
        let mut input = run_input(&send, &entry.context_id, &claim.run, context);
        input.parent_run_id.clone_from(&claim.parent);
        // The record makes the run a turn of the task for every replica that reads the log.
        input.resume = replies(&claim.questions, &send.message.parts);
        input.record = Some(Arc::new(record(&entry.id, Some(&send.message))));
        let started = shared.service.start(caller, &shared.agent, input).await;
        let started = started.map_err(|error| not_continued(&entry, error))?;
        if started.is_repeat
            && let Some(log) = shared.host.task_log()
        {
            // Another replica has accepted the same reply first: the turn is the one in the log.
            let turn = claim.turn;
            drop(claim);
            self.await_turn(&log, caller, &entry, turn).await?;
            entry.wait(|state| state.reading.outcome()).await?;
            let first = entry.lock().folded.snapshot(None, true);
            return Ok(Begun { entry, turn, first });
        }
        let (turn, first) = self.begin_turn(&entry, &started.run_id, Some(send.message), shared.host.now());
        drop(claim);
        self.record(caller, &entry, turn, started);
        Ok(Begun { entry, turn, first })
    }

    /// Continues a turn that another replica starts. Its run is opened before its record is stored, so the log is read
    /// again, [`TURN_LOOKS`] times.
    async fn await_turn(
        &self,
        log: &Arc<dyn TaskLog>,
        caller: &Caller,
        entry: &Arc<TaskEntry>,
        turn: usize,
    ) -> Result<(), ServerError> {
        for _ in 0..TURN_LOOKS {
            self.find_turn(log, caller, entry).await?;
            if entry.lock().turns.len() > turn {
                return Ok(());
            }
            self.shared.host.sleep(TURN_PAUSE).await;
        }
        Err(answered_elsewhere(entry))
    }

    /// Ends an interrupted task, which has no run that could be cancelled. With a log, a run is logged that
    /// declines all interrupts and is cancelled, so that other replicas see the end. Returns the index of the
    /// turn that ends the task.
    ///
    /// # Errors
    ///
    /// Returns `UnsupportedOperation` if the task is not interrupted any more, or if another message was accepted
    /// first.
    pub(super) async fn dismiss(
        &self,
        caller: &Caller,
        entry: &Arc<TaskEntry>,
    ) -> Result<usize, ServerError> {
        let shared = &self.shared;
        let claim = claim(entry)?;
        let Some(log) = shared.host.task_log() else { return Ok(self.stop_waiting(entry)) };
        let mut input = RunInput::prompt(entry.context_id.clone(), claim.run.as_bytes().clone(), "");
        input.messages.clear();
        input.parent_run_id.clone_from(&claim.parent);
        input.resume = claim
            .questions
            .iter()
            .map(|question| InterruptReply { id: question.id.clone(), resolved: false, payload: None })
            .collect();
        input.record = Some(Arc::new(record(&entry.id, None)));
        let started = log.dismiss(caller, &shared.agent, input).await;
        let started = started.map_err(|error| not_continued(entry, error))?;
        let (turn, _) = self.begin_turn(entry, &started.run_id, None, shared.host.now());
        drop(claim);
        self.record(caller, entry, turn, started);
        Ok(turn)
    }

    /// Spawns the recorder of a run that was started here.
    fn record(&self, caller: &Caller, entry: &Arc<TaskEntry>, turn: usize, started: StartedRun) {
        let (server, entry, caller) = (self.clone(), Arc::clone(entry), caller.clone());
        let recorder = Recorder { server, entry, caller, turn, run: started.run_id, past: Past::none() };
        self.shared.host.spawn(Box::pin(recorder.record(started.events)));
    }

    /// Checks the media types of a message (spec 3.1.1). A part without a type may be anything.
    fn check_input_modes(&self, parts: &[Part<'_>]) -> Result<(), ServerError> {
        let read = &self.shared.config.input_modes;
        let is_read = |kind: &str| read.is_empty() || read.iter().any(|mode| media_type_fits(mode, kind));
        let Some(unread) = parts.iter().filter_map(|part| part.media_type.set()).find(|kind| !is_read(kind))
        else {
            return Ok(());
        };
        let shown: String = unread.chars().take(80).collect();
        let words = format!("this agent does not read {shown:?}; it reads {}", read.join(", "));
        Err(ServerError::new(ErrorKind::ContentTypeNotSupported, words))
    }

    /// Checks that the agent can respond in one of the media types that the client accepts. A client that names
    /// none accepts all.
    fn check_output_modes(&self, accepted: &[String]) -> Result<(), ServerError> {
        let offered = &self.shared.config.output_modes;
        let is_served = |mode: &String| offered.iter().any(|offer| media_type_fits(mode, offer));
        if accepted.is_empty() || accepted.iter().any(is_served) {
            return Ok(());
        }
        let words =
            format!("this agent answers in none of the accepted media types; it has {}", offered.join(", "));
        Err(ServerError::new(ErrorKind::ContentTypeNotSupported, words))
    }
}

/// Claims an interrupted task for a message.
///
/// # Errors
///
/// Returns `UnsupportedOperation` if the task has ended, works, or is claimed.
fn claim(entry: &Arc<TaskEntry>) -> Result<Claim, ServerError> {
    let mut state = entry.lock();
    let refuse = |words: &str| {
        let words = format!("task {} {words}", entry.id);
        Err(ServerError::new(ErrorKind::UnsupportedOperation, words))
    };
    match state.class() {
        StateClass::Terminal => Err(has_ended(&state)),
        StateClass::Interrupted if state.next_turn().is_none() => {
            refuse("is being answered by another message")
        }
        StateClass::Interrupted => {
            state.is_claimed = true;
            Ok(Claim {
                entry: Arc::clone(entry),
                questions: state.questions.clone(),
                turn: state.turns.len(),
                run: turn_id(&entry.id, state.turns.len()),
                parent: state.turns.iter().rev().find_map(|turn| turn.run.clone()),
            })
        }
        StateClass::Active => refuse(
            "is at work and asked nothing: wait until it asks or ends, or start another task in the same context",
        ),
    }
}

/// Returns the task as it is now, with that much history.
fn task_answer(entry: &TaskEntry, history: Option<u32>) -> Answer {
    Answer::Task(Box::new(entry.lock().folded.snapshot(history, true)))
}

/// Converts the refusal of a new run. It is not a task, so "not found" would mislead.
fn not_started(error: aqueduct_core::service::ServiceError) -> ServerError {
    let mut error = ServerError::from(error);
    if error.kind == ErrorKind::TaskNotFound {
        error.kind = ErrorKind::Internal;
    }
    error
}

/// Converts the refusal of a run for an existing task. Another replica may have been faster.
fn not_continued(entry: &TaskEntry, error: aqueduct_core::service::ServiceError) -> ServerError {
    if error.kind == RefusalKind::Conflict { answered_elsewhere(entry) } else { not_started(error) }
}

/// Returns the refusal of a message that lost against another one, at this replica or at another.
fn answered_elsewhere(entry: &TaskEntry) -> ServerError {
    let words = format!("task {} is being answered by another message: ask for it with GetTask", entry.id);
    ServerError::new(ErrorKind::UnsupportedOperation, words)
}

/// Adds the ids of task and context to a message for the history: a client that starts a task does not know them.
fn name_task(message: &mut Message<'static>, task_id: &str, context_id: &str) {
    message.task_id = Text::from(task_id.to_owned());
    message.context_id = Text::from(context_id.to_owned());
    message.parts_as_content = false;
}

/// Returns `true` if a media type matches; `text/*` and `*/*` are wildcards, parameters are ignored.
fn media_type_fits(accepted: &str, offered: &str) -> bool {
    let essence = |text: &str| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let (accepted, offered) = (essence(accepted), essence(offered));
    let group = |text: &str| text.split('/').next().unwrap_or_default().to_owned();
    accepted == offered
        || ["*", "*/*"].contains(&accepted.as_str())
        || offered == "*/*"
        || (accepted.ends_with("/*") && group(&accepted) == group(&offered))
}

/// Returns the input of a run: one user message, the request's other members under `forwarded.a2a`, and the data
/// of a frontend in the message's metadata ([`frontend::take_given`]).
fn run_input(send: &SendMessage, context_id: &str, run_id: &RunId, context: &CallContext) -> RunInput {
    let message = &send.message;
    let mut said = CanonicalMessage::new(CanonicalRole::User);
    said.id = Some(MessageId::from(message.message_id.as_str()));
    said.contents = message.parts.iter().filter_map(content).collect();
    said.metadata = message.metadata.as_ref().and_then(Raw::to_object).map(Arc::new);
    let mut input = RunInput::prompt(context_id.to_owned(), run_id.as_bytes().clone(), "");
    input.messages = vec![said];
    input.forwarded = forwarded(send, context);
    if let Some(metadata) = input.messages.first().and_then(|said| said.metadata.clone()) {
        frontend::take_given(&mut input, &metadata);
    }
    input
}

/// Returns the members of the request beside the message, as `{"a2a": {…}}`, or `null` if there are none.
fn forwarded(send: &SendMessage, context: &CallContext) -> Value {
    let mut beside = Map::new();
    if let Some(metadata) = &send.metadata {
        beside.insert("metadata".to_owned(), Value::Object(metadata.clone()));
    }
    let lists = [
        ("acceptedOutputModes", send.accepted_output_modes.clone()),
        ("extensions", context.extensions.clone()),
        (
            "referenceTaskIds",
            send.message.reference_task_ids.iter().map(|id| id.as_str().to_owned()).collect(),
        ),
    ];
    for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        beside.insert(key.to_owned(), json!(list));
    }
    if !context.tenant.is_empty() {
        beside.insert("tenant".to_owned(), context.tenant.as_str().into());
    }
    if beside.is_empty() { Value::Null } else { json!({ "a2a": beside }) }
}

/// Converts a part into content: the inverse of [`crate::input::parts`].
fn content(part: &Part<'_>) -> Option<ContentBlock> {
    let mut file = Map::new();
    match &part.content {
        Content::Text(text) => return Some(ContentBlock::text(text.to_string())),
        Content::Data(raw) => return Some(ContentBlock::custom(wellknown::DATA, raw.to_value())),
        Content::Bytes(bytes) => file.insert("data".to_owned(), bytes.as_str().into()),
        Content::Url(url) => file.insert("url".to_owned(), url.as_str().into()),
        Content::Unknown(_) => return None,
    };
    for (key, text) in [("mediaType", &part.media_type), ("name", &part.filename)] {
        if let Some(text) = text.set() {
            file.insert(key.to_owned(), text.into());
        }
    }
    Some(ContentBlock::custom(wellknown::FILE, Value::Object(file)))
}

/// Returns the replies to all interrupts: part by part if there are as many, else the complete message for each.
fn replies(questions: &[Interrupt], parts: &[Part<'static>]) -> Vec<InterruptReply> {
    let whole = || match parts {
        [part] => payload(part),
        parts if parts.iter().all(|part| part.as_text().is_some()) => {
            Value::from(parts.iter().filter_map(Part::as_text).map(Text::as_str).collect::<String>())
        }
        parts => Value::Array(parts.iter().map(payload).collect()),
    };
    let one_each = questions.len() == parts.len();
    let reply = |(index, question): (usize, &Interrupt)| {
        let part = parts.get(index).filter(|_| one_each);
        InterruptReply {
            id: question.id.clone(),
            resolved: !part.is_some_and(is_declined),
            payload: Some(part.map_or_else(&whole, payload)),
        }
    };
    questions.iter().enumerate().map(reply).collect()
}

/// Returns a part as the payload of a reply: text as a string, data as it is, a file as JSON of 1.0.
fn payload(part: &Part<'static>) -> Value {
    match &part.content {
        Content::Text(text) => text.as_str().into(),
        Content::Data(raw) => raw.to_value(),
        _ => part.to_json(crate::wire::Dialect::V1),
    }
}

/// Returns `true` if Aqueduct's own client reports that the user declined to answer.
fn is_declined(part: &Part<'static>) -> bool {
    let metadata = part.metadata.as_ref().and_then(Raw::to_object);
    metadata.and_then(|metadata| metadata.get("declined").and_then(Value::as_bool)).unwrap_or(false)
}
