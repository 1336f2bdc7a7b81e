//! The relation keys of a call: the values that may identify the run it belongs to.
//!
//! ```text
//! header    x-aqueduct-run: 0af7…-b7ad…          ──► Token
//! metadata  {"aqueduct/run":"0af7…-b7ad…"}       ──► Token
//! header    baggage: a=1, aqueduct-run=0af7…     ──► Token
//! header    traceparent: 00-TRACE-SPAN-01        ──► Trace
//! message   contextId                            ──► Context
//! ```
//!
//! Values come from callers and may be anything; a value that is empty or too long is dropped.

use aqueduct_adapter_a2a::relay::PassingCall;
use http::HeaderMap;
use serde::{Deserialize, Serialize};

pub(crate) use aqueduct::a2a::RUN_TOKEN_METADATA as TOKEN_METADATA;

use super::token::RunToken;
use crate::config::RelateBy;

/// The header that contains a token.
pub(crate) const TOKEN_HEADER: &str = "x-aqueduct-run";
/// The member of W3C baggage that contains a token.
pub(crate) const TOKEN_BAGGAGE: &str = "aqueduct-run";

/// The header with which the gateway marks a call to itself as a lane of another run. The relation keys of that run are
/// not assigned to a second run, so that calls of its other agents stay related.
pub(crate) const LANE_HEADER: &str = "x-aqueduct-lane";

/// The longest relation key. Context ids of agents are UUIDs; a longer value relates nothing.
pub(super) const RELATION_KEY_BYTES: usize = 1024;

/// A value that may identify a run.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "way", content = "value", rename_all = "lowercase")]
pub(crate) enum RelationKey {
    /// The token that an agent received.
    Token(String),
    /// A trace id.
    Trace(String),
    /// An A2A context id.
    Context(String),
}

/// Redacted: tokens are secrets.
impl std::fmt::Debug for RelationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("RelationKey").field(&self.kind()).finish_non_exhaustive()
    }
}

impl RelationKey {
    /// Returns the kind of the relation key.
    pub(crate) fn kind(&self) -> RelateBy {
        match self {
            Self::Token(_) => RelateBy::Token,
            Self::Trace(_) => RelateBy::Trace,
            Self::Context(_) => RelateBy::Context,
        }
    }

    /// Returns the key under which replicas that share a log store it.
    pub(super) fn key(&self) -> String {
        match self {
            Self::Token(token) => format!("token/{}", RunToken::read(token).shared()),
            Self::Trace(trace) => format!("trace/{trace}"),
            Self::Context(context) => format!("context/{context}"),
        }
    }

    /// Returns `true` for a value that is not empty and not longer than [`RELATION_KEY_BYTES`].
    fn is_sound(&self) -> bool {
        let (Self::Token(value) | Self::Trace(value) | Self::Context(value)) = self;
        !value.is_empty() && value.len() <= RELATION_KEY_BYTES
    }
}

/// Returns the relation keys of a call, in the order of `kinds`.
pub(super) fn relation_keys(
    kinds: &[RelateBy],
    headers: &HeaderMap,
    call: &PassingCall<'_>,
) -> Vec<RelationKey> {
    let of = |kind: &RelateBy| -> Vec<RelationKey> {
        match kind {
            RelateBy::Token => tokens(headers, call),
            RelateBy::Trace => {
                let trace = text(headers, "traceparent").and_then(trace_id);
                trace.map(RelationKey::Trace).into_iter().collect()
            }
            RelateBy::Context => vec![RelationKey::Context(call.context_id.to_string())],
        }
    };
    kinds.iter().flat_map(of).filter(RelationKey::is_sound).collect()
}

/// Returns the tokens of a call from header, metadata and baggage, in that order. An agent may forward an older
/// one too.
fn tokens(headers: &HeaderMap, call: &PassingCall<'_>) -> Vec<RelationKey> {
    let header = text(headers, TOKEN_HEADER).map(str::to_owned);
    let baggage = baggage_members(headers).map(|(_, token)| token.to_owned());
    let all = header.into_iter().chain(call.metadata(TOKEN_METADATA)).chain(baggage);
    let mut found: Vec<RelationKey> = all.map(|token| RelationKey::Token(token.trim().to_owned())).collect();
    // Most supervisors forward the same token in every place.
    found.dedup();
    found
}

/// Returns the value of a header, or `None` if it is absent or not visible ASCII.
fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the tokens in the baggage, each with the text of its member.
pub(super) fn baggage_members(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let lists = headers.get_all("baggage").iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).filter_map(|member| {
        let (name, value) = member.split(';').next()?.split_once('=')?;
        (name.trim() == TOKEN_BAGGAGE).then(|| (member, value.trim()))
    })
}

/// Returns the trace id of a valid `traceparent` (W3C Trace Context §3.2).
pub(super) fn trace_id(traceparent: &str) -> Option<String> {
    let mut fields = traceparent.trim().split('-');
    let (version, trace, span) = (fields.next()?, fields.next()?, fields.next()?);
    let is_hex = |text: &str, length: usize| {
        text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_zero = trace.bytes().all(|byte| byte == b'0');
    let is_good = is_hex(version, 2) && version != "ff" && is_hex(trace, 32) && is_hex(span, 16) && !is_zero;
    is_good.then(|| trace.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_a_traceparent_has_a_trace() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        assert_eq!(trace_id(good).as_deref(), Some("0af7651916cd43dd8448eb211c80319c"));
        for bad in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        ] {
            assert_eq!(trace_id(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_relation_key_of_any_size_is_not_followed() {
        let mut headers = HeaderMap::new();
        headers.insert(TOKEN_HEADER, "x".repeat(RELATION_KEY_BYTES + 1).parse().unwrap());
        let call = PassingCall::of_rest("POST", "message:send", "{}");
        assert_eq!(relation_keys(&[RelateBy::Token, RelateBy::Context], &headers, &call), []);
    }
}
