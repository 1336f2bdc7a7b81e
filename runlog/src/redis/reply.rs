//! Decoding of the server's answers.
//!
//! | sent by | form | decoded by |
//! |---|---|---|
//! | most scripts | `[word, value…]` | `Reply` |
//! | the append script | one line per run: `ok 12`, `behind 7`, `fenced` | `Appended` |
//! | `HMGET` on the hash of a run | the fields of `STATE` | `state` |
//! | notifications | `E 12 1 2,0,3\n` and the payloads; `H 7 0`, `T 3 7`, `C 2` | `Notification` |
//!
//! An answer of another form is an error of the server's (`strange`), never a panic.

use std::collections::HashMap;
use std::sync::Arc;

use ::redis::{FromRedisValue, Value};
use aqueduct_core::service::NumberedEvent;
use aqueduct_core::{BlockEvent, RunId, ThreadId, Timestamp};
use bytes::Bytes;

use super::link::{strange, unavailable};
use crate::codec::{CodecError, Decoder, decode_value};
use crate::error::LogError;
use crate::log::{RunMeta, RunState};

/// The answer of a script: a word, then its values.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) word: String,
    rest: std::vec::IntoIter<Value>,
}

impl FromRedisValue for Reply {
    fn from_redis_value(value: Value) -> Result<Self, ::redis::ParsingError> {
        let mut rest = Vec::<Value>::from_redis_value(value)?.into_iter();
        let word = String::from_redis_value(rest.next().unwrap_or_default())?;
        Ok(Self { word, rest })
    }
}

impl Reply {
    /// Returns the next value of the answer.
    /// A missing value is read as nil, which is an error for all types but `Option`.
    pub(super) fn next<T: FromRedisValue>(&mut self) -> Result<T, LogError> {
        let part = self.rest.next().unwrap_or_default();
        T::from_redis_value(part).map_err(|error| unavailable(&error.into()))
    }

    /// Returns the error of an unsuccessful answer for this run.
    pub(super) fn refusal(&self, run: &RunId, epoch: u64) -> LogError {
        refusal(&self.word, run, epoch)
    }
}

/// Returns the error that a word of a script stands for.
pub(super) fn refusal(word: &str, run: &RunId, epoch: u64) -> LogError {
    match word {
        "missing" => LogError::NotFound(run.clone()),
        "exists" => LogError::Exists(run.clone()),
        "closed" => LogError::Closed(run.clone()),
        "fenced" => LogError::Fenced { run: run.clone(), epoch },
        _ => strange(&[]),
    }
}

/// The answer to one append: a line of the script's answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// The events are in the log; the number of the last one.
    Head(u64),
    /// The log ends before the last acknowledged event, at that number.
    Behind(u64),
    /// The events are not in the log.
    Refused(String),
}

impl Appended {
    /// Decodes a line. Returns `None` if it is invalid.
    pub(super) fn read(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            Some(("ok", number)) => number.parse().ok().map(Self::Head),
            Some(("behind", number)) => number.parse().ok().map(Self::Behind),
            Some(_) => None,
            None => Some(line.to_owned()).filter(|word| !word.is_empty()).map(Self::Refused),
        }
    }
}

/// Decodes the entries of a stream into at most `max` events. The number of an event is the second
/// half of its id (`<epoch>-<number>`). A fence has number 0 and is skipped.
pub(super) fn events(
    run: &RunId,
    entries: Vec<(String, Vec<Vec<u8>>)>,
    max: usize,
) -> Result<Vec<NumberedEvent>, LogError> {
    let mut decoder = Decoder::default();
    let numbered = entries.into_iter().filter_map(|(id, fields)| {
        let number: u64 = id.split_once('-')?.1.parse().ok()?;
        Some((number, fields.into_iter().nth(1)?)).filter(|(number, _)| *number > 0)
    });
    let decode = |(number, bytes): (u64, Vec<u8>)| {
        let event: Result<BlockEvent, CodecError> = decoder.decode(Bytes::from(bytes));
        let event =
            event.map_err(|error| LogError::Unreadable { run: run.clone(), what: error.to_string() })?;
        Ok(NumberedEvent { number, event })
    };
    numbered.take(max).map(decode).collect()
}

/// The fields of a run's hash that make its state. The input is not one of them: it may be large.
const STATE: [&str; 12] = [
    "id", "thread", "agent", "owner", "opened", "epoch", "until", "watched", "earliest", "head", "closed",
    CHECKPOINT,
];

/// The field of a run's hash that holds its input.
pub(super) const INPUT: &str = "input";
/// The field of a run's hash that holds its checkpoint.
pub(super) const CHECKPOINT: &str = "checkpoint";

/// The command whose answer [`state`] reads.
pub(super) fn state_command(meta: String) -> ::redis::Cmd {
    ::redis::Cmd::hmget(meta, STATE.as_slice())
}

/// Decodes the answer to [`state_command`]. Returns `None` if there is no such run.
pub(super) fn state(answer: &Value) -> Result<Option<RunState>, LogError> {
    let values: Vec<Option<Vec<u8>>> =
        ::redis::from_redis_value_ref(answer).map_err(|_| strange(std::slice::from_ref(answer)))?;
    let found = STATE.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?)));
    Ok(state_of(&found.collect()))
}

/// Returns the state from the fields of the hash. Returns `None` if a required field is missing:
/// the run does not exist, or is being created.
fn state_of(fields: &HashMap<&str, Vec<u8>>) -> Option<RunState> {
    let text = |name: &str| std::str::from_utf8(fields.get(name)?).ok();
    let number = |name: &str| text(name)?.parse::<u64>().ok();
    let time = |name: &str| text(name)?.parse().ok().map(Timestamp);
    Some(RunState {
        meta: RunMeta {
            run_id: RunId::from(text("id")?),
            thread_id: ThreadId::from(text("thread")?),
            agent: text("agent")?.to_owned(),
            owner: text("owner")?.to_owned(),
            opened_at: time("opened")?,
        },
        epoch: number("epoch")?,
        lease_until: time("until")?,
        watched_until: time("watched").unwrap_or(Timestamp(i64::MIN)),
        earliest: number("earliest")?,
        head: number("head")?,
        closed_at: time("closed"),
        // A checkpoint that cannot be decoded cannot be resumed from.
        checkpoint: fields.get(CHECKPOINT).and_then(|bytes| note(bytes).ok()),
    })
}

/// Decodes the value of a note.
pub(super) fn note(bytes: &[u8]) -> Result<Arc<serde_json::Value>, CodecError> {
    decode_value(Bytes::copy_from_slice(bytes)).map(Arc::new)
}

/// A notification on a run's channel.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Notification<'m> {
    /// Events, the last with this number.
    Events { last: u64, closed: bool, payloads: Vec<&'m [u8]> },
    /// Events that are too large for a notification.
    Head { head: u64, closed: bool },
    /// A lease was taken over, and the number of the last event at that time. Replicas of earlier versions do not send the number.
    Epoch { epoch: u64, head: Option<u64> },
    /// The number of messages to the owner.
    Controls(usize),
}

impl<'m> Notification<'m> {
    /// Decodes a notification. Returns `None` if it is invalid; a watcher then reads the log.
    pub(super) fn read(message: &'m [u8]) -> Option<Self> {
        let end = message.iter().position(|byte| *byte == b'\n')?;
        let (line, body) = message.split_at_checked(end)?;
        let mut words = std::str::from_utf8(line).ok()?.split(' ');
        match words.next()? {
            "E" => {
                let (last, closed) = (words.next()?.parse().ok()?, words.next()? == "1");
                Some(Self::Events { last, closed, payloads: cut(words.next()?, body.get(1..)?)? })
            }
            "H" => Some(Self::Head { head: words.next()?.parse().ok()?, closed: words.next()? == "1" }),
            "T" => {
                let (epoch, head) = (words.next()?.parse().ok()?, words.next());
                Some(Self::Epoch { epoch, head: head.and_then(|head| head.parse().ok()) })
            }
            "C" => Some(Self::Controls(words.next()?.parse().ok()?)),
            _ => None,
        }
    }
}

/// Splits the body of a notification into payloads of the given lengths.
fn cut<'m>(lengths: &str, mut body: &'m [u8]) -> Option<Vec<&'m [u8]>> {
    let mut payloads = Vec::new();
    for length in lengths.split(',') {
        let (payload, rest) = body.split_at_checked(length.parse().ok()?)?;
        payloads.push(payload);
        body = rest;
    }
    body.is_empty().then_some(payloads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_read() {
        let notification = Notification::read(b"E 12 1 2,0,3\nab\n c");
        assert_eq!(
            notification,
            Some(Notification::Events { last: 12, closed: true, payloads: vec![b"ab", b"", b"\n c"] })
        );
        assert_eq!(Notification::read(b"H 7 0 \n"), Some(Notification::Head { head: 7, closed: false }));
        assert_eq!(Notification::read(b"T 3 7\n"), Some(Notification::Epoch { epoch: 3, head: Some(7) }));
        assert_eq!(Notification::read(b"T 3\n"), Some(Notification::Epoch { epoch: 3, head: None }));
        assert_eq!(Notification::read(b"C 2\n"), Some(Notification::Controls(2)));
    }

    #[test]
    fn lines_of_appends_are_read() {
        assert_eq!(Appended::read("ok 12"), Some(Appended::Head(12)));
        assert_eq!(Appended::read("behind 0"), Some(Appended::Behind(0)));
        assert_eq!(Appended::read("fenced"), Some(Appended::Refused("fenced".to_owned())));
        for line in ["", "ok x", "fine 1"] {
            assert_eq!(Appended::read(line), None, "{line:?}");
        }
    }

    #[test]
    fn an_invalid_message_is_no_notification() {
        for message in [&b""[..], b"\n", b"E", b"E 1 0 5\nab", b"E 1 0 1\nab", b"X 1\n", b"C x\n", b"\xff\n"]
        {
            assert_eq!(Notification::read(message), None, "{message:?}");
        }
    }
}
