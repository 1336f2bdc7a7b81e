//! Chunks that a snapshot holds already. Some servers listen to a task before they look at it (the Python SDK at 1.3.0):
//! what the task says in between comes twice, in the snapshot that begins the stream and after it.
//!
//! ```text
//!   snapshot "… a b c" ── chunk "b": may be the end of it ── chunk "c": it was ──────────► both are repetitions
//!                                 └ held                  └ another chunk: it was not ──► what was held is said
//! ```
//!
//! A repetition and an agent that says a thing twice look alike. So whoever leaves a chunk out looks at the task before
//! its end is believed.

use std::collections::HashMap;

use crate::mark::Mark;
use crate::wire::{Artifact, ArtifactUpdate, Part, Task, Text};

/// How much of an artifact's end is compared: what a task can say while a server looks.
const TAIL: usize = 4096;

/// What the snapshot at the beginning of a stream ends with, by artifact, until its first new chunk came.
#[derive(Debug, Default)]
pub(super) struct Overlap(HashMap<String, Tail>);

#[derive(Debug)]
struct Tail {
    text: String,
    /// True if that is all of the artifact.
    is_whole: bool,
    /// Where in the text the chunks that came may stand.
    starts: Vec<usize>,
    held: String,
    /// True if what is held began the artifact anew.
    begins: bool,
}

/// What a chunk is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// New.
    New,
    /// Perhaps a repetition: it is kept here.
    Held,
    /// A repetition, with all that was kept.
    Repeated,
    /// No words: the decoder knows such a piece again by itself.
    Other,
}

fn text_of(artifact: &Artifact<'_>) -> String {
    artifact.parts.iter().filter_map(Part::as_text).map(Text::as_str).collect()
}

fn tail_of(artifact: &Artifact<'_>) -> Option<(String, Tail)> {
    // Aqueduct's own server looks and listens at once, and its artifacts are read by their length.
    let is_marked = Mark::read(artifact.metadata.as_ref()).is_some();
    let id = artifact.artifact_id.set().filter(|_| !is_marked)?.to_owned();
    let mut text = text_of(artifact);
    let cut = (text.len().saturating_sub(TAIL)..text.len()).find(|at| text.is_char_boundary(*at))?;
    text.drain(..cut);
    Some((id, Tail { text, is_whole: cut == 0, starts: Vec::new(), held: String::new(), begins: false }))
}

impl Overlap {
    pub(super) fn of(task: &Task<'_>) -> Self {
        Self(task.artifacts.iter().filter_map(tail_of).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True if chunks are kept of which nobody knows whether they were repetitions.
    pub(super) fn holds_any(&self) -> bool {
        self.0.values().any(|tail| !tail.held.is_empty())
    }

    /// Judges a chunk.
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
            // The artifact from its beginning, if nothing else was heard of it.
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

    /// What was kept of the same artifact and is new after all, as a chunk. Nothing more of it is a repetition.
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
