//! Messages of a server, except for events (the [envelope](crate::driver::envelope) writes those).

use aqueduct_core::Exceeded;
use aqueduct_core::run::InterruptReply;
use aqueduct_core::service::{AgentInfo, RefusalKind, ServiceError};
use serde::ser::{Serialize, SerializeStruct, Serializer};

/// One message of a server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    /// The agents of a `list`.
    Agents { reference: String, agents: Vec<AgentInfo> },
    /// The run of a `start`.
    Started { reference: String, run: String },
    /// The answer to a `watch`.
    Watching { reference: String, run: String },
    /// The answer to an `unwatch`.
    Unwatched { run: String },
    /// The run has ended and all its events were sent.
    Ended { reference: String, run: String, number: u64 },
    /// The answer to a `cancel`.
    Cancelled { reference: Option<String>, run: String, running: bool },
    /// The answer to a `publish`.
    Publishing { reference: String, run: String, acknowledged: u64, window: usize, window_bytes: usize },
    /// All payloads up to a number are stored.
    Ack { reference: String, number: u64 },
    /// The answer to a `finish`.
    Finished { reference: String },
    /// The answer to an `abandon`.
    Abandoned { reference: String },
    /// A reply to an interrupt.
    Interrupt { reference: String, reply: InterruptReply },
    /// The requested events are no longer stored.
    Gone { reference: String, run: String, earliest: u64 },
    /// A request, run or publisher failed and has ended.
    Error { reference: Option<String>, run: Option<String>, code: &'static str, message: String },
    /// A limit refused a request.
    Exceeded { reference: Option<String>, run: Option<String>, message: String, exceeded: Exceeded },
}

impl Reply {
    /// Returns the message for a refusal of the service.
    pub(crate) fn refusal(reference: Option<String>, run: Option<String>, error: ServiceError) -> Self {
        if let Some(exceeded) = error.exceeded {
            return Self::Exceeded { reference, run, message: error.message, exceeded };
        }
        match (error.kind, reference, run) {
            (RefusalKind::Gone { earliest }, Some(reference), Some(run)) => {
                Self::Gone { reference, run, earliest }
            }
            (kind, reference, run) => {
                Self::Error { reference, run, code: code_of(kind), message: error.message }
            }
        }
    }

    /// Returns the message for a request that this connection cannot fulfil.
    pub(crate) fn error(reference: Option<String>, code: &'static str, message: impl Into<String>) -> Self {
        Self::Error { reference, run: None, code, message: message.into() }
    }

    /// Appends the message as JSON.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        // Serializing plain data into memory cannot fail; otherwise the peer would reject the invalid message.
        serde_json::to_writer(out, self).unwrap_or_default();
    }
}

/// Returns the code of a refusal on the wire.
pub(crate) fn code_of(kind: RefusalKind) -> &'static str {
    match kind {
        RefusalKind::NotFound => "not_found",
        RefusalKind::Unauthenticated => "unauthenticated",
        RefusalKind::Invalid => "invalid",
        RefusalKind::Conflict => "conflict",
        RefusalKind::Gone { .. } => "gone",
        RefusalKind::Busy => "busy",
        RefusalKind::Unavailable => "unavailable",
        RefusalKind::Unsupported => "unsupported",
        _ => "internal",
    }
}

/// Omits absent fields; never writes null.
impl Serialize for Reply {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Reply", 7)?;
        match self {
            Self::Agents { reference, agents } => {
                out.serialize_field("type", "agents")?;
                out.serialize_field("ref", reference)?;
                out.serialize_field("agents", &agents.iter().map(Agent).collect::<Vec<_>>())?;
            }
            Self::Started { reference, run } => answer(&mut out, "started", reference, run)?,
            Self::Watching { reference, run } => answer(&mut out, "watching", reference, run)?,
            Self::Unwatched { run } => {
                out.serialize_field("type", "unwatched")?;
                out.serialize_field("run", run)?;
            }
            Self::Ended { reference, run, number } => {
                answer(&mut out, "ended", reference, run)?;
                out.serialize_field("number", number)?;
            }
            Self::Cancelled { reference, run, running } => {
                out.serialize_field("type", "cancelled")?;
                optional(&mut out, "ref", reference.as_ref())?;
                out.serialize_field("run", run)?;
                out.serialize_field("running", running)?;
            }
            Self::Publishing { reference, run, acknowledged, window, window_bytes } => {
                answer(&mut out, "publishing", reference, run)?;
                out.serialize_field("acknowledged", acknowledged)?;
                out.serialize_field("window", window)?;
                out.serialize_field("window_bytes", window_bytes)?;
            }
            Self::Ack { reference, number } => {
                out.serialize_field("type", "ack")?;
                out.serialize_field("ref", reference)?;
                out.serialize_field("number", number)?;
            }
            Self::Finished { reference } => {
                out.serialize_field("type", "finished")?;
                out.serialize_field("ref", reference)?;
            }
            Self::Abandoned { reference } => {
                out.serialize_field("type", "abandoned")?;
                out.serialize_field("ref", reference)?;
            }
            Self::Interrupt { reference, reply } => {
                out.serialize_field("type", "interrupt_reply")?;
                out.serialize_field("ref", reference)?;
                out.serialize_field("interrupt", reply.id.as_str())?;
                out.serialize_field("resolved", &reply.resolved)?;
                optional(&mut out, "payload", reply.payload.as_ref())?;
            }
            Self::Gone { reference, run, earliest } => {
                answer(&mut out, "gone", reference, run)?;
                out.serialize_field("earliest", earliest)?;
            }
            Self::Error { reference, run, code, message } => {
                out.serialize_field("type", "error")?;
                optional(&mut out, "ref", reference.as_ref())?;
                optional(&mut out, "run", run.as_ref())?;
                out.serialize_field("code", code)?;
                out.serialize_field("message", message)?;
            }
            Self::Exceeded { reference, run, message, exceeded } => {
                out.serialize_field("type", "error")?;
                optional(&mut out, "ref", reference.as_ref())?;
                optional(&mut out, "run", run.as_ref())?;
                out.serialize_field("code", "busy")?;
                out.serialize_field("message", message)?;
                out.serialize_field("limit", exceeded.limit)?;
                out.serialize_field("retry_after", &exceeded.retry_seconds())?;
            }
        }
        out.end()
    }
}

/// Writes the fields that every reply about a run has.
fn answer<S: SerializeStruct>(out: &mut S, kind: &str, reference: &str, run: &str) -> Result<(), S::Error> {
    out.serialize_field("type", kind)?;
    out.serialize_field("ref", reference)?;
    out.serialize_field("run", run)
}

/// Writes a field if it has a value.
fn optional<S: SerializeStruct>(
    out: &mut S,
    name: &'static str,
    value: Option<&impl Serialize>,
) -> Result<(), S::Error> {
    match value {
        Some(value) => out.serialize_field(name, value),
        None => out.skip_field(name),
    }
}

/// Encodes an agent in the reply to `list`.
struct Agent<'a>(&'a AgentInfo);

impl Serialize for Agent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_struct("Agent", 2)?;
        out.serialize_field("name", &self.0.name)?;
        out.serialize_field("description", &self.0.description)?;
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn text(reply: &Reply) -> String {
        let mut out = Vec::new();
        reply.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn absent_is_absent() {
        let error = Reply::error(None, "invalid", "no");
        assert_eq!(text(&error), r#"{"type":"error","code":"invalid","message":"no"}"#);
        let cancelled = Reply::Cancelled { reference: None, run: "r".into(), running: true };
        assert_eq!(text(&cancelled), r#"{"type":"cancelled","run":"r","running":true}"#);
    }

    #[test]
    fn a_limit_is_named_with_the_time_to_wait() {
        let exceeded =
            Exceeded { code: "too_many_runs", limit: "quotas.runs", retry_after: Duration::from_secs(2) };
        let error = ServiceError::exceeded(exceeded, 3, "runs");
        let text = text(&Reply::refusal(Some("s".into()), None, error));
        assert!(text.starts_with(r#"{"type":"error","ref":"s","code":"busy","message":"more than 3 runs"#));
        assert!(text.ends_with(r#","limit":"quotas.runs","retry_after":2}"#), "{text}");
    }

    #[test]
    fn events_that_are_gone_have_a_message_of_their_own() {
        let error = ServiceError::new(RefusalKind::Gone { earliest: 9 }, "trimmed");
        let reply = Reply::refusal(Some("w".into()), Some("r".into()), error);
        assert_eq!(text(&reply), r#"{"type":"gone","ref":"w","run":"r","earliest":9}"#);
    }
}
