//! Decodes status updates, and messages beside them: intermediate text, tool notices, interrupts, the end.
//!
//! ```text
//!   status ──► has a mark of Aqueduct's server ──────────► `marked`
//!          ──► live, no message, notices in metadata ────► tool calls and results
//!          ──► unknown state, or metadata alone ─────────► custom block `a2a.status`, then as below
//!                submitted, working, unknown ────────────► `speech`: text of the answer, or a notice
//!                input-required, auth-required ──────────► `question`: interrupts
//!                completed, failed, rejected, canceled ──► `ending`
//! ```
//!
//! `final` of 0.3 has no effect: servers set it differently, and the state alone decides. This module does not decide
//! whether a status text is a fragment of the answer; `speech` does.

use aqueduct_core::fingerprint::hash_text;
use aqueduct_core::{ByteString, Channel, Metadata, Mode, Source, Timestamp, Track};
use serde_json::{Value, json};

use super::marked::MessageOrigin;
use super::memory::Novelty;
use super::parts::UpdateTarget;
use super::sink::Sink;
use super::speech::StatusText;
use super::{AtEnd, Decoder, Settled, metadata};
use crate::recognise::Sign;
use crate::wire::{Message, Part, Raw, StateClass, StatusUpdate, TaskState, TaskStatus, Text, time};
use aqueduct_core::ContentBlock;

/// Name of the custom block that contains an unknown state, or the metadata of a status without a message.
///
/// ```text
/// {"state": "TASK_STATE_PAUSED", "metadata": {"until": "noon"}, "unknown": {"mood": "calm"}}
/// ```
pub(super) const STATUS: &str = "a2a.status";

impl Decoder {
    /// Decodes a change of the status: the wrapper's ids, metadata and unknown members, then the status itself.
    ///
    /// Token usage and shared state in the wrapper's metadata are emitted before the text, and independently of the
    /// state.
    pub(super) fn status_update(&mut self, update: StatusUpdate<'_>, sink: &mut Sink<'_>) {
        self.record_task(&update.task_id, &update.context_id, sink);
        let mut beside = Metadata::new();
        metadata::put_event(&mut beside, update.metadata.as_ref());
        self.book_usage(update.metadata.as_ref(), sink);
        if !update.extra.is_empty() {
            beside.insert(metadata::UNKNOWN.to_owned(), Value::Object(update.extra.to_values().collect()));
        }
        self.status(update.status, beside, true, sink);
    }

    /// Decodes the status of a live update (`live`) or of a complete task.
    ///
    /// `beside` has the metadata and unknown members of the wrapper, under the keys of [`metadata`]. A state that
    /// this version does not know is `Active`: it is shown as [`STATUS`] and ends nothing.
    pub(super) fn status(
        &mut self,
        status: TaskStatus<'_>,
        beside: Metadata,
        live: bool,
        sink: &mut Sink<'_>,
    ) {
        let TaskStatus { state, message, timestamp, .. } = status;
        let origin = if live { MessageOrigin::Live } else { MessageOrigin::Snapshot };
        let ends_turn = state.class() != StateClass::Active;
        if self.reads_marks()
            && let Some(message) = &message
            && self.marked_message(message, origin, ends_turn, sink)
        {
            return;
        }
        let created_at = time::parse(&timestamp);
        let wordless = message.is_none();
        // Only of a live update: a complete task repeats its latest status, and the notice would be emitted once
        // more.
        if wordless && live && self.wordless_notices(&beside, created_at, sink) {
            return;
        }
        // Neither an unknown state nor metadata without text may be dropped.
        if matches!(state, TaskState::Other(_)) || (wordless && !beside.is_empty()) {
            self.show_status(&state, &beside, created_at, live, sink);
        }
        match state.class() {
            StateClass::Active => {
                let speaker =
                    message.as_ref().and_then(|message| self.speaker(message.metadata.as_ref(), &beside));
                let beside = super::shared(beside);
                let status_text =
                    |message| StatusText { live, ..StatusText::new(message, beside, timestamp) };
                self.work_on(message.map(status_text).as_mut(), speaker, sink);
            }
            StateClass::Interrupted => self.ask(&state, message, beside, created_at, sink),
            StateClass::Terminal => self.conclude(&state, message, beside, created_at, live, sink),
        }
    }

    /// Handles a status of a task that works. The text belongs to `speaker`, a sub-agent that the metadata name, or
    /// to the agent itself.
    ///
    /// Input after an interrupt means that the agent continues: a held repetition is dropped, and the end of the
    /// stream is a cut again. Also called with texts that were read by a template (`known`), which is why the speaker
    /// is an argument.
    pub(super) fn work_on(
        &mut self,
        status_text: Option<&mut StatusText<'_>>,
        speaker: Option<Source>,
        sink: &mut Sink<'_>,
    ) {
        self.go_on();
        let Some(status_text) = status_text else { return };
        // Everything that is emitted below takes its source from the decoder, so the source is exchanged for the
        // duration of the call.
        let own = speaker.map(|speaker| std::mem::replace(&mut self.source, speaker));
        self.stream_text(status_text, sink);
        if let Some(own) = own {
            self.source = own;
        }
    }

    /// Emits an unknown state, or the metadata of a status without a message, as the custom block [`STATUS`].
    ///
    /// A snapshot that repeats the last block emits nothing: each read of a task that is polled would look like
    /// progress.
    fn show_status(
        &mut self,
        state: &TaskState<'_>,
        beside: &Metadata,
        at: Option<Timestamp>,
        live: bool,
        sink: &mut Sink<'_>,
    ) {
        let mut value = json!({"state": state.v03_name()});
        if let Some(object) = value.as_object_mut() {
            for (key, name) in [(metadata::EVENT, "metadata"), (metadata::UNKNOWN, "unknown")] {
                if let Some(beside) = beside.get(key) {
                    object.insert(name.to_owned(), beside.clone());
                }
            }
        }
        let shown = Some(hash_text(&value.to_string()));
        if std::mem::replace(&mut self.shown_status, shown) == shown && !live {
            return;
        }
        let block = ContentBlock::custom(ByteString::from_static(STATUS), value);
        let mut update = self.update(block, Channel::Intermediate);
        update.created_at = at;
        sink.push(update);
    }

    /// Emits the notices in the metadata of a status without a message. Returns `false` if there are none.
    ///
    /// Agno reports tool calls this way:
    ///
    /// ```text
    /// {"state": "working"}
    /// metadata {"agno_event_type": "tool_call_started", "tool_name": "weather", "tool_call_id": "c1"}
    /// ```
    ///
    /// Such a status has no message id, so each notice gets the id `status-N`.
    fn wordless_notices(&mut self, beside: &Metadata, at: Option<Timestamp>, sink: &mut Sink<'_>) -> bool {
        let Some(event) = beside.get(metadata::EVENT).and_then(Value::as_object) else { return false };
        let signs = self.config.recognisers.status_text("", Some(event));
        if signs.is_empty() {
            return false;
        }
        // A tool call ends the text before it: held texts were notices, and later text begins another block.
        self.release(sink);
        self.speech.end();
        for sign in signs {
            let id = ByteString::from(format!("status-{}", self.memory.next()));
            let mut place = self.shown_target(id.clone());
            place.created_at = at;
            self.emit_sign(sign, "", &id, beside.clone(), &place, sink);
        }
        true
    }

    /// Emits a message as a separate text, unless it was received before or consists of notices.
    ///
    /// Repetitions are detected by the message id; a live message without an id is always new (`Messages::note`).
    /// They are counted (`Counts::repeated`) and have no other effect.
    pub(super) fn say(
        &mut self,
        message: Message<'_>,
        beside: Metadata,
        created_at: Option<Timestamp>,
        channel: Channel,
        live: bool,
        sink: &mut Sink<'_>,
    ) {
        let text = joined_text(&message.parts);
        let novelty = self.memory.messages.note(&message, &text, live, &self.config.limits);
        if novelty == Novelty::Repeated {
            self.counts.repeated += 1;
            return;
        }
        self.emit_noted(message, novelty, beside, created_at, channel, sink);
    }

    /// As [`say`](Self::say), for a message that is recorded already and whose novelty is known.
    ///
    /// A message that grew under its id (`Novelty::Extended`) is emitted as a snapshot, of which the stream machine
    /// shows the added part.
    pub(super) fn emit_noted(
        &mut self,
        message: Message<'_>,
        novelty: Novelty,
        beside: Metadata,
        created_at: Option<Timestamp>,
        channel: Channel,
        sink: &mut Sink<'_>,
    ) {
        let text = joined_text(&message.parts);
        let mut place = UpdateTarget {
            source: self.source.clone(),
            message_id: self.message_place(&message, novelty, sink),
            track: Track::MAIN,
            channel,
            created_at,
            metadata: metadata::of_message(&message),
            last: true,
        };
        place.metadata.extend(beside);
        let recognised = self.emit_notices(&message, &text, &mut place, sink);
        // A task that completes without any answer has its last status text as the answer: see `promote`.
        if !recognised && channel == Channel::Intermediate && !text.trim().is_empty() {
            self.last_status = Some(match &text {
                Joined::One(text) => sink.share_str(text),
                Joined::Many(text) => ByteString::from(text.as_str()),
            });
        }
        if novelty == Novelty::Extended && !recognised {
            self.emit_whole(&message.parts, Mode::Snapshot, &mut place, sink);
        } else {
            self.emit_parts(message.parts, &mut place, recognised, sink);
        }
    }

    /// Emits the notices that the text of a message consists of. Returns `false` if it is not made of notices.
    ///
    /// ```text
    /// message "m": "🔧 Calling tool: **a**\n🔧 Calling tool: **b**"  ──►  call "m" of a, call "m#1" of b
    /// ```
    ///
    /// Each line with text is one notice, in the order of the lines. The message's metadata belong to the first.
    fn emit_notices(
        &mut self,
        message: &Message<'_>,
        text: &str,
        place: &mut UpdateTarget,
        sink: &mut Sink<'_>,
    ) -> bool {
        let own = message.metadata.as_ref().and_then(Raw::to_object);
        let signs = self.notices(text, own.as_ref());
        if signs.is_empty() {
            return false;
        }
        let several = signs.len() > 1;
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        for (at, sign) in signs.into_iter().enumerate() {
            let id = match at {
                0 => place.message_id.clone(),
                _ => ByteString::from(format!("{}#{at}", place.message_id)),
            };
            // The text of an end is its result, if the agent reports no output: only its own line.
            let words = if several { lines.next().unwrap_or_default() } else { text };
            let beside = if at == 0 { std::mem::take(&mut place.metadata) } else { Metadata::new() };
            self.emit_sign(sign, words, &id, beside, place, sink);
        }
        true
    }

    /// Returns the notices that a message with that text and metadata consists of; none if it contains anything else.
    ///
    /// An end that may be about something else than a tool ("✅ Deployment completed") counts only if a call with that
    /// name or id is open; otherwise the whole message is text.
    pub(super) fn notices(&self, text: &str, own: Option<&Metadata>) -> Vec<Sign> {
        let signs = self.config.recognisers.status_text(text, own);
        let doubtful = |sign: &Sign| match sign {
            Sign::ToolEnded(end) => end.uncertain && !self.calls.has_named(end),
            _ => false,
        };
        if signs.iter().any(doubtful) { Vec::new() } else { signs }
    }

    /// Returns the id of a message in this stream: its own id; `status-N` without one; `<id>#N` if the id had another
    /// text before, which must not be appended to or replaced.
    ///
    /// Other clients of the task may count differently: `is_made_id` recognises these forms when logs are compared.
    pub(super) fn message_place(
        &mut self,
        message: &Message<'_>,
        novelty: Novelty,
        sink: &Sink<'_>,
    ) -> ByteString {
        match (message.message_id.set(), novelty) {
            (None, _) => ByteString::from(format!("status-{}", self.memory.next())),
            (Some(id), Novelty::Changed) => ByteString::from(format!("{id}#{}", self.memory.next())),
            (Some(id), _) => sink.share_str(id),
        }
    }

    /// Handles a message that is the payload itself, not part of a status.
    ///
    /// As the first item, or on a stream without a task, the message is the complete answer and ends the turn
    /// (specification 3.1.2: exactly one message, then the stream closes). On the stream of a task it is part of the
    /// answer.
    pub(super) fn bare_message(&mut self, message: Message<'_>, sink: &mut Sink<'_>) {
        let on_task = !self.memory.task_id.is_empty() && !self.is_first;
        if self.memory.context_id.is_empty() {
            self.memory.context_id = ByteString::from(message.context_id.as_str());
        }
        if !self.source.is_root() && self.is_first {
            sink.push(aqueduct_core::SourceEvent::LaneOpened(self.source.clone()));
        }
        if on_task {
            let mut message = StatusText::new(message, None, Text::default());
            message.is_bare = true;
            return self.message_on_task(&mut message, sink);
        }
        self.say(message, Metadata::new(), None, Channel::Answer, true, sink);
        self.finish(Settled::Completed, sink.out);
    }

    /// Handles a message on the stream of a task: part of the answer.
    ///
    /// Agno streams this way: many messages with one id, each a delta, then `completed`. Other agents send one
    /// message and close the stream without a final state, so from here on the end of the stream completes the turn
    /// (`AtEnd::Answered`).
    pub(super) fn message_on_task(&mut self, message: &mut StatusText<'_>, sink: &mut Sink<'_>) {
        self.at_end = AtEnd::Answered;
        self.stream_text(message, sink);
    }
}

/// The text of several parts; borrowed if there is only one, which is the usual case and needs no allocation.
pub(super) enum Joined<'t> {
    /// The text of the only text part; empty if there is none.
    One(&'t str),
    /// The concatenation of at least two text parts.
    Many(String),
}

impl std::ops::Deref for Joined<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::One(text) => text,
            Self::Many(text) => text,
        }
    }
}

/// Returns the text of all parts, joined without separator: agents split a text at any byte, also inside of a word.
/// Parts that are not text are skipped.
pub(super) fn joined_text<'t>(parts: &'t [Part<'_>]) -> Joined<'t> {
    let mut texts = parts.iter().filter_map(Part::as_text).map(Text::as_str);
    match (texts.next(), texts.next()) {
        (None, _) => Joined::One(""),
        (Some(text), None) => Joined::One(text),
        (Some(first), Some(second)) => Joined::Many([first, second].into_iter().chain(texts).collect()),
    }
}

/// Returns the parts that are not text, as 1.0 JSON, for the frontend that shows an interrupt.
pub(super) fn other_parts(parts: &[Part<'_>]) -> Vec<Value> {
    let others = parts.iter().filter(|part| part.as_text().is_none());
    others.map(|part| part.to_json(crate::wire::Dialect::V1)).collect()
}

/// Returns the JSON schema of the reply that the data parts of an interrupt contain: the first object under one of
/// three names. Returns `None` if there is none; the reply is then free text.
pub(super) fn response_schema(parts: &[Part<'_>]) -> Option<Value> {
    parts.iter().filter_map(Part::data_value).find_map(|data| {
        let keys = ["responseSchema", "response_schema", "schema"];
        keys.iter().find_map(|key| data.get(*key).filter(|schema| schema.is_object()).cloned())
    })
}

/// Returns the metadata of a raw object; empty if there is none, or if the value is not an object.
pub(super) fn raw_metadata(raw: Option<&Raw<'_>>) -> Metadata {
    raw.and_then(Raw::to_object).unwrap_or_default()
}
