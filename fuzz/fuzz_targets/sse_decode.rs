//! The SSE decoder over any bytes: it never panics, what it gives does not depend on how the bytes were cut, and what
//! it read comes out of the encoder as it was.
#![no_main]

use aqueduct_transport_http::sse::{DecodeError, DecodeLimits, Decoder, Event, EventFields, encode_event};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

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

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let whole = decode(std::iter::once(bytes));
    assert_eq!(decode(bytes.chunks(usize::from(size).max(1))), whole);
    if let Some(text) = encoded(&whole) {
        let again = decode(std::iter::once(text.as_slice()));
        let content = |events: &Decoded| -> Vec<_> {
            events.iter().flatten().map(|event| (event.event.clone(), event.id.clone(), event.data.clone())).collect()
        };
        assert_eq!(content(&again), content(&whole));
    }
});
