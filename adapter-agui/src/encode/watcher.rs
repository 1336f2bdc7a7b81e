//! [`WatcherEncoder`]: encodes canonical events as AG-UI payloads, for one watcher of a run.
//!
//! ```text
//! BlockEvent ──View::convert──► 0..n Events ──halves──► events within MAX_DELTA ──write──► one payload each
//!                                                                   └─ not encodable: a notice (CUSTOM) instead
//! ```
//!
//! Every event yields at least one payload or is hidden by the settings: no event vanishes because
//! of its size or encoding. Framing (SSE, WebSocket messages) belongs to the transport, which
//! supplies the sink.

use aqueduct_core::service::{EventEncoder, PayloadSink};
use aqueduct_core::{BlockEvent, ByteString, ConverterSet, wellknown};
use serde_json::json;

use super::MAX_FRAME;
use crate::config::Settings;
use crate::convert::View;
use crate::error::Error;
use crate::version::Encoding;
use crate::wire::{Custom, Event};

/// The longest delta of one event, in bytes. Escaping makes a text up to six times longer (`\u0001`
/// for one byte), and clients accept at most 10 MiB at once.
const MAX_DELTA: usize = 1024 * 1024;

/// Converts and encodes events for one watcher. Its buffers are reused: a delta costs no
/// allocation.
///
/// An encoder is not shared: its view has the state of one watcher (see `has_state`), which must
/// have been fed with all events before the first one that is encoded, by `encode` or by `skip`.
#[derive(Debug)]
pub struct WatcherEncoder {
    view: View,
    encoding: Encoding,
    events: Vec<Event>,
}

impl WatcherEncoder {
    /// Returns an encoder with these converters. Without the feature `proto` all payloads are JSON.
    pub fn new(converters: ConverterSet<Event>, encoding: Encoding) -> Self {
        Self::for_view(View::from_converters(converters), encoding)
    }

    /// Returns an encoder for these settings, with the converters of this crate.
    pub fn for_settings(settings: &Settings, encoding: Encoding) -> Self {
        Self::for_view(View::new(settings), encoding)
    }

    /// Returns the encoder of a view. Without the feature `proto` every watcher gets JSON.
    fn for_view(view: View, encoding: Encoding) -> Self {
        let encoding = if cfg!(feature = "proto") { encoding } else { Encoding::Json };
        // Most events are converted to one; a list that grows from nothing has room for four.
        Self { view, encoding, events: Vec::with_capacity(1) }
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
                // An event that cannot be sent is replaced by a notice, so that it does not vanish silently.
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
                // The limit of a client includes the framing, which the transport adds.
                if size > MAX_FRAME - 64 { Err(Error::OversizedEvent { size }) } else { Ok(()) }
            }
        }
    }
}

impl EventEncoder for WatcherEncoder {
    fn encode(&mut self, event: &BlockEvent, sink: &mut dyn PayloadSink) {
        // The buffer is taken out, because `push` borrows the encoder, and put back with its capacity.
        let mut events = std::mem::take(&mut self.events);
        self.view.convert(event, &mut events);
        for event in &events {
            self.push(event, sink);
        }
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
}

/// Returns the notice that replaces an event without a form in the encoding: the watcher learns that content is missing.
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
    use aqueduct_core::testing::run_to_end;
    use aqueduct_core::{ContentBlock, SourceEvent, Update};

    use super::*;
    use crate::config::Dialect;
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

    #[test]
    fn what_cannot_be_sent_is_said() {
        let block = ContentBlock::custom("big", json!("x".repeat(MAX_FRAME)));
        let payloads = payloads(Encoding::Proto, block);
        let Event::Custom(notice) = crate::proto::decode_event(payloads[1][4..].to_vec().into()).unwrap()
        else {
            panic!()
        };
        assert_eq!(notice.name, wellknown::NOTICE);
    }
}
