//! Decoding of workflow events.

use aqueduct_adapter_magentic::{Config, Decoder, Lines};
use aqueduct_core::ByteString;
use bytes::Bytes;

use super::check_balanced;

/// The longest line.
const LINE: usize = 64 * 1024;

fn split(chunks: &mut dyn Iterator<Item = &[u8]>) -> Vec<Option<ByteString>> {
    let mut lines = Lines::new(LINE);
    let mut found = Vec::new();
    for chunk in chunks {
        lines.handle_bytes(Bytes::copy_from_slice(chunk));
        found.extend(std::iter::from_fn(|| lines.poll_line()).map(Result::ok));
    }
    lines.handle_eof();
    found.extend(std::iter::from_fn(|| lines.poll_line()).map(Result::ok));
    found
}

/// Decodes bytes as lines; the first byte is the size of the reads.
pub(super) fn lines(data: &[u8]) {
    let Some((size, bytes)) = data.split_first() else { return };
    let lines = split(&mut std::iter::once(bytes));
    assert_eq!(split(&mut bytes.chunks(usize::from(*size).max(1))), lines);
    let mut decoder = Decoder::new(Config::default());
    let mut events = Vec::new();
    for line in lines.into_iter().flatten() {
        decoder.handle_line(&line).ok();
        events.extend(std::iter::from_fn(|| decoder.poll_event()));
    }
    decoder.handle_eof().ok();
    events.extend(std::iter::from_fn(|| decoder.poll_event()));
    check_balanced(events);
}
