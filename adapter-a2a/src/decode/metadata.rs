//! Metadata of messages, artifacts and parts, as metadata of updates.
//!
//! The metadata of a message or artifact are kept unchanged; members without a place of their own get names that start
//! with `a2a.`.

use std::sync::Arc;

use aqueduct_core::update::Details;
use aqueduct_core::{Metadata, Update};
use serde_json::{Map, Value};

use crate::wire::{Artifact, Extra, Message, Part, Raw, Text};

/// Metadata of the event around a message or an artifact, as one object.
pub const EVENT: &str = "a2a.event";
/// Members that the wire types do not know, as one object: an agent of a later version loses nothing.
pub const UNKNOWN: &str = "a2a.unknown";
/// URIs of the extensions that a message or artifact declares.
pub const EXTENSIONS: &str = "a2a.extensions";
/// Ids of other tasks that a message refers to.
pub const REFERENCES: &str = "a2a.referenceTaskIds";
/// The name of an artifact, with its first chunk. The A2A converters send it as the name of their artifact.
pub const ARTIFACT_NAME: &str = "a2a.artifactName";
/// The description of an artifact, with its first chunk.
pub const ARTIFACT_DESCRIPTION: &str = "a2a.artifactDescription";
/// The metadata of a single part, as one object.
pub const PART: &str = "a2a.part";
/// The media type of a text or data part.
pub const MEDIA_TYPE: &str = "a2a.mediaType";
/// The file name of a text or data part.
pub const FILENAME: &str = "a2a.filename";

/// Adds a list of texts, unless it is empty.
fn put_texts(metadata: &mut Metadata, key: &str, texts: &[Text<'_>]) {
    if !texts.is_empty() {
        metadata.insert(key.to_owned(), texts.iter().map(|text| Value::from(text.as_str())).collect());
    }
}

/// Adds members that the wire type does not know: nothing is dropped.
fn put_extra(metadata: &mut Metadata, extra: &Extra<'_>) {
    if !extra.is_empty() {
        let unknown: Map<String, Value> = extra.to_values().collect();
        metadata.insert(UNKNOWN.to_owned(), Value::Object(unknown));
    }
}

/// Adds the metadata of the event that carried the content.
pub(super) fn put_event(metadata: &mut Metadata, event: Option<&Raw<'_>>) {
    if let Some(event) = event.and_then(Raw::to_object) {
        metadata.insert(EVENT.to_owned(), Value::Object(event));
    }
}

/// Returns the metadata of a message.
pub(super) fn of_message(message: &Message<'_>) -> Metadata {
    let mut metadata = message.metadata.as_ref().and_then(Raw::to_object).unwrap_or_default();
    put_texts(&mut metadata, EXTENSIONS, &message.extensions);
    put_texts(&mut metadata, REFERENCES, &message.reference_task_ids);
    put_extra(&mut metadata, &message.extra);
    metadata
}

/// Returns the metadata of an artifact. Name and description are emitted once, with its first chunk.
pub(super) fn of_artifact(artifact: &Artifact<'_>, first: bool) -> Metadata {
    let mut metadata = artifact.metadata.as_ref().and_then(Raw::to_object).unwrap_or_default();
    if first {
        for (key, text) in [(ARTIFACT_NAME, &artifact.name), (ARTIFACT_DESCRIPTION, &artifact.description)] {
            if let Some(text) = text.set() {
                metadata.insert(key.to_owned(), text.into());
            }
        }
    }
    put_texts(&mut metadata, EXTENSIONS, &artifact.extensions);
    put_extra(&mut metadata, &artifact.extra);
    metadata
}

/// Adds the metadata and unknown members of a part whose name and media type stand elsewhere.
pub(super) fn put_own(metadata: &mut Metadata, part: &Part<'_>) {
    if let Some(own) = part.metadata.as_ref().and_then(Raw::to_object) {
        metadata.insert(PART.to_owned(), Value::Object(own));
    }
    put_extra(metadata, &part.extra);
}

/// Adds the metadata of a text or data part.
pub(super) fn put_part(metadata: &mut Metadata, part: &Part<'_>) {
    put_own(metadata, part);
    for (key, text) in [(MEDIA_TYPE, &part.media_type), (FILENAME, &part.filename)] {
        if let Some(text) = text.set() {
            metadata.insert(key.to_owned(), text.into());
        }
    }
}

/// Returns shared metadata for changing them: moved if this is the only reference, else cloned.
pub(super) fn owned(metadata: Option<Arc<Metadata>>) -> Metadata {
    metadata.map(Arc::unwrap_or_clone).unwrap_or_default()
}

/// Sets the metadata of an update. Empty metadata cost no allocation, and are left out.
pub(super) fn attach(update: &mut Update, metadata: Metadata) {
    if !metadata.is_empty() {
        update.details_mut().metadata = Some(metadata.into());
    }
}

/// Returns the details of an update that has these metadata and no others. Returns `None` if they are empty.
pub(super) fn details(metadata: Metadata) -> Option<Box<Details>> {
    (!metadata.is_empty())
        .then(|| Box::new(Details { metadata: Some(metadata.into()), ..Details::default() }))
}
