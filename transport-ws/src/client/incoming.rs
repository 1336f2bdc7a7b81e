//! Messages from the server.
//!
//! | type | answers |
//! |---|---|
//! | `agents`, `started`, `watching`, `cancelled`, `publishing`, `finished` | the request with the same `ref` |
//! | `event`, `ended` | a watched run |
//! | `ack`, `interrupt_reply` | a publisher |
//! | `gone`, `error` | a request, a run, or the connection as a whole |
//!
//! A message of an unknown type is ignored: a newer server may send more. A known type without one of its fields is an error, because the
//! connection can no longer be followed.

use std::borrow::Cow;

use aqueduct_core::InterruptId;
use aqueduct_core::run::InterruptReply;
use aqueduct_core::service::AgentInfo;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::run::Event;
use crate::error::Error;
use crate::message::binary;

/// One message from the server.
#[derive(Debug)]
pub(crate) enum Incoming {
    /// The agents that the caller may use.
    Agents { reference: String, agents: Vec<AgentInfo> },
    /// The answer to a start or a watch.
    Opened { reference: String, run: String },
    /// One payload of a watched run.
    Event { run: String, event: Event },
    /// The last event of a watched run was sent.
    Ended { run: String },
    /// The answer to a cancel; `running` is unset if the run had ended.
    Cancelled { reference: String, running: bool },
    /// The answer to a publish: payloads after `acknowledged` are expected, at most `window` of them and `window_bytes` bytes unacknowledged.
    Publishing { reference: String, run: String, acknowledged: u64, window: usize, window_bytes: usize },
    /// All payloads up to `number` are in the log.
    Ack { reference: String, number: u64 },
    /// The publication is complete.
    Finished { reference: String },
    /// The reply of a user to an interrupt of a published run.
    Reply { reference: String, reply: InterruptReply },
    /// A refusal. Without reference and run it concerns the connection.
    Failed { reference: Option<String>, run: Option<String>, error: Error },
    /// A message of a later version, or one that needs no handling.
    Other,
}

/// All fields that a message can have; [`into_message`](Self::into_message) checks which ones its type requires.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(rename = "ref")]
    reference: Option<String>,
    run: Option<String>,
    number: Option<u64>,
    k: Option<u32>,
    #[serde(default)]
    more: bool,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    code: Option<String>,
    message: Option<String>,
    earliest: Option<u64>,
    acknowledged: Option<u64>,
    window: Option<usize>,
    window_bytes: Option<usize>,
    running: Option<bool>,
    agents: Option<Vec<Agent>>,
    interrupt: Option<String>,
    resolved: Option<bool>,
    payload: Option<Value>,
}

/// An agent in the reply to a list request.
#[derive(Deserialize)]
struct Agent {
    name: String,
    #[serde(default)]
    description: String,
}

impl Incoming {
    /// Parses a text message. `whole` holds the same bytes, of which payloads are slices.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Protocol`] if the text is not JSON, or lacks a field of its type.
    pub(crate) fn parse_text(text: &str, whole: &Bytes) -> Result<Self, Error> {
        let fields: Fields<'_> =
            serde_json::from_str(text).map_err(|error| Error::Protocol(error.to_string()))?;
        let kind = fields.kind.clone();
        fields.into_message(whole).ok_or_else(|| Error::Protocol(format!("a `{kind}` message lacks a field")))
    }

    /// Parses a binary message.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Protocol`] if the bytes are not the binary form of an event.
    pub(crate) fn parse_binary(message: &Bytes) -> Result<Self, Error> {
        let (run, number, k, more, at) = binary::read_event(message)
            .ok_or_else(|| Error::Protocol("a binary message is not an event".to_owned()))?;
        let data = message.slice(at.min(message.len())..);
        Ok(Self::Event { run: run.to_owned(), event: Event { number, k, more, data } })
    }
}

impl Fields<'_> {
    /// Returns the message of the type `kind`, or `None` if a field is missing. `whole` keeps the payload of an event
    /// unparsed.
    fn into_message(self, whole: &Bytes) -> Option<Incoming> {
        Some(match &*self.kind {
            "event" => Incoming::Event {
                run: self.run?,
                event: Event {
                    number: self.number?,
                    k: self.k.unwrap_or(0),
                    more: self.more,
                    data: whole.slice_ref(self.data?.get().as_bytes()),
                },
            },
            "agents" => {
                let agents = self.agents?.into_iter();
                let agents =
                    agents.map(|Agent { name, description }| AgentInfo { name, description }).collect();
                Incoming::Agents { reference: self.reference?, agents }
            }
            "started" | "watching" => Incoming::Opened { reference: self.reference?, run: self.run? },
            "ended" => Incoming::Ended { run: self.run? },
            "cancelled" => Incoming::Cancelled { reference: self.reference?, running: self.running? },
            "publishing" => Incoming::Publishing {
                reference: self.reference?,
                run: self.run?,
                acknowledged: self.acknowledged?,
                window: self.window?,
                window_bytes: self.window_bytes?,
            },
            "ack" => Incoming::Ack { reference: self.reference?, number: self.number? },
            "finished" => Incoming::Finished { reference: self.reference? },
            "interrupt_reply" => {
                let (id, resolved) = (InterruptId::from(self.interrupt?), self.resolved?);
                let reply = InterruptReply { id, resolved, payload: self.payload };
                Incoming::Reply { reference: self.reference?, reply }
            }
            "gone" => {
                let error = Error::Gone { earliest: self.earliest? };
                Incoming::Failed { reference: self.reference, run: self.run, error }
            }
            "error" => {
                let error = Error::Rejected { code: self.code?, message: self.message? };
                Incoming::Failed { reference: self.reference, run: self.run, error }
            }
            _ => Incoming::Other,
        })
    }
}
