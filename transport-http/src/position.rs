//! Event ids on the wire: the position of a reader in a run, at which it can resume exactly.
//!
//! ```text
//! id: <run>.0               at the start, before any event: even an empty stream can be resumed
//! id: <run>.<number>.<k>    with the k-th payload (from 1) of event <number>
//! ```
//!
//! One canonical event may become several payloads, so the number alone would lose or repeat some of them. The run id is
//! written with `%XX` for all but visible ASCII, so no run id can forge a field of the stream or break a header. The id is
//! split at its last dots: `k` is never 0, so the two forms differ.

use std::fmt::{self, Write as _};

use aqueduct_core::RunId;

/// A position in a run: all events below `number` and the first `payloads` payloads of event `number` were received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPosition {
    /// The id of the run.
    pub run: RunId,
    /// The number of the event; 0 if none was received.
    pub number: u64,
    /// The number of its payloads that were received.
    pub payloads: u64,
}

impl EventPosition {
    /// Returns the position before the first event.
    pub fn start(run: RunId) -> Self {
        Self { run, number: 0, payloads: 0 }
    }

    /// Parses a `Last-Event-ID` header. Returns `None` if it does not have this form.
    pub fn parse(id: &str) -> Option<Self> {
        let (head, last) = id.rsplit_once('.')?;
        let last = number(last)?;
        if last == 0 {
            return Some(Self::start(unescape(head)?));
        }
        let (run, event) = head.rsplit_once('.')?;
        let event = number(event).filter(|event| *event > 0)?;
        Some(Self { run: unescape(run)?, number: event, payloads: last })
    }

    /// Returns the number after which to [`watch`](aqueduct_core::service::RunService::watch): an event that was received in
    /// part is sent again without the received payloads.
    pub fn after(&self) -> u64 {
        self.number.saturating_sub(1)
    }
}

impl fmt::Display for EventPosition {
    /// Writes the id, which [`EventPosition::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.payloads {
            0 => write!(f, "{}.0", escape(&self.run)),
            payloads => write!(f, "{}.{}.{payloads}", escape(&self.run), self.number),
        }
    }
}

/// Returns the run id in its escaped form.
pub(crate) fn escape(run: &RunId) -> String {
    let mut escaped = String::with_capacity(run.as_str().len());
    for byte in run.as_str().bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            write!(escaped, "%{byte:02X}").ok();
        }
    }
    escaped
}

/// Decodes a percent-encoded run id. Returns `None` if it is malformed.
fn unescape(escaped: &str) -> Option<RunId> {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let (high, low) = (hex(rest.next()?)?, hex(rest.next()?)?);
            bytes.push(high << 4 | low);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().map(RunId::from)
}

/// Returns the value of a hexadecimal digit.
fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// Parses decimal digits alone: `u64::from_str` would accept a sign.
fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn position(run: &str, number: u64, payloads: u64) -> EventPosition {
        EventPosition { run: RunId::from(run), number, payloads }
    }

    #[test]
    fn ids_are_read_back() {
        assert_eq!(EventPosition::parse("run.0"), Some(position("run", 0, 0)));
        assert_eq!(EventPosition::parse("run.12.3"), Some(position("run", 12, 3)));
        assert_eq!(EventPosition::parse("a.5.0"), Some(position("a.5", 0, 0)));
        assert_eq!(EventPosition::parse("a.b.5.1"), Some(position("a.b", 5, 1)));
        assert_eq!(EventPosition::parse("a%0Ab.5.1"), Some(position("a\nb", 5, 1)));
        for id in ["run.0", "run.12.3", "a.5.0", "a%0Ab.5.1"] {
            assert_eq!(EventPosition::parse(id).unwrap().to_string(), id);
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        for bad in [
            "", "run", "run.x", "run.0.1", "run.1", "run.1.", "run.+1.1", "run.1.-1", "%zz.0", "%e.0",
            "%FF.0",
        ] {
            assert_eq!(EventPosition::parse(bad), None, "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_run_survives(run in any::<String>(), number in 1_u64.., payloads in 1_u64..) {
            let escaped = escape(&RunId::from(&*run));
            prop_assert!(escaped.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(EventPosition::parse(&format!("{escaped}.{number}.{payloads}")), Some(position(&run, number, payloads)));
            prop_assert_eq!(EventPosition::parse(&format!("{escaped}.0")), Some(position(&run, 0, 0)));
        }
    }
}
