//! [`PlainView`]: a task for clients that did not activate [`EXTENSION`](crate::mark::EXTENSION): text for people, and
//! the agent's own files and data, nothing else.
//!
//! | of the task | a plain client sees |
//! |---|---|
//! | text of the answer | an artifact: chunks with words in them, then the whole text once more with `append: false, lastChunk: true` |
//! | text of a sub-agent | a status, `<name>: <text>`; the answer, if the agent itself has emitted none when the turn ends |
//! | a text that another one replaces | the same artifact, replaced |
//! | intermediate text, notices | statuses; those of a sub-agent as `<name>: <text>` |
//! | files and data of the agent | artifacts |
//! | questions, failures | their words, in the status |
//! | thoughts, tool calls, lanes, steps, state, usage, marks | nothing |
//!
//! Clients differ in what they take for the whole of an artifact: the chunks joined, or the chunk that says
//! `lastChunk`. A closing chunk that replaces the artifact by its whole text is right for both.
//!
//! The view reads the marks of the whole stream, so there is one conversion for all clients, and begins at any
//! snapshot. Its memory is the text of one task, at most [`TaskLimits::artifact_bytes`](super::TaskLimits); a
//! longer artifact closes with an empty chunk.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use aqueduct_core::{Channel, Role as CanonicalRole, wellknown};
use foldhash::fast::RandomState;
use indexmap::IndexMap;
use serde_json::Value;

use super::answer::TaskItems;
use super::chunk::{Chunk, TaskItem};
use super::{Answer, ServerError, TaskStream};
use crate::mark::{self, MEDIA_TYPE, Mark, kind};
use crate::wire::{
    Artifact, ArtifactUpdate, Content, Message, Part, Raw, Role, StateClass, StatusUpdate, StreamItem, Task,
    TaskState, TaskStatus, Text,
};

/// Converts one task for one client. It must be given every item of the stream, or a snapshot and every item
/// after it.
#[derive(Debug, Clone, Default)]
pub(super) struct PlainView {
    artifacts: IndexMap<String, Seen, RandomState>,
    /// The ids under which the client received artifacts that replace others.
    shown_as: HashMap<String, String, RandomState>,
    /// Texts of the answer that others replace.
    replaced: HashSet<String, RandomState>,
    /// Bytes of text that are held.
    bytes: usize,
    max_bytes: usize,
    /// Set once the agent itself has emitted a part of the answer of this turn.
    has_answer: bool,
    /// Set if the first item is the task as it was when its turn began: its content is that of earlier turns, which have
    /// ended.
    begins_turn: bool,
    /// What stood around the last chunk of the answer, and what the client received around its words. Valid until
    /// another artifact is seen.
    last: Option<[Arc<ArtifactUpdate<'static>>; 2]>,
}

/// An artifact of the task.
#[derive(Debug, Clone)]
struct Seen {
    shows: Shows,
    /// The name of the artifact, which only its first chunk contains.
    name: Text<'static>,
    /// The text so far; `None` if it is too long, or if nothing needs it.
    text: Option<String>,
    /// Set once the client received text of it: the next chunk is appended.
    is_begun: bool,
}

/// What an artifact is to a plain client.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Shows {
    /// Text of the answer.
    Answer,
    /// Text of a sub-agent, under its name.
    SubAgent(String),
    /// A file or data of the agent.
    Whole,
    /// Text beside the answer.
    Notice(String),
    Nothing,
}

impl Shows {
    /// Returns `true` for text that is shown once more as a whole.
    fn needs_text(&self) -> bool {
        matches!(self, Self::Answer | Self::SubAgent(_))
    }
}

impl PlainView {
    /// Returns a view that has seen nothing, and holds at most that many bytes of text.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, ..Self::default() }
    }

    /// Returns the view of a stream that begins with its turn.
    pub(super) fn beginning_turn(self) -> Self {
        Self { begins_turn: true, ..self }
    }

    /// Converts the response to a call.
    pub(super) fn show(self, answer: Answer) -> Answer {
        match answer {
            Answer::Task(task) => Answer::Task(Box::new(self.into_task(*task))),
            Answer::Message(mut message) => {
                message.metadata = without_mark(message.metadata);
                Answer::Message(message)
            }
            Answer::Stream(items) => {
                Answer::Stream(TaskStream::new(PlainStream { items, view: self, queue: VecDeque::new() }))
            }
            Answer::Tasks(mut page) => {
                page.tasks =
                    page.tasks.into_iter().map(|task| Self::new(self.max_bytes).into_task(task)).collect();
                Answer::Tasks(page)
            }
            other => other,
        }
    }

    /// Appends the items that the client receives: none, one or several.
    pub(super) fn handle_item(&mut self, item: StreamItem<'static>, out: &mut VecDeque<StreamItem<'static>>) {
        match item {
            StreamItem::Task(task) => out.push_back(StreamItem::Task(self.task(task))),
            StreamItem::Message(mut message) => {
                message.metadata = without_mark(message.metadata);
                out.push_back(StreamItem::Message(message));
            }
            StreamItem::Status(update) => self.status(update, out),
            StreamItem::Artifact(update) => self.artifact(update, out),
        }
    }

    /// Returns what the client receives for a chunk of an answer that it knows. Returns the chunk itself as an error if
    /// the general way must decide.
    fn handle_chunk(&mut self, chunk: Chunk) -> Result<Chunk, Chunk> {
        let id = &chunk.around.artifact.artifact_id;
        let Some(seen) = self.artifacts.get_mut(id.as_str()) else { return Err(chunk) };
        if seen.shows != Shows::Answer || !seen.is_begun {
            return Err(chunk);
        }
        if let Some(text) = &mut seen.text {
            text.push_str(&chunk.words);
            self.bytes = self.bytes.saturating_add(chunk.words.len());
            if self.bytes > self.max_bytes {
                self.bytes = self.bytes.saturating_sub(text.len());
                seen.text = None;
            }
        }
        self.has_answer = true;
        let around = match &self.last {
            Some([known, shown]) if Arc::ptr_eq(known, &chunk.around) => Arc::clone(shown),
            _ => {
                let mut shown = ArtifactUpdate::clone(&chunk.around);
                shown.artifact.name = seen.name.clone();
                shown.artifact.artifact_id = Text::from(self.shown_id(id).to_owned());
                let shown = Arc::new(shown);
                self.last = Some([Arc::clone(&chunk.around), Arc::clone(&shown)]);
                shown
            }
        };
        Ok(Chunk { around, words: chunk.words })
    }

    /// Converts a complete task.
    pub(super) fn into_task(mut self, task: Task<'static>) -> Task<'static> {
        self.task(task)
    }

    /// Converts a complete task, and continues from it.
    pub(super) fn task(&mut self, mut task: Task<'static>) -> Task<'static> {
        task.metadata = without_mark(task.metadata);
        task.status.message = task.status.message.and_then(message);
        task.history = std::mem::take(&mut task.history).into_iter().filter_map(message).collect();
        let artifacts = std::mem::take(&mut task.artifacts);
        for artifact in &artifacts {
            self.see(artifact);
        }
        let ends_turn =
            std::mem::take(&mut self.begins_turn) || task.status.state.class() != StateClass::Active;
        let falls_back = ends_turn && !self.has_answer;
        if ends_turn {
            self.end_turn();
        }
        for mut artifact in artifacts {
            let id = artifact.artifact_id.as_str();
            let is_shown = match self.artifacts.get(id) {
                Some(seen) => match seen.shows {
                    Shows::SubAgent(_) => falls_back,
                    // An artifact without text is not in the stream either.
                    Shows::Answer => seen.is_begun,
                    Shows::Whole => true,
                    Shows::Notice(_) | Shows::Nothing => false,
                },
                // It is shown until the one that replaces it has text.
                None => self.replaced.contains(id),
            };
            if !is_shown {
                continue;
            }
            let shown = self.shown_id(id).to_owned();
            artifact.metadata = without_mark(artifact.metadata);
            // The replaced artifact is before it.
            task.artifacts.retain(|before| *before.artifact_id != *shown);
            artifact.artifact_id = shown.into();
            task.artifacts.push(artifact);
        }
        task
    }

    /// Records a complete artifact, or the first chunk of one.
    fn see(&mut self, artifact: &Artifact<'static>) {
        self.last = None;
        let id = artifact.artifact_id.to_string();
        let mark = Mark::read(artifact.metadata.as_ref());
        let shows = mark.as_ref().map_or(Shows::Whole, |mark| shows(mark, artifact));
        if let Some(old) = mark.as_ref().and_then(|mark| mark.text("replaces")) {
            let known_as = self.shown_id(old).to_owned();
            if let Some(before) = self.artifacts.shift_remove(old) {
                self.release(before.text.as_ref());
                self.shown_as.insert(id.clone(), known_as);
                if before.shows == Shows::Answer && before.is_begun {
                    self.replaced.insert(old.to_owned());
                }
            }
        }
        let text: String = artifact.parts.iter().filter_map(Part::as_text).map(Text::as_str).collect();
        self.has_answer |= shows == Shows::Answer && !text.is_empty();
        let is_begun = !text.is_empty();
        let before = self.artifacts.get_mut(&id).and_then(|before| before.text.take());
        self.release(before.as_ref());
        let text = shows.needs_text().then_some(text).and_then(|text| self.hold(text));
        self.artifacts.insert(id, Seen { shows, name: artifact.name.clone(), is_begun, text });
    }

    /// Counts a text that is held from now on. Returns `None` if it exceeds the limit.
    fn hold(&mut self, text: String) -> Option<String> {
        let bytes = self.bytes.saturating_add(text.len());
        (bytes <= self.max_bytes).then(|| {
            self.bytes = bytes;
            text
        })
    }

    /// Discounts a text that is not held any more.
    fn release(&mut self, text: Option<&String>) {
        self.bytes = self.bytes.saturating_sub(text.map_or(0, String::len));
    }

    /// Returns the id under which the client knows an artifact.
    fn shown_id<'v>(&'v self, id: &'v str) -> &'v str {
        self.shown_as.get(id).map_or(id, String::as_str)
    }

    /// Converts a status. A status that consisted of thinking or marks only is not sent, unless it ends the turn.
    fn status(&mut self, mut update: StatusUpdate<'static>, out: &mut VecDeque<StreamItem<'static>>) {
        update.metadata = without_mark(update.metadata);
        let told = update.status.message.is_some();
        update.status.message = update.status.message.and_then(message);
        if update.status.state.class() != StateClass::Active {
            self.fall_back(&update, out);
        } else if told && update.status.message.is_none() {
            return;
        }
        out.push_back(StreamItem::Status(update));
    }

    /// Ends the turn. If the agent itself has emitted no answer, the text of its sub-agents is the answer.
    fn fall_back(&mut self, update: &StatusUpdate<'static>, out: &mut VecDeque<StreamItem<'static>>) {
        let has_answer = self.has_answer;
        for (id, name, text) in self.end_turn() {
            if has_answer {
                continue;
            }
            let artifact_id = Text::from(self.shown_as.get(&id).cloned().unwrap_or(id));
            let parts = vec![Part::text(text)];
            out.push_back(StreamItem::Artifact(ArtifactUpdate {
                task_id: update.task_id.clone(),
                context_id: update.context_id.clone(),
                artifact: Artifact { artifact_id, name, parts, ..Artifact::default() },
                last_chunk: true,
                ..ArtifactUpdate::default()
            }));
        }
    }

    /// Begins another turn: takes the texts of sub-agents, with id and name, which the next turn must not show as its
    /// own answer.
    fn end_turn(&mut self) -> Vec<(String, Text<'static>, String)> {
        self.has_answer = false;
        let mut taken = Vec::new();
        for (id, seen) in &mut self.artifacts {
            let Shows::SubAgent(_) = seen.shows else { continue };
            let text = seen.text.as_mut().map(std::mem::take).filter(|text| !text.is_empty());
            taken.extend(text.map(|text| (id.clone(), seen.name.clone(), text)));
        }
        let bytes = taken.iter().map(|(.., text)| text.len()).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        taken
    }

    /// Converts an artifact or a chunk of one.
    fn artifact(&mut self, mut update: ArtifactUpdate<'static>, out: &mut VecDeque<StreamItem<'static>>) {
        let id = update.artifact.artifact_id.to_string();
        if !update.append || !self.artifacts.contains_key(&id) {
            self.see(&update.artifact);
        } else {
            self.extend(&id, &update.artifact);
        }
        let shown = Text::from(self.shown_id(&id).to_owned());
        let Some(seen) = self.artifacts.get_mut(&id) else { return };
        update.artifact.metadata = without_mark(update.artifact.metadata);
        match seen.shows.clone() {
            Shows::Whole => out.push_back(StreamItem::Artifact(update)),
            Shows::Answer => {
                let has_words = update.artifact.parts.iter().any(|part| !is_empty(part));
                self.has_answer |= has_words;
                // An empty chunk opens or ends an artifact; a plain client needs neither, unless it has text to
                // end.
                let ends = update.last_chunk && seen.is_begun;
                if !has_words && !ends {
                    return;
                }
                update.artifact.name = seen.name.clone();
                update.artifact.artifact_id = shown;
                update.append = std::mem::replace(&mut seen.is_begun, true);
                if let Some(text) = seen.text.as_ref().filter(|_| update.last_chunk) {
                    update.artifact.parts = vec![Part::text(text.clone())];
                    update.append = false;
                }
                out.push_back(StreamItem::Artifact(update));
            }
            Shows::SubAgent(name) if update.last_chunk => {
                let words = seen.text.as_deref().filter(|text| !text.is_empty());
                out.extend(words.map(|text| said(&update, format!("{name}: {text}"))));
            }
            Shows::Notice(words) if !update.append => out.push_back(said(&update, words)),
            Shows::SubAgent(_) | Shows::Notice(_) | Shows::Nothing => {}
        }
    }

    /// Appends the text of a chunk to what is held of its artifact. Beyond the limit, the text of that artifact
    /// is dropped.
    fn extend(&mut self, id: &str, more: &Artifact<'static>) {
        let Some(seen) = self.artifacts.get_mut(id) else { return };
        let Some(text) = &mut seen.text else { return };
        for words in more.parts.iter().filter_map(Part::as_text) {
            text.push_str(words);
            self.bytes = self.bytes.saturating_add(words.len());
        }
        if self.bytes > self.max_bytes {
            self.bytes = self.bytes.saturating_sub(text.len());
            seen.text = None;
        }
    }
}

/// Returns what an artifact with this mark is to a plain client.
fn shows(mark: &Mark, artifact: &Artifact<'static>) -> Shows {
    if mark.channel() != Channel::Answer || mark.role() != CanonicalRole::Assistant {
        return Shows::Nothing;
    }
    match (mark.kind(), mark.text("name")) {
        (kind::TEXT, _) => lane_name(mark).map_or(Shows::Answer, Shows::SubAgent),
        (kind::CUSTOM, Some(wellknown::FILE | wellknown::DATA)) => Shows::Whole,
        (kind::CUSTOM, Some(wellknown::NOTICE)) => {
            let data = artifact.parts.iter().find_map(|part| match &part.content {
                Content::Data(raw) => raw.to_object(),
                _ => None,
            });
            let words = data.and_then(|data| data.get("text").and_then(Value::as_str).map(str::to_owned));
            words.map_or(Shows::Nothing, Shows::Notice)
        }
        _ => Shows::Nothing,
    }
}

/// Returns the name of the sub-agent of a piece, or `None` for the agent's own.
fn lane_name(mark: &Mark) -> Option<String> {
    let lane = mark.get("lane")?.as_array()?.last()?;
    let text = |key: &str| lane.get(key).and_then(Value::as_str);
    text("name").or_else(|| text("key")).filter(|name| !name.is_empty()).map(str::to_owned)
}

fn is_empty(part: &Part<'static>) -> bool {
    part.as_text().is_some_and(|text| text.is_empty())
}

/// Returns a status with this text.
fn said(update: &ArtifactUpdate<'static>, words: String) -> StreamItem<'static> {
    let message = Message {
        message_id: update.artifact.artifact_id.clone(),
        context_id: update.context_id.clone(),
        task_id: update.task_id.clone(),
        role: Role::Agent,
        parts: vec![Part::text(words)],
        ..Message::default()
    };
    StreamItem::Status(StatusUpdate {
        task_id: update.task_id.clone(),
        context_id: update.context_id.clone(),
        status: TaskStatus { state: TaskState::Working, message: Some(message), ..TaskStatus::default() },
        ..StatusUpdate::default()
    })
}

/// Returns the text for people in a message, or `None` if it has none.
fn message(mut message: Message<'static>) -> Option<Message<'static>> {
    if message.role != Role::Agent {
        return Some(message);
    }
    let mark = Mark::read(message.metadata.as_ref());
    if mark.as_ref().is_some_and(|mark| mark.kind() == kind::THINKING) {
        return None;
    }
    message.metadata = without_mark(message.metadata);
    message
        .parts
        .retain(|part| part.media_type.as_str() != MEDIA_TYPE && !is_thought(part) && !is_empty(part));
    let first = message.parts.first_mut()?;
    if let (Some(name), Content::Text(words)) = (mark.as_ref().and_then(lane_name), &mut first.content) {
        words.0.to_mut().insert_str(0, &format!("{name}: "));
    }
    Some(message)
}

/// Returns `true` for a part that its metadata mark as thinking.
fn is_thought(part: &Part<'static>) -> bool {
    let metadata = part.metadata.as_ref().and_then(Raw::to_object);
    metadata.is_some_and(|metadata| metadata.get("thought") == Some(&Value::Bool(true)))
}

/// Returns metadata without the mark, or `None` if nothing is left.
fn without_mark(metadata: Option<Raw<'static>>) -> Option<Raw<'static>> {
    let raw = metadata?;
    if !raw.as_str().contains(mark::KEY) {
        return Some(raw);
    }
    let mut members = raw.to_object()?;
    members.shift_remove(mark::KEY);
    (!members.is_empty()).then(|| Raw::from_value(&Value::Object(members)))
}

/// The stream of a task for a plain client.
struct PlainStream {
    items: TaskStream,
    view: PlainView,
    queue: VecDeque<StreamItem<'static>>,
}

impl TaskItems for PlainStream {
    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<TaskItem, ServerError>>> {
        loop {
            if let Some(item) = self.queue.pop_front() {
                return Poll::Ready(Some(Ok(TaskItem::Item(Box::new(item)))));
            }
            let item = match ready!(self.items.poll_item(cx)) {
                Some(Ok(TaskItem::Chunk(chunk))) => match self.view.handle_chunk(chunk) {
                    Ok(shown) => return Poll::Ready(Some(Ok(TaskItem::Chunk(shown)))),
                    Err(chunk) => chunk.into_item(),
                },
                Some(Ok(TaskItem::Item(item))) => *item,
                end => return Poll::Ready(end),
            };
            self.view.handle_item(item, &mut self.queue);
        }
    }
}

#[cfg(test)]
mod tests;
