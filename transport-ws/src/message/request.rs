//! Messages of a client.

use std::borrow::Cow;

use aqueduct_core::json::is_deeper_than;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

/// The operations of `aqueduct.v1`: the types of messages that a client may send.
pub const OPERATIONS: [&str; 10] =
    ["auth", "list", "start", "watch", "unwatch", "cancel", "publish", "payload", "finish", "abandon"];

/// One message of a client. Opaque parts are slices of the received text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    /// The token, if the HTTP request had none. Only as the first message.
    Auth { token: String },
    /// Lists the agents.
    List { reference: String },
    /// Starts a run. The default agent is that of the path.
    Start { reference: String, agent: Option<String>, input: &'a str },
    /// Watches a run from a number on.
    Watch { reference: String, run: String, after: u64, options: Option<&'a str> },
    /// Stops watching a run.
    Unwatch { run: String },
    /// Cancels a run.
    Cancel { reference: Option<String>, run: String },
    /// Publishes a run.
    Publish { reference: String, agent: String, run: Option<String>, thread: Option<String>, format: String },
    /// A payload of a published run.
    Payload { reference: String, number: u64, data: &'a str },
    /// Ends the publication.
    Finish { reference: String },
    /// Abandons the publication on this connection.
    Abandon { reference: String },
}

/// Why a text is not a valid request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum RequestError {
    /// Not a message of this protocol: the peer uses another one.
    #[error("{0}")]
    Foreign(String),
    /// A message of this protocol that cannot be fulfilled; the connection continues.
    #[error("{message}")]
    Refused { reference: Option<String>, message: String, known: bool },
}

impl<'a> Request<'a> {
    /// Parses a text message.
    pub(crate) fn parse(text: &'a str, json_depth: usize) -> Result<Self, RequestError> {
        if is_deeper_than(text.as_bytes(), json_depth) {
            return Err(RequestError::Foreign(format!(
                "JSON is nested deeper than {json_depth} levels: flatten it"
            )));
        }
        let fields: Fields<'a> = serde_json::from_str(text)
            .map_err(|error| RequestError::Foreign(format!("not a message of this protocol: {error}")))?;
        fields.into_request()
    }

    /// Returns `true` if the service is asked, as by a request of HTTP. The others are about the connection itself.
    pub(crate) fn asks_service(&self) -> bool {
        matches!(
            self,
            Self::List { .. }
                | Self::Start { .. }
                | Self::Watch { .. }
                | Self::Cancel { .. }
                | Self::Publish { .. }
        )
    }

    /// Returns the reference and the run that an answer names.
    pub(crate) fn about(&self) -> (Option<String>, Option<String>) {
        match self {
            Self::Auth { .. } => (None, None),
            Self::List { reference }
            | Self::Start { reference, .. }
            | Self::Publish { reference, .. }
            | Self::Payload { reference, .. }
            | Self::Finish { reference }
            | Self::Abandon { reference } => (Some(reference.clone()), None),
            Self::Watch { reference, run, .. } => (Some(reference.clone()), Some(run.clone())),
            Self::Unwatch { run } => (None, Some(run.clone())),
            Self::Cancel { reference, run } => (reference.clone(), Some(run.clone())),
        }
    }
}

/// The union of all fields. A tagged enum would buffer the values to find the tag, and lose their original text.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(rename = "ref")]
    reference: Option<String>,
    token: Option<String>,
    agent: Option<String>,
    run: Option<String>,
    thread: Option<String>,
    format: Option<String>,
    after: Option<u64>,
    number: Option<u64>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    #[serde(borrow)]
    options: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

impl<'a> Fields<'a> {
    /// Returns the request of the type `kind`, or a refusal that names the missing field.
    fn into_request(mut self) -> Result<Request<'a>, RequestError> {
        let kind = std::mem::take(&mut self.kind);
        let reference = self.reference.take();
        let missing = |field: &str| RequestError::Refused {
            reference: reference.clone(),
            message: format!("a `{kind}` message needs `{field}`"),
            known: true,
        };
        let named = || reference.clone().ok_or_else(|| missing("ref"));
        Ok(match &*kind {
            "auth" => Request::Auth { token: self.token.ok_or_else(|| missing("token"))? },
            "list" => Request::List { reference: named()? },
            "start" => Request::Start {
                reference: named()?,
                agent: self.agent,
                input: self.input.ok_or_else(|| missing("input"))?.get(),
            },
            "watch" => Request::Watch {
                reference: named()?,
                run: self.run.ok_or_else(|| missing("run"))?,
                after: self.after.unwrap_or(0),
                options: self.options.map(RawValue::get),
            },
            "unwatch" => Request::Unwatch { run: self.run.ok_or_else(|| missing("run"))? },
            "cancel" => Request::Cancel { run: self.run.ok_or_else(|| missing("run"))?, reference },
            "publish" => Request::Publish {
                reference: named()?,
                agent: self.agent.ok_or_else(|| missing("agent"))?,
                run: self.run,
                thread: self.thread,
                format: self.format.ok_or_else(|| missing("format"))?,
            },
            "payload" => Request::Payload {
                reference: named()?,
                number: self.number.ok_or_else(|| missing("number"))?,
                data: self.data.ok_or_else(|| missing("data"))?.get(),
            },
            "finish" => Request::Finish { reference: named()? },
            "abandon" => Request::Abandon { reference: named()? },
            _ => {
                let message =
                    format!("unknown message type `{kind}`: send one of this version of the protocol");
                return Err(RequestError::Refused { reference, message, known: false });
            }
        })
    }
}

/// Returns the part of `message` that `text` is a slice of; shared, not copied.
pub(crate) fn cut_out(message: &Bytes, text: &str) -> Bytes {
    message.slice_ref(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operations_are_those_that_are_read() {
        let parse = |kind: &str| Request::parse(&format!("{{\"type\":\"{kind}\"}}"), 64).map(drop);
        for kind in OPERATIONS {
            let is_known = !matches!(parse(kind), Err(RequestError::Refused { known: false, .. }));
            assert!(is_known, "{kind}");
        }
        let name = |request: &Request<'_>| match request {
            Request::Auth { .. } => "auth",
            Request::List { .. } => "list",
            Request::Start { .. } => "start",
            Request::Watch { .. } => "watch",
            Request::Unwatch { .. } => "unwatch",
            Request::Cancel { .. } => "cancel",
            Request::Publish { .. } => "publish",
            Request::Payload { .. } => "payload",
            Request::Finish { .. } => "finish",
            Request::Abandon { .. } => "abandon",
        };
        assert!(OPERATIONS.contains(&name(&Request::List { reference: String::new() })));
        assert!(matches!(parse("steal"), Err(RequestError::Refused { known: false, .. })));
    }

    #[test]
    fn opaque_parts_stay_as_they_were_sent() {
        let text = r#"{"type":"start","ref":"1","input":{"b": 1.0, "a":[1e2]},"new":true}"#;
        let request = Request::parse(text, 64).unwrap();
        assert_eq!(
            request,
            Request::Start { reference: "1".into(), agent: None, input: r#"{"b": 1.0, "a":[1e2]}"# }
        );
        let whole = Bytes::from_static(text.as_bytes());
        let whole_text = std::str::from_utf8(&whole).unwrap();
        let Request::Start { input, .. } = Request::parse(whole_text, 64).unwrap() else { panic!() };
        assert_eq!(
            cut_out(&whole, input),
            &whole[text.find("{\"b\"").unwrap()..text.find(",\"new").unwrap()]
        );
    }

    #[test]
    fn a_known_message_without_its_fields_can_be_answered() {
        let error = Request::parse(r#"{"type":"watch","ref":"w"}"#, 64).unwrap_err();
        assert_eq!(
            error,
            RequestError::Refused {
                reference: Some("w".into()),
                message: "a `watch` message needs `run`".into(),
                known: true
            }
        );
        assert!(matches!(
            Request::parse(r#"{"type":"dance"}"#, 64),
            Err(RequestError::Refused { known: false, .. })
        ));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_text_is_refused_or_read(text in r#"\{"type":"[a-z]{1,7}"(,"[a-z]{1,6}":[0-9"{}\[\]a-z]{0,9}){0,4}\}?|.{0,60}"#) {
            drop(Request::parse(&text, 8));
        }

        #[test]
        fn what_is_carried_is_carried_as_it_is(run in ".{0,20}", data in "[a-z\u{e9}\u{1d11e}\"\\\\]{0,20}", number: u64) {
            let (run, data) = (serde_json::to_string(&run).unwrap(), serde_json::to_string(&data).unwrap());
            let text = format!(r#"{{"type":"payload","ref":{run},"number":{number},"data": {data} }}"#);
            let whole = Bytes::from(text);
            let request = Request::parse(std::str::from_utf8(&whole).unwrap(), 8).unwrap();
            let Request::Payload { number: read, data: cut, .. } = request else { panic!() };
            assert_eq!((read, cut_out(&whole, cut)), (number, Bytes::from(data)));
        }
    }

    #[test]
    fn what_is_no_message_is_foreign() {
        let deep =
            format!(r#"{{"type":"start","ref":"1","input":{}{}}}"#, "[".repeat(1000), "]".repeat(1000));
        for text in ["", "null", "[]", "{}", "{\"type\":1}", "hello", deep.as_str()] {
            assert!(matches!(Request::parse(text, 64), Err(RequestError::Foreign(_))), "{text}");
        }
    }
}
