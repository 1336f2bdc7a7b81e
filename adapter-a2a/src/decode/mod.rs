//! [`Decoder`]: decodes the stream of an A2A agent into canonical [`SourceEvent`]s.
//!
//! ```text
//!                 status, artifact, task (active)
//!                    ┌──────┐
//!                    ▼      │
//!   (nothing) ──► open ─────┘ ── completed, failed, rejected, canceled ──► settled: the run (or lane) has ended
//!      │             │ ──────── input-required, auth-required ──────────► settled: interrupted
//!      │             │ ──────── error (JSON-RPC, REST, `event: error`) ─► settled: failed
//!      │             └───────── end of the stream ──────────────────────► settled: failed, unless an answer or interrupt came
//!      └── a message without a task ────────────────────────────────────► settled: the message was the answer
//! ```
//!
//! Once settled, the decoder emits nothing more; further items are counted. The decoder does not reconnect
//! ([`TaskClient`](crate::client::TaskClient) does) and does not open or close blocks (`StreamContext` does). The
//! mapping is in `docs/a2a.md`.

mod artifact;
mod chunk;
mod ending;
mod known;
mod marked;
mod marks;
mod matching;
mod memory;
pub mod metadata;
mod parts;
mod question;
mod sink;
mod snapshot;
mod speech;
mod status;
mod tools;

use std::collections::VecDeque;
use std::sync::Arc;

use aqueduct_core::recent::RecentMap;
use aqueduct_core::{
    ByteString, Channel, ContentBlock, Interrupt, Metadata, ResponseId, Source, SourceEvent, Update,
    wellknown,
};
use serde_json::json;

pub(crate) use ending::failure_of;
pub use memory::TaskMemory;

use crate::call::TaskRef;
use crate::config::DecodeConfig;
use crate::wire::shape::Shapes;
use crate::wire::{Dialect, Frame, FrameContent, Part, Raw, StreamItem, WireError};
use known::Templates;
use sink::Sink;
use speech::Speech;
use tools::Calls;

/// How a task's turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// The task is completed.
    Completed,
    /// The task failed or was rejected, or its stream failed.
    Failed,
    /// The task was cancelled.
    Cancelled,
    /// The task waits for the user.
    Interrupted,
    /// The task waits for the results of tools that the frontend offered.
    CalledFrontend,
}

/// The meaning of an end of the stream, after the items so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AtEnd {
    /// The stream was cut: the task is unfinished.
    Cut,
    /// The task waits for a reply: an interrupt was requested, and the stream stayed open.
    Waits,
    /// The task waits for a reply again: the interrupt that this turn replies to was repeated.
    AsksAgain,
    /// The task is answered: a message arrived on its stream.
    Answered,
}

/// Counters of input that was not emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Frames that could not be decoded.
    pub unreadable: u64,
    /// Texts that repeated earlier texts.
    pub repeated: u64,
    /// Items after the turn was settled.
    pub late: u64,
    /// Items that belong to another task.
    pub foreign: u64,
}

/// Decodes the events of one turn of a task. Holds no socket and no clock: the caller passes frames in and takes
/// events out.
///
/// # Examples
///
/// ```
/// use aqueduct_adapter_a2a::wire::Frame;
/// use aqueduct_adapter_a2a::{DecodeConfig, Decoder, Settled};
/// use aqueduct_core::ByteString;
///
/// let mut decoder = Decoder::new(DecodeConfig::root());
/// let mut events = Vec::new();
/// for frame in [
///     r#"{"artifactUpdate":{"taskId":"t","artifact":{"artifactId":"a","parts":[{"text":"Hi"}]}}}"#,
///     r#"{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_COMPLETED"}}}"#,
/// ] {
///     decoder.handle_frame(Frame::data(&ByteString::from(frame)), &mut events);
/// }
/// assert_eq!(decoder.settled(), Some(Settled::Completed));
/// assert_eq!(events.len(), 2); // the text, and the end of the run
/// ```
#[derive(Debug, Clone)]
pub struct Decoder {
    config: DecodeConfig,
    /// The agent, with its task's ids once they are known.
    source: Source,
    memory: TaskMemory,
    calls: Calls,
    /// Artifacts whose text is open, the most recently used one at the back.
    open: VecDeque<(ByteString, Channel, Source)>,
    shapes: Shapes,
    /// The templates of the latest status texts and messages, by which frames of the same shape are decoded without
    /// parsing.
    known: Templates,
    dialect: Dialect,
    settled: Option<Settled>,
    at_end: AtEnd,
    /// The interrupts that this turn replies to and that the agent repeated, until other input follows or the stream ends.
    held: Vec<Interrupt>,
    /// Set until the first item was handled.
    is_first: bool,
    /// Set once content of the answer was emitted: at the end of the task no status text becomes the answer.
    answer_shown: bool,
    /// The last status text that was emitted as a notice. It may become the answer at the end of the task.
    last_status: Option<ByteString>,
    /// The hash of the last `a2a.status` block, so that the snapshots of the task do not repeat it.
    shown_status: Option<u64>,
    speech: Speech,
    /// An error that the agent reported as content, although its task will be `completed`.
    failure: Option<String>,
    /// An error that the agent's server reported before the stream was cut.
    reported: Option<String>,
    /// The form of the next interrupt, which an artifact or part announced.
    form: Option<serde_json::Value>,
    /// The last frame that could not be decoded, until the stream continues or is cut.
    unread: Option<ByteString>,
    counts: Counts,
}

impl Decoder {
    /// Returns a decoder for a new task.
    pub fn new(config: DecodeConfig) -> Self {
        Self::resuming(config, TaskMemory::default())
    }

    /// Returns a decoder for a further turn of a task whose earlier turns left `memory`.
    pub fn resuming(config: DecodeConfig, mut memory: TaskMemory) -> Self {
        memory.turn += 1;
        memory.cards = RecentMap::default();
        memory.interrupts.clear();
        memory.marked.begin_turn();
        Self {
            source: config.source.clone(),
            dialect: config.dialect,
            config,
            memory,
            calls: Calls::default(),
            open: VecDeque::new(),
            shapes: Shapes::default(),
            known: Templates::default(),
            settled: None,
            at_end: AtEnd::Cut,
            held: Vec::new(),
            is_first: true,
            answer_shown: false,
            shown_status: None,
            last_status: None,
            speech: Speech::default(),
            failure: None,
            reported: None,
            form: None,
            unread: None,
            counts: Counts::default(),
        }
    }

    /// Handles one event of the stream. A frame that cannot be decoded is emitted as custom content once another item
    /// arrives. If the stream ends first, the frame was cut, and becomes a detail of the failure.
    pub fn handle_frame(&mut self, frame: Frame<'_>, out: &mut Vec<SourceEvent>) {
        if !self.handle_chunk(frame, out) && !self.handle_known(frame, out) {
            self.handle_any(frame, out);
        }
    }

    /// Handles a frame that is neither a plain chunk nor matches a template.
    fn handle_any(&mut self, frame: Frame<'_>, out: &mut Vec<SourceEvent>) {
        match self.parse(frame) {
            Some(FrameContent::Item(item)) => self.handle_item(item, frame.data, out),
            Some(FrameContent::Error(error)) => self.handle_error(&error, out),
            Some(FrameContent::Unknown(raw)) => self.handle_unknown(&raw, frame.data, out),
            None => {}
        }
    }

    /// Parses a frame. Returns `None` if it cannot be parsed, which is counted.
    pub(crate) fn parse<'f>(&mut self, frame: Frame<'f>) -> Option<FrameContent<'f>> {
        // An event without content is a keep-alive.
        if frame.data.trim().is_empty() {
            return None;
        }
        let content = frame.parse(self.dialect).ok();
        if content.is_none() {
            self.counts.unreadable += 1;
            self.unread = Some(frame.data.clone());
        }
        content
    }

    /// Handles one item, and learns its template. `frame` is the text that the item borrows from; empty if there is none.
    pub fn handle_item(&mut self, mut item: StreamItem<'_>, frame: &ByteString, out: &mut Vec<SourceEvent>) {
        let mut sink = Sink::new(frame, out);
        if self.settled.is_some() {
            self.counts.late +=
                u64::from(!matches!(&item, StreamItem::Status(update) if update.status.message.is_none()));
            return;
        }
        if self.is_foreign(item.task_id()) {
            self.counts.foreign += 1;
            return;
        }
        self.show_unread(&mut sink);
        self.learn_dialect(&mut item);
        let lesson = self.lesson(&item, frame);
        match item {
            StreamItem::Task(task) => self.task(task, &mut sink),
            StreamItem::Message(message) => self.bare_message(message, &mut sink),
            StreamItem::Status(update) => self.status_update(update, &mut sink),
            StreamItem::Artifact(update) => self.artifact_update(update, &mut sink),
        }
        self.is_first = false;
        self.learn(lesson);
    }

    /// Emits unknown JSON unchanged, as custom content.
    pub(crate) fn handle_unknown(&mut self, raw: &Raw<'_>, frame: &ByteString, out: &mut Vec<SourceEvent>) {
        if self.settled.is_some() {
            self.counts.late += 1;
            return;
        }
        let mut sink = Sink::new(frame, out);
        self.show_unread(&mut sink);
        self.show_raw(&raw.to_value(), &mut sink);
    }

    /// Returns how the turn ended. Returns `None` while the task works.
    pub fn settled(&self) -> Option<Settled> {
        self.settled
    }

    /// Returns the task, once it is known.
    pub fn task_ref(&self) -> Option<TaskRef> {
        let has_task = !self.memory.task_id.is_empty();
        has_task.then(|| TaskRef {
            task_id: self.memory.task_id.to_string(),
            context_id: self.memory.context_id.to_string(),
        })
    }

    /// Returns the counters of input that was not emitted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns `true` while a status text is held that may be the answer.
    pub fn holds_text(&self) -> bool {
        self.speech.holds_any()
    }

    /// Emits held status texts as notices, because no item has decided whether they are the answer.
    pub fn release_held(&mut self, out: &mut Vec<SourceEvent>) {
        self.release(&mut Sink::new(&ByteString::new(), out));
    }

    /// Returns `true` once an item of the task was decoded.
    pub(crate) fn has_heard(&self) -> bool {
        !self.is_first
    }

    /// Returns the state of the task over its turns so far.
    pub(crate) fn memory(&self) -> &TaskMemory {
        &self.memory
    }

    /// Returns the state that the next turn of the same task needs.
    pub fn into_memory(self) -> TaskMemory {
        self.memory
    }

    /// Learns the dialect from an item: a message under `content` is 0.3 over REST, where data parts are wrapped
    /// (`{"data": {"data": …}}`). This item was parsed without the dialect, so its data parts are unwrapped here; later
    /// items are parsed with the dialect.
    fn learn_dialect(&mut self, item: &mut StreamItem<'_>) {
        let as_content = match &*item {
            StreamItem::Task(task) => task.history.iter().any(|message| message.parts_as_content),
            StreamItem::Message(message) => message.parts_as_content,
            StreamItem::Status(update) => update.status.message.as_ref().is_some_and(|m| m.parts_as_content),
            StreamItem::Artifact(_) => false,
        };
        if as_content && self.dialect != Dialect::V03Rest {
            self.dialect = Dialect::V03Rest;
            item.for_each_part(Part::unwrap_data);
        }
    }

    /// Returns `true` if an item names another task than the first item did. The first item may name another task than the
    /// one that the message was sent to: some agents answer each message in a task of its own.
    fn is_foreign(&mut self, task_id: &str) -> bool {
        if task_id.is_empty() || *self.memory.task_id == *task_id {
            return false;
        }
        if self.is_first && !self.memory.task_id.is_empty() {
            self.memory.task_id = Arc::from(task_id);
        }
        !self.is_first && !self.memory.task_id.is_empty()
    }

    /// Records the ids of the task. For a sub-agent, also opens its lane with the first item.
    fn record_task(&mut self, task_id: &str, context_id: &str, sink: &mut Sink<'_>) {
        let is_new = self.is_first || self.memory.task_id.is_empty();
        if self.memory.task_id.is_empty() {
            self.memory.task_id = Arc::from(task_id);
        }
        if self.memory.context_id.is_empty() {
            self.memory.context_id = ByteString::from(context_id);
        }
        if is_new && !self.source.is_root() {
            let mut ids = self.source.metadata().map(|own| Metadata::clone(own)).unwrap_or_default();
            ids.extend(self.task_metadata());
            self.source = self.source.clone().with_metadata(ids);
            sink.push(SourceEvent::LaneOpened(self.source.clone()));
        }
    }

    /// Returns the ids of the task as metadata.
    fn task_metadata(&self) -> Metadata {
        let ids =
            [(TaskRef::TASK_ID, &*self.memory.task_id), (TaskRef::CONTEXT_ID, &*self.memory.context_id)];
        let set = ids.into_iter().filter(|(_, id)| !id.is_empty());
        set.map(|(key, id)| (key.to_owned(), id.into())).collect()
    }

    /// Returns an update of this agent and task.
    fn update(&self, block: ContentBlock, channel: Channel) -> Update {
        let mut update = Update::new(block);
        update.source = self.source.clone();
        update.channel = channel;
        update.response_id = self.response_id();
        update
    }

    /// Returns the id of the task as response id: a turn is one task.
    fn response_id(&self) -> Option<ResponseId> {
        let has_task = !self.memory.task_id.is_empty();
        has_task.then(|| ResponseId::from(Arc::clone(&self.memory.task_id)))
    }

    /// Sets the dialect, for an agent that responds in another version than that of the request.
    pub(crate) fn set_dialect(&mut self, dialect: Dialect) {
        self.dialect = dialect;
    }

    /// Drops the frame that could not be decoded: the stream was cut in the middle of it and is being recovered.
    pub(crate) fn forget_unread(&mut self) {
        self.unread = None;
    }

    /// Emits a frame that could not be decoded, as a raw event.
    fn show_unread(&mut self, sink: &mut Sink<'_>) {
        if let Some(text) = self.unread.take() {
            self.show_raw(&(&*text).into(), sink);
        }
    }

    /// Emits a raw event.
    fn show_raw(&mut self, event: &serde_json::Value, sink: &mut Sink<'_>) {
        let value = json!({"event": event, "source": "a2a"});
        let block = ContentBlock::custom(ByteString::from_static(wellknown::RAW), value);
        sink.push(self.update(block, Channel::Intermediate));
    }

    /// Handles an error of the agent or the transport: the task's stream has failed.
    pub fn handle_error(&mut self, error: &WireError, out: &mut Vec<SourceEvent>) {
        self.fail(failure_of(error), out);
    }
}

/// Returns metadata behind a shared pointer. Returns `None` if it is empty.
fn shared(metadata: Metadata) -> Option<Arc<Metadata>> {
    (!metadata.is_empty()).then(|| Arc::new(metadata))
}

#[cfg(test)]
mod tests;
