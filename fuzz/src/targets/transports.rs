//! Decoding of bytes and headers in the transports.

use aqueduct_transport_http::EventPosition;
use aqueduct_transport_http::sse::{DecodeError, DecodeLimits, Decoder, Event, EventFields, encode_event};
use bytes::Bytes;

type Decoded = Vec<Result<Event, DecodeError>>;

fn decode<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Decoded {
    let mut decoder = Decoder::new(DecodeLimits::default());
    let mut events = Vec::new();
    for chunk in chunks {
        decoder.handle_chunk(Bytes::copy_from_slice(chunk));
        events.extend(std::iter::from_fn(|| decoder.poll_event()));
    }
    decoder.handle_eof();
    events.extend(std::iter::from_fn(|| decoder.poll_event()));
    events
}

fn encoded(events: &Decoded) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for event in events {
        let Event { event, id, data, .. } = event.as_ref().ok()?;
        let fields = EventFields { event: event.as_deref(), id: id.as_deref(), data: Some(&**data) };
        encode_event(&fields, &mut out).ok()?;
    }
    Some(out)
}

/// Decodes server-sent events; the first byte is the size of the chunks.
pub(super) fn sse(data: &[u8]) {
    let Some((size, bytes)) = data.split_first() else { return };
    let whole = decode(std::iter::once(bytes));
    assert_eq!(decode(bytes.chunks(usize::from(*size).max(1))), whole);
    if let Some(text) = encoded(&whole) {
        let again = decode(std::iter::once(text.as_slice()));
        let content = |events: &Decoded| -> Vec<_> {
            events
                .iter()
                .flatten()
                .map(|event| (event.event.clone(), event.id.clone(), event.data.clone()))
                .collect()
        };
        assert_eq!(content(&again), content(&whole));
    }
}

/// Parses messages of the WebSocket protocol.
pub(super) fn ws(data: &[u8]) {
    aqueduct_transport_ws::testing::check_message(data);
}

/// Parses a `Last-Event-ID` header.
pub(super) fn position(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some(position) = EventPosition::parse(text) {
        assert!(position.after() <= position.number);
        assert_eq!(position.number == 0, position.payloads == 0, "the start has no payloads");
    }
}
