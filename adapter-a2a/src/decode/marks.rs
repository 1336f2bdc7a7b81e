//! Metadata of events and artifacts that have an effect of their own: token usage, shared state, and the speaking
//! sub-agent.
//!
//! Recognisers know the names (Google ADK: `adk_usage_metadata`, `adk_actions.stateDelta`, `adk_author`); this module
//! emits what they find, once per event, because the same metadata may arrive with the event and with its artifact.
//! The metadata are passed on with the content as well. The marks of Aqueduct's own server are decoded elsewhere
//! (`marked`).

use aqueduct_core::fingerprint::hash_text;
use aqueduct_core::{Metadata, Source, SourceEvent};
use serde_json::Value;

use super::sink::Sink;
use super::{Decoder, metadata};
use crate::config::SubAgents;
use crate::frontend::StateChange;
use crate::wire::Raw;

impl Decoder {
    /// Emits the token usage and the change of the shared state in the metadata of an event or artifact, each once.
    ///
    /// Metadata are parsed only if their JSON text contains the word: this runs for every event.
    pub(super) fn book_usage(&mut self, own: Option<&Raw<'_>>, sink: &mut Sink<'_>) {
        self.note_state(own, sink);
        let named = own.filter(|raw| raw.as_str().contains("usage")).and_then(Raw::to_object);
        let Some((key, usage)) = named.and_then(|own| self.config.recognisers.usage(&own)) else { return };
        if self.is_first(&key) {
            sink.push(SourceEvent::Usage { source: self.source.clone(), usage: Box::new(usage) });
        }
    }

    /// Emits the change of the shared state in the metadata, once per key of the event. Without a key every change
    /// counts.
    fn note_state(&mut self, own: Option<&Raw<'_>>, sink: &mut Sink<'_>) {
        let named = own.filter(|raw| raw.as_str().contains("\"state")).and_then(Raw::to_object);
        let Some((key, change)) = named.and_then(|own| self.config.recognisers.state(&own)) else { return };
        if key.is_empty() || self.is_first(&format!("{key} state")) {
            self.emit_state(change, sink);
        }
    }

    /// Returns `true` if no metadata with that key was emitted before, and records it. Metadata without a key always
    /// counts as new. The hashes are bounded by `DecodeLimits::messages`.
    fn is_first(&mut self, key: &str) -> bool {
        key.is_empty() || self.memory.spent.insert_new(hash_text(key), (), self.config.limits.messages)
    }

    /// Emits a change of the shared state, as a change by the agent of the task.
    pub(super) fn emit_state(&self, change: StateChange, sink: &mut Sink<'_>) {
        let source = self.source.clone();
        sink.push(match change {
            StateChange::Snapshot(state) => SourceEvent::StateSnapshot { source, state },
            StateChange::Delta(patch) => SourceEvent::StateDelta { source, patch },
        });
    }

    /// Returns the sub-agent that the metadata of an event or artifact name, if lanes are configured
    /// (`SubAgents::Lanes`). Returns `None` if the agent itself speaks, or if no author is named.
    ///
    /// The metadata of the artifact or message take precedence over those of the event.
    pub(super) fn speaker(&mut self, own: Option<&Raw<'_>>, beside: &Metadata) -> Option<Source> {
        if self.config.sub_agents == SubAgents::Inline {
            return None;
        }
        let event = beside.get(metadata::EVENT).and_then(Value::as_object);
        let own = own.and_then(Raw::to_object);
        let both = own.as_ref().into_iter().chain(event);
        let mut name = String::new();
        for (author, app) in both.filter_map(|metadata| self.config.recognisers.author(metadata)) {
            name = if name.is_empty() { author } else { name };
            self.memory.own_name = self.memory.own_name.take().or(app);
        }
        if name.is_empty() {
            return None;
        }
        // Without other information, the first name is that of the agent itself.
        let own_name = self.memory.own_name.get_or_insert_with(|| name.clone());
        (*own_name != name).then(|| self.source.child(name))
    }
}
