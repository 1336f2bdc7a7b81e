//! [`Folded`]: the current state of a task, folded from the items of its stream.
//!
//! Invariants: folding an item has a constant cost, however long the task is (text is appended in place, artifacts are
//! found by id, history is truncated in batches); the folded task equals what a client holds that received every item;
//! content that a limit removed is named in the task's metadata.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde_json::Value;

use super::chunk::Chunk;
use super::config::TaskLimits;
use crate::mark;
use crate::wire::{
    Artifact, ArtifactUpdate, Content, Message, Part, Raw, StatusUpdate, StreamItem, Task, TaskStatus, Text,
};

/// The metadata key that marks a stored task as incomplete.
pub const TRUNCATED: &str = "aqueduct.truncated";

/// A task, and the state for folding further items.
#[derive(Debug, Clone)]
pub(super) struct Folded {
    pub(super) task: Task<'static>,
    /// Each artifact of the task, by its id.
    places: HashMap<String, Place, RandomState>,
    /// The bytes of the artifacts.
    bytes: usize,
    /// The bytes of the history.
    said: usize,
    is_truncated: bool,
}

/// The place of an artifact in the task.
#[derive(Debug, Clone, Copy)]
struct Place {
    index: usize,
    /// What is counted for the artifact in [`Folded::bytes`].
    bytes: usize,
    /// Set once content of the artifact was not stored: what follows it would leave a hole. Cleared by a replacement.
    is_cut: bool,
}

impl Folded {
    /// Begins with a task that has no artifacts yet; its history is counted.
    pub(super) fn new(task: Task<'static>) -> Self {
        let said = task.history.iter().map(message_bytes).sum();
        Self { task, places: HashMap::default(), bytes: 0, said, is_truncated: false }
    }

    /// Returns the approximate size, to bound the size of all tasks.
    pub(super) fn size(&self) -> usize {
        let status = self.task.status.message.as_ref().map_or(0, message_bytes);
        self.bytes.saturating_add(self.said).saturating_add(status)
    }

    /// Folds one item. Statuses get the time `at`.
    pub(super) fn apply(&mut self, item: StreamItem<'static>, at: &str, limits: &TaskLimits) {
        match item {
            StreamItem::Status(update) => self.set_status(stamped(update, at).status, limits),
            StreamItem::Artifact(update) => self.add(update, limits),
            StreamItem::Task(_) | StreamItem::Message(_) => {}
        }
    }

    /// Sets a new status; the message of the old one moves into the history.
    pub(super) fn set_status(&mut self, status: TaskStatus<'static>, limits: &TaskLimits) {
        let old = std::mem::replace(&mut self.task.status, status);
        if let Some(said) = old.message {
            self.say(said, limits);
        }
    }

    /// Appends a message to the history, and drops the oldest ones beyond the limits. The newest message is
    /// always kept.
    pub(super) fn say(&mut self, message: Message<'static>, limits: &TaskLimits) {
        self.said = self.said.saturating_add(message_bytes(&message));
        self.task.history.push(message);
        let len = self.task.history.len();
        // In batches, because the remaining messages are moved.
        if len > limits.history.saturating_add(limits.history / 4).saturating_add(1) {
            self.forget(len - limits.history.max(1));
        }
        if self.said > limits.history_bytes {
            let mut left = self.said;
            let sizes = self.task.history.iter().map(message_bytes);
            let is_surplus = |size: &usize| {
                let goes = left > limits.history_bytes / 4 * 3;
                left = left.saturating_sub(*size);
                goes
            };
            let surplus = sizes.take_while(is_surplus).count();
            self.forget(surplus.min(self.task.history.len().saturating_sub(1)));
        }
    }

    /// Drops the oldest messages.
    fn forget(&mut self, count: usize) {
        let gone = self.task.history.drain(..count).map(|message| message_bytes(&message)).sum::<usize>();
        self.said = self.said.saturating_sub(gone);
    }

    /// Folds an artifact or a chunk of one. Content that exceeds a limit is not stored, nor what is appended to it,
    /// and the task is marked.
    fn add(&mut self, update: ArtifactUpdate<'static>, limits: &TaskLimits) {
        let size = artifact_bytes(&update.artifact);
        let Some(bytes) = self.bytes_with(&update, size, limits) else {
            if let Some(place) = self.places.get_mut(update.artifact.artifact_id.as_str()) {
                place.is_cut = true;
            }
            return self.truncate();
        };
        self.bytes = bytes;
        let artifact = update.artifact;
        let place = self.places.get_mut(artifact.artifact_id.as_str());
        match place.and_then(|place| Some((self.task.artifacts.get_mut(place.index)?, place))) {
            Some((known, place)) if update.append => {
                place.bytes += size;
                append(known, artifact);
            }
            Some((known, place)) => {
                (place.bytes, place.is_cut) = (size, false);
                *known = artifact;
            }
            None => {
                let place = Place { index: self.task.artifacts.len(), bytes: size, is_cut: false };
                self.places.insert(artifact.artifact_id.to_string(), place);
                self.task.artifacts.push(artifact);
            }
        }
    }

    /// Returns the bytes of all artifacts with this one of `size` bytes. Returns `None` if it cannot be stored: beyond
    /// a limit, or appended to content that is not stored.
    fn bytes_with(&self, update: &ArtifactUpdate<'_>, size: usize, limits: &TaskLimits) -> Option<usize> {
        let place = self.places.get(update.artifact.artifact_id.as_str());
        let replaced = place.filter(|_| !update.append).map_or(0, |place| place.bytes);
        let bytes = self.bytes.saturating_sub(replaced).saturating_add(size);
        // The start of an artifact that is not stored may have been refused, once the task is truncated.
        let lacks_start = update.append && place.map_or(self.is_truncated, |place| place.is_cut);
        let has_place = place.is_some() || self.task.artifacts.len() < limits.artifacts;
        (bytes <= limits.artifact_bytes && has_place && !lacks_start).then_some(bytes)
    }

    /// Folds a chunk: appends its words to the last text of the artifact, without an item. Any other case takes
    /// the general way.
    pub(super) fn add_chunk(&mut self, chunk: Chunk, limits: &TaskLimits) {
        let id = &chunk.around.artifact.artifact_id;
        let size = chunk.words.len() + id.len();
        let place = self.places.get_mut(id.as_str()).filter(|place| !place.is_cut);
        if let Some(place) = place
            && let Some(known) = self.task.artifacts.get_mut(place.index)
            && let Some(last) = known.parts.last_mut().filter(|part| is_plain_text(part))
            && let Content::Text(text) = &mut last.content
            && chunk.around.append
            && self.bytes.saturating_add(size) <= limits.artifact_bytes
        {
            (self.bytes, place.bytes) = (self.bytes + size, place.bytes + size);
            text.0.to_mut().push_str(&chunk.words);
            return;
        }
        self.apply(chunk.into_item(), "", limits);
    }

    /// Marks the task as incomplete, once.
    fn truncate(&mut self) {
        if !std::mem::replace(&mut self.is_truncated, true) {
            let mut metadata = self.task.metadata.as_ref().and_then(Raw::to_object).unwrap_or_default();
            metadata.insert(TRUNCATED.to_owned(), true.into());
            self.task.metadata = Some(Raw::from_value(&Value::Object(metadata)));
        }
    }

    /// Returns the task with at most the newest `history` messages (all if it is `None`).
    pub(super) fn snapshot(&self, history: Option<u32>, with_artifacts: bool) -> Task<'static> {
        let kept = &self.task;
        let all = kept.history.len();
        let take = history.map_or(all, |length| usize::try_from(length).unwrap_or(all).min(all));
        Task {
            id: kept.id.clone(),
            context_id: kept.context_id.clone(),
            status: kept.status.clone(),
            artifacts: if with_artifacts { kept.artifacts.clone() } else { Vec::new() },
            history: kept.history.iter().skip(all - take).cloned().collect(),
            metadata: kept.metadata.clone(),
            ..Task::default()
        }
    }
}

/// Returns the update with a time.
pub(super) fn stamped(mut update: StatusUpdate<'static>, at: &str) -> StatusUpdate<'static> {
    update.status.timestamp = Text::from(at.to_owned());
    update
}

/// Appends a chunk to its artifact. The first name and description count; metadata are merged.
fn append(known: &mut Artifact<'static>, more: Artifact<'static>) {
    for part in more.parts {
        append_part(&mut known.parts, part);
    }
    for (into, from) in [(&mut known.name, more.name), (&mut known.description, more.description)] {
        if into.is_empty() {
            *into = from;
        }
    }
    if let Some(metadata) = more.metadata {
        known.metadata = Some(merged(known.metadata.as_ref(), &metadata));
    }
}

/// Appends a part. Text is appended to the text before it; an empty chunk, which only opens or ends an artifact, adds
/// nothing.
fn append_part(parts: &mut Vec<Part<'static>>, part: Part<'static>) {
    if let (Content::Text(words), Some(last)) = (&part.content, parts.last_mut())
        && part.extra.is_empty()
        && part.filename.is_empty()
        && (words.is_empty() || (part.metadata == last.metadata && part.media_type == last.media_type))
    {
        if words.is_empty() {
            return;
        }
        if let Content::Text(text) = &mut last.content {
            text.0.to_mut().push_str(words);
            return;
        }
    }
    parts.push(part);
}

/// Merges metadata. Later members win, except for the mark of an artifact's first chunk, which contains its kind.
fn merged(old: Option<&Raw<'static>>, new: &Raw<'static>) -> Raw<'static> {
    let Some(mut all) = old.and_then(Raw::to_object) else { return new.clone() };
    for (key, value) in new.to_object().unwrap_or_default() {
        if key != mark::KEY || !all.contains_key(mark::KEY) {
            all.insert(key, value);
        }
    }
    Raw::from_value(&Value::Object(all))
}

/// Returns `true` for a text to which the next text without metadata is appended.
fn is_plain_text(part: &Part<'_>) -> bool {
    part.metadata.is_none() && part.media_type.is_empty()
}

/// Returns the approximate size of a message: its content, metadata and id.
fn message_bytes(message: &Message<'_>) -> usize {
    let metadata = message.metadata.as_ref().map_or(0, |raw| raw.as_str().len());
    message.parts.iter().map(part_bytes).sum::<usize>() + metadata + message.message_id.len()
}

/// Returns the approximate size of an artifact: its content and its id.
fn artifact_bytes(artifact: &Artifact<'_>) -> usize {
    artifact.parts.iter().map(part_bytes).sum::<usize>() + artifact.artifact_id.len()
}

/// Returns the approximate size of a part: its content and metadata.
fn part_bytes(part: &Part<'_>) -> usize {
    let content = match &part.content {
        Content::Text(text) | Content::Bytes(text) | Content::Url(text) | Content::Unknown(text) => {
            text.len()
        }
        Content::Data(raw) => raw.as_str().len(),
    };
    content + part.metadata.as_ref().map_or(0, |raw| raw.as_str().len())
}

#[cfg(test)]
mod tests;
