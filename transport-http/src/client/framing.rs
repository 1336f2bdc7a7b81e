//! The framing of an HTTP/1.1 response body, for streams whose socket was taken from hyper: chunks (RFC 9112, section 7.1),
//! or all bytes until the connection ends.
//!
//! It accepts and rejects the same input as hyper. Trailers are skipped: no client here uses them.

use http::{HeaderMap, header};

/// Bytes of chunk extensions and trailers, which are skipped: a stream of them alone must end.
const UNREAD_BYTES: usize = 16 * 1024;

/// The framing of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Chunked,
    UntilClose,
}

impl Framing {
    /// Returns the framing that the head of a response declares. Returns `None` for a body with a length, which is no stream.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut codings = headers.get_all(header::TRANSFER_ENCODING).iter();
        match (codings.next(), codings.next()) {
            (Some(coding), None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => Some(Self::Chunked),
            (None, None) if !headers.contains_key(header::CONTENT_LENGTH) => Some(Self::UntilClose),
            _ => None,
        }
    }
}

/// The framing of the body is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadFraming;

/// Removes the framing from a body, whatever the boundaries of its reads.
#[derive(Debug)]
pub(crate) struct BodyDecoder {
    state: State,
    /// Bytes that may still be skipped.
    unread: usize,
    /// Set if bytes followed the end.
    has_more: bool,
}

/// The position in the chunked framing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    UntilClose,
    Size { size: u64, digits: u8 },
    Extension { size: u64 },
    SizeEnd { size: u64 },
    Data { left: u64 },
    DataCr,
    DataLf,
    Trailer,
    TrailerLine,
    TrailerLineEnd,
    End,
    Ended,
}

impl BodyDecoder {
    /// Returns a decoder at the beginning of a body.
    pub(crate) fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::Chunked => State::Size { size: 0, digits: 0 },
            Framing::UntilClose => State::UntilClose,
        };
        Self { state, unread: UNREAD_BYTES, has_more: false }
    }

    /// Returns `true` once the end of the body was read.
    pub(crate) fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Returns `true` if the connection can carry another request.
    pub(crate) fn ends_clean(&self) -> bool {
        self.has_ended() && !self.has_more
    }

    /// Returns `true` if the body may end with the connection.
    pub(crate) fn may_end(&self) -> bool {
        matches!(self.state, State::UntilClose | State::Ended)
    }

    /// Appends the content of `bytes` to `out`.
    pub(crate) fn decode(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), BadFraming> {
        while let Some((&first, rest)) = bytes.split_first() {
            match self.state {
                State::UntilClose => {
                    out.extend_from_slice(bytes);
                    return Ok(());
                }
                State::Ended => {
                    self.has_more = true;
                    return Ok(());
                }
                State::Data { left } => {
                    let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let (data, rest) = bytes.split_at(count);
                    out.extend_from_slice(data);
                    let left = left - count as u64;
                    self.state = if left == 0 { State::DataCr } else { State::Data { left } };
                    bytes = rest;
                }
                _ => {
                    self.state = self.after(first)?;
                    bytes = rest;
                }
            }
        }
        Ok(())
    }

    /// Returns the state after one byte of framing.
    fn after(&mut self, byte: u8) -> Result<State, BadFraming> {
        Ok(match (self.state, byte) {
            (State::Size { size, digits: 1.. } | State::Extension { size }, b'\r') => State::SizeEnd { size },
            (State::Size { size, digits: 1.. }, b';' | b' ' | b'\t') => State::Extension { size },
            (State::Size { size, digits: digits @ 0..16 }, byte) => {
                let digit = char::from(byte).to_digit(16).ok_or(BadFraming)?;
                State::Size { size: size << 4 | u64::from(digit), digits: digits + 1 }
            }
            (State::SizeEnd { size: 0 } | State::TrailerLineEnd, b'\n') => State::Trailer,
            (State::SizeEnd { size }, b'\n') => State::Data { left: size },
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size { size: 0, digits: 0 },
            (State::Trailer, b'\r') => State::End,
            (State::TrailerLine, b'\r') => State::TrailerLineEnd,
            (State::End, b'\n') => State::Ended,
            (state @ State::Extension { .. }, byte) if byte != b'\n' => self.pass_over(state)?,
            (State::Trailer | State::TrailerLine, byte) if byte != b'\n' => {
                self.pass_over(State::TrailerLine)?
            }
            _ => return Err(BadFraming),
        })
    }

    /// Skips a byte of an extension or a trailer, within the limit.
    fn pass_over(&mut self, state: State) -> Result<State, BadFraming> {
        self.unread = self.unread.checked_sub(1).ok_or(BadFraming)?;
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(pieces: &[&[u8]]) -> (Result<(), BadFraming>, String, BodyDecoder) {
        let mut decoder = BodyDecoder::new(Framing::Chunked);
        let mut out = Vec::new();
        let result = pieces.iter().try_for_each(|piece| decoder.decode(piece, &mut out));
        (result, String::from_utf8(out).unwrap(), decoder)
    }

    #[test]
    fn chunks_are_read_wherever_they_are_cut() {
        let body: &[u8] =
            b"5\r\nHello\r\n00a ;x=\"y\"\r\n, \r\nworld!\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\n";
        for first in 0..=body.len() {
            for second in first..=body.len() {
                let (result, text, decoder) =
                    decoded(&[&body[..first], &body[first..second], &body[second..]]);
                assert_eq!((result, &*text), (Ok(()), "Hello, \r\nworld!"), "cut at {first} and {second}");
                assert!(decoder.ends_clean() && decoder.may_end());
            }
        }
    }

    #[test]
    fn what_comes_after_the_end_is_noticed() {
        let (result, text, decoder) = decoded(&[b"1\r\na\r\n0\r\n\r\nHTTP/1.1"]);
        assert_eq!((result, &*text), (Ok(()), "a"));
        assert!(decoder.has_ended() && !decoder.ends_clean());
    }

    #[test]
    fn a_body_that_is_cut_has_not_ended() {
        for body in ["", "5", "5\r\n", "5\r\nHell", "5\r\nHello", "5\r\nHello\r\n", "0\r\n", "0\r\nx"] {
            let (result, _, decoder) = decoded(&[body.as_bytes()]);
            assert!(result.is_ok() && !decoder.may_end(), "{body:?}");
        }
    }

    #[test]
    fn what_is_no_framing_is_refused() {
        let long = format!("1;{}", "x".repeat(UNREAD_BYTES + 1));
        let trailers = format!("0\r\n{}", "x: y\r\n".repeat(UNREAD_BYTES / 4 + 1));
        for body in [
            "\r\n",
            "x\r\n",
            "5\n",
            "5\r\nHello!",
            "5;\n",
            "1\r\na\n",
            "0\r\n\n",
            "11111111111111111\r\n",
            &long,
            &trailers,
        ] {
            assert_eq!(decoded(&[body.as_bytes()]).0, Err(BadFraming), "{body:.20?}");
        }
    }

    #[test]
    fn a_body_until_the_end_of_the_connection_is_all_there_is() {
        let mut decoder = BodyDecoder::new(Framing::UntilClose);
        let mut out = Vec::new();
        assert_eq!(decoder.decode(b"5\r\nHello", &mut out), Ok(()));
        assert!(out == b"5\r\nHello" && decoder.may_end() && !decoder.ends_clean());
    }
}
