//! Detects chunks that the snapshot at the start of a stream already contains. Some servers subscribe to a task before
//! they read it (the Python SDK at 1.3.0): content emitted in between arrives twice, in the snapshot and after it.
//!
//! ```text
//!   snapshot "… a b c" ── chunk "b": may be the end of it ── chunk "c": it was ──────────► both are repetitions
//!                                 └ held                  └ another chunk: it was not ──► the held chunks are emitted
//! ```
//!
//! A repetition cannot be distinguished from an agent that emits the same text twice. So a client that suppresses a
//! chunk reads the task before it accepts the end.

use std::collections::HashMap;

use crate::mark::Mark;
use crate::wire::{Artifact, ArtifactUpdate, Part, Task, Text};

/// The length of an artifact's end that is compared: more than a task emits while a server reads it.
const TAIL: usize = 4096;

/// The end of the snapshot at the start of a stream, by artifact, until the first new chunk.
#[derive(Debug, Default)]
pub(super) struct Overlap(HashMap<String, Tail>);

/// The end of one artifact, and what later chunks have matched of it.
#[derive(Debug)]
struct Tail {
    text: String,
    /// Set if the text is the complete artifact.
    is_whole: bool,
    /// Offsets in the text at which the chunks so far may begin.
    starts: Vec<usize>,
    /// The text of the chunks that may be repetitions and were not emitted.
    held: String,
    /// Set if the held chunks restarted the artifact.
    begins: bool,
}

/// The classification of a chunk.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The chunk is new.
    New,
    /// The chunk may be a repetition, and is held.
    Held,
    /// The chunk and all held chunks are repetitions.
    Repeated,
    /// The chunk has no text: the decoder deduplicates such parts itself.
    Other,
}

/// Returns the text parts of an artifact, concatenated.
fn text_of(artifact: &Artifact<'_>) -> String {
    artifact.parts.iter().filter_map(Part::as_text).map(Text::as_str).collect()
}

/// Returns the end of an artifact by its id. Returns `None` for an artifact without id or text, or with a mark.
fn tail_of(artifact: &Artifact<'_>) -> Option<(String, Tail)> {
    // Aqueduct's own server reads and subscribes atomically, and its artifacts are compared by length.
    let is_marked = Mark::read(artifact.metadata.as_ref()).is_some();
    let id = artifact.artifact_id.set().filter(|_| !is_marked)?.to_owned();
    let mut text = text_of(artifact);
    let cut = (text.len().saturating_sub(TAIL)..text.len()).find(|at| text.is_char_boundary(*at))?;
    text.drain(..cut);
    Some((id, Tail { text, is_whole: cut == 0, starts: Vec::new(), held: String::new(), begins: false }))
}

impl Overlap {
    /// Returns the tails of all artifacts of a snapshot.
    pub(super) fn of(task: &Task<'_>) -> Self {
        Self(task.artifacts.iter().filter_map(tail_of).collect())
    }

    /// Returns `true` if no artifact of a snapshot is compared, which is the usual case: the hot path depends on it.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns `true` if chunks are held that may be repetitions.
    pub(super) fn holds_any(&self) -> bool {
        self.0.values().any(|tail| !tail.held.is_empty())
    }

    /// Classifies a chunk.
    pub(super) fn judge(&mut self, update: &ArtifactUpdate<'_>) -> Verdict {
        let words = text_of(&update.artifact);
        let is_plain = update.artifact.parts.iter().all(|part| part.as_text().is_some());
        let known = self.0.get_mut(update.artifact.artifact_id.as_str());
        if !is_plain || words.is_empty() {
            return Verdict::Other;
        }
        let Some(tail) = known else { return Verdict::New };
        let Tail { text, starts, held, begins, is_whole } = tail;
        if !update.append {
            // The chunk restarts the artifact, if no other chunk of it has arrived.
            *begins = *is_whole && held.is_empty() && text.starts_with(&words);
            *starts = if *begins { vec![0] } else { Vec::new() };
        } else if held.is_empty() {
            starts.extend(text.match_indices(&words).map(|(at, _)| at));
        } else {
            starts.retain(|at| text.get(at + held.len()..).is_some_and(|rest| rest.starts_with(&words)));
        }
        if starts.is_empty() {
            return Verdict::New;
        }
        held.push_str(&words);
        if starts.iter().any(|at| at + held.len() == text.len()) {
            self.0.remove(update.artifact.artifact_id.as_str());
            return Verdict::Repeated;
        }
        if update.last_chunk {
            held.truncate(held.len() - words.len());
            return Verdict::New;
        }
        Verdict::Held
    }

    /// Returns the held chunks of the same artifact, which are new after all, as one chunk. Later chunks of it are new.
    pub(super) fn release(&mut self, like: &ArtifactUpdate<'_>) -> Option<ArtifactUpdate<'static>> {
        let (id, tail) = self.0.remove_entry(like.artifact.artifact_id.as_str())?;
        (!tail.held.is_empty()).then(|| ArtifactUpdate {
            task_id: like.task_id.as_str().to_owned().into(),
            context_id: like.context_id.as_str().to_owned().into(),
            artifact: Artifact {
                artifact_id: id.into(),
                parts: vec![Part::text(tail.held)],
                ..Artifact::default()
            },
            append: !tail.begins,
            ..ArtifactUpdate::default()
        })
    }
}
