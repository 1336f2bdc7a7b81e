//! `SendMessage` and `SendStreamingMessage`: a message starts a task, or continues an interrupted one.
//!
//! | message names | effect |
//! |---|---|
//! | neither task nor context | a new task in a new context |
//! | a context | a new task in that context |
//! | an interrupted task | the reply to its interrupts: another run of the same task |
//! | a task that has ended, or works and is not interrupted | refused (-32004) |
//! | a task and another context than its own | refused (-32602) |
//!
//! ```text
//! send, send_streaming ─► begin ─┬─► begin_task: new entry in the store ─► service.start ─► recorder of turn 0
//!                                └─► follow_up: claim ─► service.start ─► begin_turn ──────► recorder of turn n
//! ```
//!
//! Invariants: every run that starts has a recorder, so a run continues after its caller disconnects; at most one
//! message continues an interrupted task at a time ([`Claim`] at this replica, the id of the run among replicas);
//! a message that is refused starts no turn.

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

/// How often the log is read for a turn that another replica starts. With the pauses this takes longer than an append
/// that is retried once.
const TURN_READS: usize = 20;
/// The pause between two reads of the log.
const TURN_PAUSE: Duration = Duration::from_millis(100);

/// A turn that has started. Its recorder runs already.
struct Begun {
    entry: Arc<TaskEntry>,
    /// The index of the turn in the task.
    turn: usize,
    /// The task when the turn started: the first item of a stream.
    first: Task<'static>,
}

/// The exclusive right to start the next turn of an interrupted task.
///
/// The claim is held while the service starts the run, which can take long; the lock of the task is not. Dropping the
/// claim, also because the caller disconnects meanwhile, releases it for another message.
struct Claim {
    entry: Arc<TaskEntry>,
    /// The interrupts that the message replies to.
    interrupts: Vec<Interrupt>,
    /// The index of the next turn in the task.
    turn: usize,
    /// The run of the turn.
    run: RunId,
    /// The run whose interrupts are answered: the last turn that has a run.
    parent: Option<RunId>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.entry.lock().is_claimed = false;
        // Wakes a cancel that waits for the release.
        self.entry.changed();
    }
}

impl AgentServer {
    /// Sends a message and returns the complete response: a message, or the task once its turn has ended (spec:
    /// terminal or interrupted). If the client requested an immediate return, the task is returned at once.
    ///
    /// # Errors
    ///
    /// Returns the refusals of [`Self::begin`], and the error of an agent that started a message and did not complete
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
    /// requested.
    ///
    /// # Errors
    ///
    /// Returns the refusals of [`Self::begin`]. Later errors are items of the stream.
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

    /// Validates a message, and starts a task, or the next turn of the task that the message names.
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
    /// Returns `Unavailable` if the store is full of working tasks, and the refusals of the service. The task is then
    /// not stored; only its push configuration stays in the log, and the courier ends when it finds no run.
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
        let converter = Items::new(&shared.config, &task.id, &task.context_id);
        let entry = Arc::new(TaskEntry::new(owner, task.clone(), run_id, converter, now));
        if let Some(push) = send.push {
            self.add_push(&entry, push, context).await?;
        }
        // The task is stored before its run starts: if the store were full afterwards, the run would have to be cancelled.
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

    /// Starts the next turn of an interrupted task: a run that delivers the replies and continues the previous run.
    ///
    /// # Errors
    ///
    /// Returns `InvalidParams` for another context, `UnsupportedOperation` if the task is not interrupted, is
    /// being answered, or has had `TaskLimits::turns` messages, and the refusals of the service.
    async fn follow_up(
        &self,
        caller: &Caller,
        entry: Arc<TaskEntry>,
        context: &CallContext,
        mut send: SendMessage,
    ) -> Result<Begun, ServerError> {
        let shared = &self.shared;
        if send.message.context_id.set().is_some_and(|context| context != entry.context_id) {
            let message = "is not the context of the task: leave it out, or send the task's own";
            return Err(ServerError::invalid_field("message.contextId", message));
        }
        let claim = claim(&entry)?;
        if entry.lock().turns.len() >= shared.config.limits.turns {
            let message = format!(
                "task {} has had {} messages, the most that a task may have: start another task in the same context",
                entry.id, shared.config.limits.turns
            );
            return Err(ServerError::new(ErrorKind::UnsupportedOperation, message));
        }
        let push = match send.push.take() {
            Some(push) => Some(self.replace_push(&entry, push, context).await?),
            None => None,
        };
        name_task(&mut send.message, &entry.id, &entry.context_id);
        let mut input = run_input(&send, &entry.context_id, &claim.run, context);
        input.parent_run_id.clone_from(&claim.parent);
        // The record makes the run a turn of the task for every replica that reads the log.
        input.resume = replies(&claim.interrupts, &send.message.parts);
        input.record = Some(Arc::new(record(&entry.id, Some(&send.message))));
        let started = shared.service.start(caller, &shared.agent, input).await;
        let started = match started {
            Ok(started) => started,
            Err(error) => {
                if let Some(push) = push {
                    self.restore_push(&entry, push, context).await;
                }
                return Err(not_continued(&entry, error));
            }
        };
        if started.is_repeat
            && let Some(log) = shared.host.task_log()
        {
            // Another replica has accepted the same reply first, so the turn is read from the log.
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

    /// Waits until the log holds a turn that another replica starts. The run of the turn is opened before its record is
    /// stored, so the log is read up to [`TURN_READS`] times.
    async fn await_turn(
        &self,
        log: &Arc<dyn TaskLog>,
        caller: &Caller,
        entry: &Arc<TaskEntry>,
        turn: usize,
    ) -> Result<(), ServerError> {
        for _ in 0..TURN_READS {
            self.find_turn(log, caller, entry).await?;
            if entry.lock().turns.len() > turn {
                return Ok(());
            }
            self.shared.host.sleep(TURN_PAUSE).await;
        }
        Err(answered_elsewhere(entry))
    }

    /// Ends an interrupted task as cancelled. No run of the task is active that could be cancelled; if the host has a
    /// log, a run that declines all interrupts is logged as cancelled, so that other replicas see the end. Returns the
    /// index of the turn that ends the task.
    ///
    /// # Errors
    ///
    /// Returns `UnsupportedOperation` if the task is no longer interrupted, or if another message was accepted first.
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
            .interrupts
            .iter()
            .map(|interrupt| InterruptReply { id: interrupt.id.clone(), resolved: false, payload: None })
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

    /// Checks that the agent accepts the media types of a message (spec 3.1.1). A part without a type is accepted.
    fn check_input_modes(&self, parts: &[Part<'_>]) -> Result<(), ServerError> {
        let read = &self.shared.config.input_modes;
        let is_read = |kind: &str| read.is_empty() || read.iter().any(|mode| media_type_fits(mode, kind));
        let Some(unread) = parts.iter().filter_map(|part| part.media_type.set()).find(|kind| !is_read(kind))
        else {
            return Ok(());
        };
        let shown: String = unread.chars().take(80).collect();
        let message =
            format!("this agent does not accept the media type {shown:?}: send one of {}", read.join(", "));
        Err(ServerError::new(ErrorKind::ContentTypeNotSupported, message))
    }

    /// Checks that the agent can respond in one of the media types that the client accepts. A client that names
    /// none accepts all.
    fn check_output_modes(&self, accepted: &[String]) -> Result<(), ServerError> {
        let offered = &self.shared.config.output_modes;
        let is_served = |mode: &String| offered.iter().any(|offer| media_type_fits(mode, offer));
        if accepted.is_empty() || accepted.iter().any(is_served) {
            return Ok(());
        }
        let message = format!(
            "this agent offers none of the accepted media types: accept one of {}",
            offered.join(", ")
        );
        Err(ServerError::new(ErrorKind::ContentTypeNotSupported, message))
    }
}

/// Claims the next turn of an interrupted task for a message.
///
/// # Errors
///
/// Returns `UnsupportedOperation` if the task has ended, works, or is claimed.
fn claim(entry: &Arc<TaskEntry>) -> Result<Claim, ServerError> {
    let mut state = entry.lock();
    let refuse = |reason: &str| {
        let message = format!("task {} {reason}", entry.id);
        Err(ServerError::new(ErrorKind::UnsupportedOperation, message))
    };
    match state.class() {
        StateClass::Terminal => Err(has_ended(&state)),
        StateClass::Interrupted if state.next_turn().is_none() => {
            refuse("is being answered by another message: read it with GetTask")
        }
        StateClass::Interrupted => {
            state.is_claimed = true;
            Ok(Claim {
                entry: Arc::clone(entry),
                interrupts: state.interrupts.clone(),
                turn: state.turns.len(),
                run: turn_id(&entry.id, state.turns.len()),
                parent: state.turns.iter().rev().find_map(|turn| turn.run.clone()),
            })
        }
        StateClass::Active => refuse(
            "is working and not interrupted: wait until it is interrupted or has ended, or start another task in the same context",
        ),
    }
}

/// Returns the current task, with at most `history` messages of its history.
fn task_answer(entry: &TaskEntry, history: Option<u32>) -> Answer {
    Answer::Task(Box::new(entry.lock().folded.snapshot(history, true)))
}

/// Converts the refusal of a new run. "Not found" becomes an internal error, because the client named no task that could
/// be missing.
fn not_started(error: aqueduct_core::service::ServiceError) -> ServerError {
    let mut error = ServerError::from(error);
    if error.kind == ErrorKind::TaskNotFound {
        error.kind = ErrorKind::Internal;
    }
    error
}

/// Converts the refusal of a run for an existing task. A conflict means that another replica accepted a message first.
fn not_continued(entry: &TaskEntry, error: aqueduct_core::service::ServiceError) -> ServerError {
    if error.kind == RefusalKind::Conflict { answered_elsewhere(entry) } else { not_started(error) }
}

/// Returns the refusal of a message after another message was accepted, at this replica or at another.
fn answered_elsewhere(entry: &TaskEntry) -> ServerError {
    let message = format!("task {} is being answered by another message: read it with GetTask", entry.id);
    ServerError::new(ErrorKind::UnsupportedOperation, message)
}

/// Sets the ids of task and context in a message for the history: a client that starts a task does not know them.
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
    let mut user_message = CanonicalMessage::new(CanonicalRole::User);
    user_message.id = Some(MessageId::from(message.message_id.as_str()));
    user_message.contents = message.parts.iter().filter_map(content).collect();
    user_message.metadata = message.metadata.as_ref().and_then(Raw::to_object).map(Arc::new);
    let mut input = RunInput::prompt(context_id.to_owned(), run_id.as_bytes().clone(), "");
    input.messages = vec![user_message];
    input.forwarded = forwarded(send, context);
    if let Some(metadata) = input.messages.first().and_then(|message| message.metadata.clone()) {
        frontend::take_given(&mut input, &metadata);
    }
    input
}

/// Returns the members of the request other than the message, as `{"a2a": {…}}`. Returns `null` if there are none.
fn forwarded(send: &SendMessage, context: &CallContext) -> Value {
    let mut members = Map::new();
    if let Some(metadata) = &send.metadata {
        members.insert("metadata".to_owned(), Value::Object(metadata.clone()));
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
        members.insert(key.to_owned(), json!(list));
    }
    if !context.tenant.is_empty() {
        members.insert("tenant".to_owned(), context.tenant.as_str().into());
    }
    if members.is_empty() { Value::Null } else { json!({ "a2a": members }) }
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

/// Returns the replies to all interrupts. If there are as many parts as interrupts, each part is the reply to one
/// interrupt; otherwise the complete message is the reply to each.
fn replies(interrupts: &[Interrupt], parts: &[Part<'static>]) -> Vec<InterruptReply> {
    let whole = || match parts {
        [part] => payload(part),
        parts if parts.iter().all(|part| part.as_text().is_some()) => {
            Value::from(parts.iter().filter_map(Part::as_text).map(Text::as_str).collect::<String>())
        }
        parts => Value::Array(parts.iter().map(payload).collect()),
    };
    let one_each = interrupts.len() == parts.len();
    let reply = |(index, interrupt): (usize, &Interrupt)| {
        let part = parts.get(index).filter(|_| one_each);
        InterruptReply {
            id: interrupt.id.clone(),
            resolved: !part.is_some_and(is_declined),
            payload: Some(part.map_or_else(&whole, payload)),
        }
    };
    interrupts.iter().enumerate().map(reply).collect()
}

/// Returns a part as the payload of a reply: text as a string, data unchanged, a file in the JSON form of A2A 1.0.
fn payload(part: &Part<'static>) -> Value {
    match &part.content {
        Content::Text(text) => text.as_str().into(),
        Content::Data(raw) => raw.to_value(),
        _ => part.to_json(crate::wire::Dialect::V1),
    }
}

/// Returns `true` if the part reports that the user declined to reply. Aqueduct's own A2A client sets this metadata.
fn is_declined(part: &Part<'static>) -> bool {
    let metadata = part.metadata.as_ref().and_then(Raw::to_object);
    metadata.and_then(|metadata| metadata.get("declined").and_then(Value::as_bool)).unwrap_or(false)
}
