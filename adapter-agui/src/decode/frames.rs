//! The framing of the protobuf encoding: four bytes of length, big-endian, and one event.

use bytes::{Buf as _, Bytes, BytesMut};

use crate::encode::MAX_FRAME;
use crate::error::Error;

/// Splits a stream into frames, whatever the boundaries of its reads. Holds at most one incomplete frame.
#[derive(Debug, Default)]
pub struct ProtoFrames {
    buffer: BytesMut,
}

/// The size of the length before a frame.
const PREFIX: usize = 4;

impl ProtoFrames {
    /// Adds bytes.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete frame, without its length. Returns `None` until more bytes arrive.
    ///
    /// # Errors
    ///
    /// Returns [`Error::FrameTooLarge`] if a frame is longer than the limit; no frame follows.
    pub fn poll_frame(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(prefix) = self.buffer.first_chunk::<PREFIX>() else { return Ok(None) };
        let length = u32::from_be_bytes(*prefix) as usize;
        if length > MAX_FRAME {
            return Err(Error::FrameTooLarge { size: length, limit: MAX_FRAME });
        }
        if self.buffer.len() < PREFIX + length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// Handles the end of the stream.
    ///
    /// # Errors
    ///
    /// Returns [`Error::CutOff`] if the stream ended inside a frame.
    pub fn handle_end(&self) -> Result<(), Error> {
        if self.buffer.is_empty() { Ok(()) } else { Err(Error::CutOff) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_however_bytes_are_cut() {
        let stream = [&[0, 0, 0, 2][..], b"ab", &[0, 0, 0, 0], &[0, 0, 0, 1], b"c"].concat();
        for size in 1..stream.len() {
            let mut frames = ProtoFrames::default();
            let mut out = Vec::new();
            for part in stream.chunks(size) {
                frames.handle_bytes(part);
                while let Some(frame) = frames.poll_frame().unwrap() {
                    out.push(frame);
                }
            }
            assert_eq!(out, [&b"ab"[..], b"", b"c"]);
            frames.handle_end().unwrap();
        }
    }

    #[test]
    fn what_is_cut_off_or_too_large_is_an_error() {
        let mut frames = ProtoFrames::default();
        frames.handle_bytes(&[0, 0, 0, 2, b'a']);
        assert!(frames.poll_frame().unwrap().is_none());
        assert!(matches!(frames.handle_end(), Err(Error::CutOff)));
        let mut frames = ProtoFrames::default();
        frames.handle_bytes(&[255, 0, 0, 0]);
        assert!(!frames.poll_frame().unwrap_err().can_continue());
    }
}
