//! [`ChunkWriter`]: writes the payload of a chunk with the bytes that it shares with the chunk before.
//!
//! The chunks of an answer differ only in their text. So the writer keeps the bytes before and after the text of the
//! last chunk, and writes the next one as these bytes with another text between them. Everything else is serialised.
//!
//! ```text
//! head  {"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"text":"
//! tail  "}]},"append":true}}
//! ```
//!
//! Invariant: the bytes are those of [`Envelope::write`] (property test).

use std::sync::Arc;

use aqueduct_core::json::escape_into;

use super::Envelope;
#[cfg(feature = "server")]
use crate::server::Chunk;
use crate::wire::{Artifact, ArtifactUpdate, Dialect, Part, StreamItem, Text};

/// Writes the items of one stream.
#[derive(Debug, Default)]
pub(crate) struct ChunkWriter {
    /// The last plain chunk; `None` before the first.
    last: Option<Last>,
}

/// The last plain chunk, as far as the next one can share it.
#[derive(Debug)]
struct Last {
    /// The chunk without text, for comparison with the next one.
    update: Arc<ArtifactUpdate<'static>>,
    /// The payload up to the opening quote of the text.
    head: Vec<u8>,
    /// The payload from the closing quote of the text on.
    tail: Vec<u8>,
}

impl ChunkWriter {
    /// Appends an item with its envelope. All items of a writer have the same envelope and dialect.
    ///
    /// A chunk like the last one costs two copies and the escaping of its text; the first of its kind is serialised
    /// three times, to find the bytes around the text.
    pub(crate) fn write(
        &mut self,
        envelope: &Envelope,
        item: &StreamItem<'_>,
        dialect: Dialect,
        out: &mut Vec<u8>,
    ) {
        let Some((update, words)) = plain_chunk(item) else { return envelope.write(item, dialect, out) };
        if let Some(last) = self.last.as_ref().filter(|last| is_alike(&last.update, update)) {
            return last.write(words, out);
        }
        envelope.write(item, dialect, out);
        self.last = Last::of(envelope, Arc::new(with_words(update, "")), dialect);
    }

    /// Appends a chunk of the server, which has the shared part behind a pointer: equal pointers make the comparison
    /// of its members unnecessary.
    #[cfg(feature = "server")]
    pub(crate) fn write_chunk(
        &mut self,
        envelope: &Envelope,
        chunk: &Chunk,
        dialect: Dialect,
        out: &mut Vec<u8>,
    ) {
        let is_last = |last: &Last| Arc::ptr_eq(&last.update, &chunk.around);
        if !self.last.as_ref().is_some_and(is_last) {
            self.last = Last::of(envelope, Arc::clone(&chunk.around), dialect);
        }
        match &self.last {
            Some(last) => last.write(&chunk.words, out),
            None => envelope.write(&chunk.clone().into_item(), dialect, out),
        }
    }
}

impl Last {
    /// Returns the bytes around the text: those in which the payloads of two texts of one letter agree. Returns
    /// `None` if the payloads do not differ, which no dialect does.
    fn of(envelope: &Envelope, update: Arc<ArtifactUpdate<'static>>, dialect: Dialect) -> Option<Self> {
        let payload = |word: &'static str| {
            let mut out = Vec::new();
            let item = StreamItem::Artifact(with_words(&update, word));
            envelope.write(&item, dialect, &mut out);
            out
        };
        let (mut head, other) = (payload("a"), payload("b"));
        let at = head.iter().zip(&other).position(|(one, other)| one != other)?;
        let tail = head.split_off(at).split_off(1);
        Some(Self { update, head, tail })
    }

    /// Appends the payload with that text, escaped as JSON.
    fn write(&self, words: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.head);
        escape_into(words, out);
        out.extend_from_slice(&self.tail);
    }
}

/// Returns a plain chunk with another text. Only members that a plain chunk can have are copied.
pub(crate) fn with_words(update: &ArtifactUpdate<'_>, words: &'static str) -> ArtifactUpdate<'static> {
    let owned = |text: &Text<'_>| text.clone().into_owned();
    ArtifactUpdate {
        task_id: owned(&update.task_id),
        context_id: owned(&update.context_id),
        artifact: Artifact {
            artifact_id: owned(&update.artifact.artifact_id),
            name: owned(&update.artifact.name),
            parts: vec![Part::text(words)],
            ..Artifact::default()
        },
        append: update.append,
        last_chunk: update.last_chunk,
        kind: owned(&update.kind),
        ..ArtifactUpdate::default()
    }
}

/// Returns a chunk with one part of plain text and nothing beside it, and its text. Returns `None` for every other
/// item, and for an empty text: those are serialised.
pub(crate) fn plain_chunk<'i, 'a>(item: &'i StreamItem<'a>) -> Option<(&'i ArtifactUpdate<'a>, &'i str)> {
    let StreamItem::Artifact(update) = item else { return None };
    let [part] = update.artifact.parts.as_slice() else { return None };
    let words = part.as_text()?.as_str();
    let artifact = &update.artifact;
    let is_plain = update.metadata.is_none()
        && update.extra.is_empty()
        && artifact.metadata.is_none()
        && artifact.extra.is_empty()
        && artifact.extensions.is_empty()
        && artifact.description.is_empty()
        && !words.is_empty()
        && *part == Part::text(Text::new(words));
    is_plain.then_some((update, words))
}

/// Returns `true` if two plain chunks differ in their text alone.
fn is_alike(one: &ArtifactUpdate<'_>, other: &ArtifactUpdate<'_>) -> bool {
    (one.append, one.last_chunk) == (other.append, other.last_chunk)
        && one.task_id == other.task_id
        && one.context_id == other.context_id
        && one.kind == other.kind
        && one.artifact.artifact_id == other.artifact.artifact_id
        && one.artifact.name == other.artifact.name
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::wire::Raw;

    fn arb_item() -> impl Strategy<Value = StreamItem<'static>> {
        let words = prop_oneof![Just(String::new()), "[a-c\"\\\\\n ]{1,4}", any::<String>()];
        let odd = prop::bool::weighted(0.1);
        (words, prop::array::uniform6(odd), any::<bool>()).prop_map(|(words, odd, append)| {
            let [renamed, marked, doubled, last, foreign, filed] = odd;
            let mut part = Part::text(words);
            if filed {
                part.filename = Text::new("f");
            }
            let parts = if doubled { vec![part.clone(), part] } else { vec![part] };
            StreamItem::Artifact(ArtifactUpdate {
                task_id: Text::new(if foreign { "t2" } else { "t" }),
                context_id: Text::new("c"),
                artifact: Artifact {
                    artifact_id: Text::new("a"),
                    name: Text::new(if renamed { "n\"" } else { "" }),
                    parts,
                    metadata: marked.then(|| Raw::from_value(&json!({"x": 1}))),
                    ..Artifact::default()
                },
                append,
                last_chunk: last,
                ..ArtifactUpdate::default()
            })
        })
    }

    proptest! {
        #[test]
        fn payloads_are_those_of_the_envelope(
            items in prop::collection::vec(arb_item(), 1..12),
            rpc in any::<bool>(),
            dialect in prop::sample::select(vec![Dialect::V1, Dialect::V03JsonRpc, Dialect::V03Rest]),
        ) {
            let envelope = if rpc { Envelope::JsonRpc(json!("id\"7")) } else { Envelope::Bare };
            let mut writer = ChunkWriter::default();
            for item in &items {
                let (mut fast, mut general) = (Vec::new(), Vec::new());
                writer.write(&envelope, item, dialect, &mut fast);
                envelope.write(item, dialect, &mut general);
                prop_assert_eq!(String::from_utf8(fast), String::from_utf8(general));
            }
        }
    }
}
