//! [`WatcherEncoder`]: encodes canonical events as AG-UI payloads, for one watcher of a run.
//!
//! ```text
//! BlockEvent ──View::convert──► 0..n Events ──halves──► events within MAX_DELTA ──write──► one payload each
//!        │                                                          └─ not encodable: a notice (CUSTOM) instead
//!        └─ a delta of the same block as the one before ──DeltaTemplate──► one payload
//! ```
//!
//! Every event yields at least one payload or is hidden by the settings: no event vanishes because
//! of its size or encoding. Framing (SSE, WebSocket messages) belongs to the transport, which
//! supplies the sink.

use std::sync::Arc;

use aqueduct_core::service::{EventEncoder, PayloadSink};
use aqueduct_core::{BlockEvent, ByteString, ConverterSet, wellknown};
use serde_json::json;

use super::MAX_FRAME;
use super::delta::DeltaTemplate;
use crate::config::Settings;
use crate::convert::View;
use crate::error::Error;
use crate::version::Encoding;
use crate::wire::{Custom, Event};

/// The longest delta of one event, in bytes. Escaping makes a text up to six times longer (`\u0001`
/// for one byte), and clients accept at most 10 MiB at once.
pub(super) const MAX_DELTA: usize = 1024 * 1024;

/// Converts and encodes events for one watcher. Its buffers are reused: a delta costs no allocation.
///
/// An encoder belongs to one watcher. If [`has_state`](EventEncoder::has_state) returns `true`, every event of the run must
/// pass through the encoder in order: events that the watcher already has through [`skip`](EventEncoder::skip), the others
/// through [`encode`](EventEncoder::encode).
#[derive(Debug)]
pub struct WatcherEncoder {
    view: View,
    encoding: Encoding,
    events: Vec<Event>,
    /// The template of the block whose deltas were encoded last; `None` until its second delta, because a block of one is
    /// not worth it.
    template: Option<Box<DeltaTemplate>>,
    /// The address of the head of the last delta's block.
    last_block: usize,
}

impl WatcherEncoder {
    /// Returns an encoder with these converters and no state. Without the feature `proto` all payloads are JSON.
    pub fn new(converters: ConverterSet<Event>, encoding: Encoding) -> Self {
        Self::for_view(View::from_converters(converters), encoding)
    }

    /// Returns an encoder for these settings, with the converters of this crate.
    pub fn for_settings(settings: &Settings, encoding: Encoding) -> Self {
        Self::for_view(View::new(settings), encoding)
    }

    /// Returns the encoder of a view.
    fn for_view(view: View, encoding: Encoding) -> Self {
        let encoding = if cfg!(feature = "proto") { encoding } else { Encoding::Json };
        // Most events are converted to one; a list that grows from nothing has room for four.
        Self { view, encoding, events: Vec::with_capacity(1), template: None, last_block: 0 }
    }

    /// Learns the template of a delta that was converted to `events`, if it is the second of its block.
    fn learn(&mut self, event: &BlockEvent, events: &[Event]) {
        let BlockEvent::BlockDelta { block, .. } = event else { return };
        let is_json = self.encoding != Encoding::Proto;
        let address = Arc::as_ptr(block).addr();
        let is_second = std::mem::replace(&mut self.last_block, address) == address;
        if is_second && is_json && self.view.converts_deltas_alike(block) {
            self.template = DeltaTemplate::learn(event, events).map(Box::new);
        }
    }

    /// Encodes an event. A delta above [`MAX_DELTA`] is split in halves, recursively; an event that
    /// cannot be encoded becomes a notice. One call of the sink is one payload.
    fn push(&self, event: &Event, sink: &mut dyn PayloadSink) {
        if let Some((first, second)) = halves(event) {
            self.push(&first, sink);
            self.push(&second, sink);
            return;
        }
        sink.push(&mut |out| {
            let start = out.len();
            if let Err(error) = self.write(event, out) {
                out.truncate(start);
                let written = self.write(&notice(event, &error), out);
                debug_assert!(written.is_ok(), "a notice is small and has a form in every encoding");
            }
        });
    }

    /// Appends one event in the encoding of the watcher.
    fn write(&self, event: &Event, out: &mut Vec<u8>) -> Result<(), Error> {
        match self.encoding {
            #[cfg(feature = "proto")]
            Encoding::Proto => super::proto_frame(event, out),
            _ => {
                let start = out.len();
                super::json(event, out)?;
                let size = out.len() - start;
                // The client's limit includes the framing that the transport adds: 64 bytes are reserved for it.
                if size > MAX_FRAME - 64 { Err(Error::OversizedEvent { size }) } else { Ok(()) }
            }
        }
    }
}

impl EventEncoder for WatcherEncoder {
    fn encode(&mut self, event: &BlockEvent, sink: &mut dyn PayloadSink) {
        if self.template.as_ref().is_some_and(|template| template.write(event, sink)) {
            return;
        }
        // `push` borrows the encoder, so the buffer is moved out and back; it keeps its capacity.
        let mut events = std::mem::take(&mut self.events);
        self.view.convert(event, &mut events);
        for event in &events {
            self.push(event, sink);
        }
        self.learn(event, &events);
        events.clear();
        self.events = events;
    }

    fn media_type(&self) -> &'static str {
        self.encoding.media_type()
    }

    fn is_binary(&self) -> bool {
        self.encoding == Encoding::Proto
    }

    fn has_state(&self) -> bool {
        self.view.has_state()
    }

    fn skip(&mut self, event: &BlockEvent) {
        self.view.skip(event);
    }

    fn can_merge(&self, merged: &BlockEvent) -> bool {
        let is_long = matches!(merged, BlockEvent::BlockDelta { delta, .. } if delta.len() > MAX_DELTA);
        !self.has_state() || (!is_long && self.view.can_merge(merged))
    }
}

/// Returns the notice that replaces an event that cannot be encoded, so that the missing content is visible to the watcher.
fn notice(event: &Event, error: &Error) -> Event {
    Event::Custom(Custom {
        name: ByteString::from_static(wellknown::NOTICE),
        value: json!({ "text": format!("{} was left out: {error}", event.kind()), "level": "error" }),
        subagent_run_id: event.subagent_run_id().cloned(),
        ..Custom::default()
    })
}

/// Splits a delta that is too long for one event into two events of the same block. Returns `None`
/// for an event that fits and for one that is not a delta. Both halves share the bytes of the text.
fn halves(event: &Event) -> Option<(Event, Event)> {
    let delta = match event {
        Event::TextMessageContent(event) => &event.delta,
        Event::ReasoningMessageContent(event) => &event.delta,
        Event::ToolCallArgs(event) => &event.delta,
        _ => return None,
    };
    if delta.len() <= MAX_DELTA {
        return None;
    }
    let middle = (0..=delta.len() / 2).rev().find(|at| delta.is_char_boundary(*at))?;
    let (first, second) = delta.split_at_checked(middle)?;
    let with = |part: &str| {
        let mut event = event.clone();
        let part = delta.slice_ref(part);
        match &mut event {
            Event::TextMessageContent(event) => event.delta = part,
            Event::ReasoningMessageContent(event) => event.delta = part,
            Event::ToolCallArgs(event) => event.delta = part,
            _ => {}
        }
        event
    };
    Some((with(first), with(second)))
}

#[cfg(test)]
mod tests {
    use aqueduct_core::service::NumberedEvent;
    use aqueduct_core::testing::run_to_end;
    use aqueduct_core::{Coalescer, ContentBlock, Source, SourceEvent, Update};

    use super::*;
    use crate::config::{Dialect, Subagents};
    use crate::convert::converters;
    use crate::wire::Strictness;

    #[derive(Default)]
    struct Payloads(Vec<Vec<u8>>);

    impl PayloadSink for Payloads {
        fn push(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
            let mut payload = Vec::new();
            write(&mut payload);
            self.0.push(payload);
        }
    }

    fn payloads(encoding: Encoding, block: ContentBlock) -> Vec<Vec<u8>> {
        let mut encoder = WatcherEncoder::new(converters(&Settings::new(Dialect::V1_0)), encoding);
        let mut sink = Payloads::default();
        for event in run_to_end([SourceEvent::from(Update::new(block))]) {
            encoder.encode(&event, &mut sink);
        }
        sink.0
    }

    fn read(payload: &[u8]) -> Event {
        Event::from_json(std::str::from_utf8(payload).unwrap(), Strictness::Strict).unwrap()
    }

    #[test]
    fn one_payload_per_event_in_either_encoding() {
        let kinds =
            ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_ERROR"];
        let json: Vec<_> =
            payloads(Encoding::Json, ContentBlock::text("hi")).iter().map(|p| read(p)).collect();
        assert_eq!(json.iter().map(Event::kind).collect::<Vec<_>>(), kinds);
        for (payload, event) in payloads(Encoding::Proto, ContentBlock::text("hi")).into_iter().zip(json) {
            let mut frame = Vec::new();
            super::super::proto_frame(&event, &mut frame).unwrap();
            assert_eq!(payload, frame);
        }
    }

    #[test]
    fn a_long_delta_is_sent_in_pieces() {
        let text = "é\n".repeat(MAX_DELTA);
        let payloads = payloads(Encoding::Json, ContentBlock::text(text.as_str()));
        let mut whole = String::new();
        for payload in &payloads {
            assert!(payload.len() < MAX_FRAME);
            if let Event::TextMessageContent(content) = read(payload) {
                whole.push_str(&content.delta);
            }
        }
        assert!(whole == text);
    }

    /// Payloads of a watcher that is behind from the third event on, and of one that is not.
    fn payloads_of(subagents: Subagents, texts: &[String], merge_bytes: usize) -> [Vec<Vec<u8>>; 2] {
        let agent = Source::root().child("a").named("researcher");
        let updates =
            texts.iter().map(|text| Update::text(text.as_str()).from_source(&agent).in_message("m"));
        let events = run_to_end(updates.map(SourceEvent::from));
        [merge_bytes, 0].map(|merge_bytes| {
            let settings = Settings::new(Dialect::V1_0).with_subagents(subagents);
            let mut encoder = WatcherEncoder::for_settings(&settings, Encoding::Json);
            let (mut sink, mut waiting) = (Payloads::default(), Coalescer::default());
            let mut send = |waiting: &mut Coalescer| {
                let Some(gathered) = waiting.take() else { return };
                match gathered.merged().filter(|merged| encoder.can_merge(&merged.event)) {
                    Some(merged) => {
                        let before = sink.0.len();
                        encoder.encode(&merged.event, &mut sink);
                        assert!(sink.0.len() <= before + 1, "a merged delta has no positions of its own");
                    }
                    None => gathered.parts().for_each(|part| encoder.encode(&part.event, &mut sink)),
                }
            };
            for (number, event) in (1..).zip(events.clone()) {
                if let Some(event) = waiting.handle_event(NumberedEvent { number, event }, merge_bytes) {
                    send(&mut waiting);
                    waiting.handle_event(event, merge_bytes);
                }
            }
            send(&mut waiting);
            sink.0
        })
    }

    fn text_of(payloads: &[Vec<u8>]) -> String {
        let text = |payload: &Vec<u8>| match read(payload) {
            Event::TextMessageContent(content) => content.delta.to_string(),
            Event::ToolCallResult(result) => format!("{:?}", result.content),
            _ => String::new(),
        };
        payloads.iter().map(text).collect()
    }

    /// The positions of held texts are those of the event that releases them, however the watcher got there.
    #[test]
    fn held_answers_are_the_same_for_a_watcher_that_is_behind() {
        for count in [300, 1100] {
            let texts: Vec<String> = (0..count).map(|at| format!("{at:01024}")).collect();
            let [behind, prompt] = payloads_of(Subagents::Hidden, &texts, 4096);
            assert!(text_of(&behind) == texts.concat(), "{count} texts");
            let held = texts.len().min(MAX_DELTA / 1024);
            assert!(behind[..held] == prompt[..held], "{count} texts");
        }
    }

    #[test]
    fn texts_in_results_are_the_same_for_a_watcher_that_is_behind() {
        let texts = [0, 1, 2].map(|at: u8| at.to_string().repeat(500_000));
        let [behind, prompt] = payloads_of(Subagents::Tool, &texts, 2 * MAX_DELTA);
        assert!(text_of(&behind) == text_of(&prompt));
    }

    #[test]
    fn deltas_by_template_are_those_of_the_converters() {
        let agent = Source::root().child("a").named("researcher");
        let pieces = |update: fn(&'static str) -> Update| {
            ["Let ", "me \"look\"\n", "", "there", "é"].map(|piece| update(piece).in_message("m"))
        };
        let kinds: [fn(&'static str) -> Update; 3] =
            [Update::text, Update::thinking, |piece| Update::text(piece).intermediate()];
        let updates = [Source::root(), agent.clone(), Source::root(), agent].into_iter().flat_map(|source| {
            kinds.into_iter().flat_map(pieces).map(move |update| update.from_source(&source))
        });
        let events = run_to_end(updates.map(SourceEvent::from));
        let subagents =
            [Subagents::Attributed, Subagents::Inline, Subagents::Tool, Subagents::Hidden].into_iter();
        for settings in subagents.flat_map(|shown| {
            [Settings::new(Dialect::V1_0), Settings::for_declared(None)].map(|s| s.with_subagents(shown))
        }) {
            let mut encoder = WatcherEncoder::for_settings(&settings, Encoding::Json);
            let (mut sink, mut view, mut converted) = (Payloads::default(), View::new(&settings), Vec::new());
            for event in &events {
                encoder.encode(event, &mut sink);
                view.convert(event, &mut converted);
            }
            let converted = converted.iter().map(|event| serde_json::to_value(event).unwrap());
            let payloads = sink.0.iter().map(|payload| serde_json::from_slice(payload).unwrap());
            assert_eq!(
                payloads.collect::<Vec<serde_json::Value>>(),
                converted.collect::<Vec<_>>(),
                "{settings:?}"
            );
            assert!(encoder.template.is_some());
        }
    }

    #[test]
    fn an_event_that_cannot_be_encoded_becomes_a_notice() {
        let block = ContentBlock::custom("big", json!("x".repeat(MAX_FRAME)));
        let payloads = payloads(Encoding::Proto, block);
        let Event::Custom(notice) = crate::proto::decode_event(payloads[1][4..].to_vec().into()).unwrap()
        else {
            panic!()
        };
        assert_eq!(notice.name, wellknown::NOTICE);
    }
}
