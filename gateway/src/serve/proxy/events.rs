//! Splits a stream of server-sent events between events. The bytes are unchanged.
//!
//! A relay that holds a stream at an interrupt must decide about whole events: bytes that were already sent cannot be
//! taken back. The pieces, concatenated, are the stream; a piece is one event, one comment, or a part of an event that
//! exceeds the limit.
//!
//! ```text
//! chunks   "data: a\n"  "\ndata: b\n\n: pi"  "ng\n\n"
//! pieces   "data: a\n\n"  "data: b\n\n"  ": ping\n\n"
//! ```

use aqueduct_transport_http::{Error as HttpError, sse};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;

use super::answer::Chunks;

/// Returns the stream in pieces of one event each. An event larger than `limit` is forwarded in several pieces and not
/// decoded, so that memory is bounded.
///
/// An error ends the stream after the pieces that were complete before. Bytes after the last event are forwarded as a
/// piece of their own.
pub(super) fn by_event(chunks: Chunks, limit: usize) -> Chunks {
    let state = (chunks, Splitter { limit, ..Splitter::default() }, false);
    let next = async |(mut chunks, mut splitter, mut is_over): (Chunks, Splitter, bool)| loop {
        if let Some(event) = splitter.poll_event() {
            return Some((Ok(event), (chunks, splitter, is_over)));
        }
        if is_over {
            let rest = splitter.finish()?;
            return Some((Ok(rest), (chunks, splitter, true)));
        }
        match chunks.next().await {
            Some(Ok(chunk)) => splitter.handle_chunk(&chunk),
            Some(Err(error)) => return Some((Err(error), (chunks, splitter, true))),
            None => is_over = true,
        }
    };
    futures_util::stream::unfold(state, next).boxed()
}

/// Returns one event with that data.
///
/// Lines of `data` become `data:` lines of their own, so the text may contain any character.
pub(super) fn event(data: &str) -> Bytes {
    let mut out = Vec::new();
    sse::encode_data_with(&mut out, |out| out.extend_from_slice(data.as_bytes()));
    Bytes::from(out)
}

/// Returns the data of a piece, or `None` if it is not an event with data: a comment, an event without `data`, or a
/// part of a larger event.
pub(super) fn data_of(piece: &Bytes) -> Option<String> {
    let limits = sse::DecodeLimits { line: piece.len().max(1), event: piece.len().max(1) };
    let mut decoder = sse::Decoder::new(limits);
    decoder.handle_chunk(piece.clone());
    decoder.poll_event()?.ok().map(|event| event.data.to_string())
}

/// Returns the error of a stream that was cut.
pub(super) fn cut(reason: impl Into<String>) -> HttpError {
    HttpError::Cut { upstream: "the agent".to_owned(), reason: reason.into() }
}

/// Finds the ends of events: a line end directly after a line end.
///
/// Scans each byte once. A line ends with LF, CR or CRLF; the LF of a CRLF that ends an event is left to the next
/// piece, because it may not have arrived yet. Decoders read it as an empty line.
#[derive(Debug, Default)]
struct Splitter {
    buffer: BytesMut,
    /// The number of bytes in the buffer that were scanned.
    seen: usize,
    /// Set if the current line is not empty.
    has_text: bool,
    /// Set if the last byte was a carriage return, to which a following line feed belongs.
    after_return: bool,
    limit: usize,
}

impl Splitter {
    /// Appends bytes of the stream. Call `poll_event` until it returns `None` before the next chunk.
    fn handle_chunk(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// Returns the next complete event, or everything so far if it exceeds the limit. Returns `None` if more bytes are
    /// needed.
    fn poll_event(&mut self) -> Option<Bytes> {
        while let Some(byte) = self.buffer.get(self.seen).copied() {
            self.seen += 1;
            let is_second_half = byte == b'\n' && std::mem::take(&mut self.after_return);
            self.after_return = byte == b'\r';
            match byte {
                b'\n' | b'\r' if is_second_half => {}
                b'\n' | b'\r' if !std::mem::take(&mut self.has_text) => return Some(self.cut()),
                b'\n' | b'\r' => {}
                _ => self.has_text = true,
            }
        }
        (self.buffer.len() > self.limit).then(|| self.cut())
    }

    /// Returns the scanned bytes without copying them.
    fn cut(&mut self) -> Bytes {
        let end = std::mem::take(&mut self.seen);
        self.buffer.split_to(end).freeze()
    }

    /// Returns the bytes after the last event, once the stream has ended.
    fn finish(&mut self) -> Option<Bytes> {
        self.seen = self.buffer.len();
        Some(self.cut()).filter(|rest| !rest.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunks: &[&[u8]], limit: usize) -> Vec<String> {
        let mut splitter = Splitter { limit, ..Splitter::default() };
        let mut pieces = Vec::new();
        for chunk in chunks {
            splitter.handle_chunk(chunk);
            pieces.extend(std::iter::from_fn(|| splitter.poll_event()));
        }
        pieces.extend(splitter.finish());
        pieces.iter().map(|piece| String::from_utf8_lossy(piece).into_owned()).collect()
    }

    #[test]
    fn every_event_is_one_piece_wherever_the_stream_is_cut() {
        for (text, events) in [
            (
                "data: a\n\ndata: b\ndata: c\n\n: ping\n\n",
                vec!["data: a\n\n", "data: b\ndata: c\n\n", ": ping\n\n"],
            ),
            ("data: a\r\n\r\nid: 1\r\n\r\n", vec!["data: a\r\n\r", "\nid: 1\r\n\r", "\n"]),
            ("data: a\r\rdata: b", vec!["data: a\r\r", "data: b"]),
        ] {
            for at in 0..=text.len() {
                let (one, two) = text.as_bytes().split_at(at);
                assert_eq!(split(&[one, two], 100), events, "cut at {at}");
            }
            assert_eq!(split(&[text.as_bytes()], 100).concat(), text);
        }
    }

    #[test]
    fn an_event_without_end_is_passed_on() {
        assert_eq!(split(&[b"data: 123456789", b"0\n\n"], 8), ["data: 123456789", "0\n\n"]);
    }

    #[test]
    fn data_is_read_and_written() {
        assert_eq!(data_of(&event("{\"a\":1}")).as_deref(), Some("{\"a\":1}"));
        assert_eq!(data_of(&Bytes::from_static(b": ping\n\n")), None);
    }
}
