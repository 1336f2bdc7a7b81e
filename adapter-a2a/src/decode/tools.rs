//! Tool notices: matches ends to starts.
//!
//! Notices rarely have ids. An end is matched to the oldest open call with the same name and agent, then with the same
//! name, then (for an end without a tool name) of the same agent, then the oldest of all. Only letters and digits of
//! names are compared: frameworks show `list_apps` as "List Apps".

use std::collections::VecDeque;

use aqueduct_core::block::{ToolOutput, ToolResult, ToolUse};
use aqueduct_core::{ByteString, ContentBlock, ToolCallId};

use crate::recognise::{ToolEnd, ToolStart};

/// A call without a result so far.
#[derive(Debug, Clone)]
struct OpenCall {
    /// The id of the call in this stream: the agent's, or that of the message that announced it.
    id: ByteString,
    /// The name as the start had it, which the result gets too.
    name: ByteString,
    /// The name for comparison: see [`fold`].
    folded: String,
    /// The agent that called the tool, if the notice named one.
    agent: Option<String>,
}

/// The open calls of a turn, oldest first. Bounded by `DecodeLimits::open_calls`.
#[derive(Debug, Clone, Default)]
pub(super) struct Calls {
    open: VecDeque<OpenCall>,
    /// Id and name of the call that began or ended last, to which further output belongs.
    latest: Option<(ByteString, ByteString)>,
}

/// Returns the letters and digits of a name in lower case: notices write names of tools in several ways.
fn fold(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

impl Calls {
    /// Records a call that begins. `fallback` is its id if the agent sent none. Beyond `max` open calls the oldest is
    /// dropped: its end will then be a result without a call.
    pub(super) fn start(&mut self, start: ToolStart, fallback: ByteString, max: usize) -> ContentBlock {
        let id = start.call_id.filter(|id| !id.is_empty()).map_or(fallback, ByteString::from);
        let name = ByteString::from(start.name);
        if self.open.len() >= max.max(1) {
            self.open.pop_front();
        }
        let call = OpenCall { id: id.clone(), folded: fold(&name), name: name.clone(), agent: start.agent };
        self.latest = Some((id.clone(), name.clone()));
        self.open.push_back(call);
        ContentBlock::from(ToolUse {
            id: Some(ToolCallId::new(id)),
            name: Some(name),
            arguments: ByteString::from(start.arguments),
        })
    }

    /// Returns `true` if an open call matches an end by name or id.
    pub(super) fn has_named(&self, end: &ToolEnd) -> bool {
        self.by_id(end).or_else(|| self.by_name(end)).is_some()
    }

    /// Returns the result of a call that ends. `text` is the text of the notice, for ends without output.
    ///
    /// An end with an id is matched by id alone. An end that matches no open call is a result under its own id, or
    /// under `fallback`.
    pub(super) fn end(&mut self, end: ToolEnd, text: &str, fallback: ByteString) -> ContentBlock {
        let at = match (&end.call_id, &end.name) {
            (Some(_), _) => self.by_id(&end),
            (None, Some(_)) => self.by_name(&end).or_else(|| self.by_phrase(&end)),
            (None, None) => self.by_agent(&end),
        };
        let call = at.and_then(|at| self.open.remove(at));
        let id = match (&call, end.call_id) {
            (Some(call), _) => call.id.clone(),
            (None, Some(id)) => ByteString::from(id),
            (None, None) => fallback,
        };
        let name = call.map(|call| call.name).or_else(|| end.name.map(ByteString::from));
        self.latest = Some((id.clone(), name.clone().unwrap_or_default()));
        ContentBlock::from(ToolResult {
            id: Some(ToolCallId::new(id)),
            name,
            output: end.output.unwrap_or_else(|| ToolOutput::Text(ByteString::from(text.trim()))),
            is_error: end.failed,
        })
    }

    /// Returns the output of a tool, attributed to the latest call: such notices name no call. The output is
    /// progress, which does not end the call.
    pub(super) fn output(&self, text: String) -> ContentBlock {
        let (id, name) = self.latest.clone().unzip();
        ContentBlock::from(ToolResult {
            id: id.map(ToolCallId::new),
            name,
            output: ToolOutput::Progress(ByteString::from(text)),
            is_error: false,
        })
    }

    /// Returns the index of the oldest open call that matches.
    fn position(&self, matches: impl Fn(&OpenCall) -> bool) -> Option<usize> {
        self.open.iter().position(matches)
    }

    /// Returns the open call with the id of an end.
    fn by_id(&self, end: &ToolEnd) -> Option<usize> {
        let id = end.call_id.as_deref()?;
        self.position(|call| *call.id == *id)
    }

    /// Returns the open call with the name of an end, of the same agent if both name one.
    fn by_name(&self, end: &ToolEnd) -> Option<usize> {
        let name = fold(end.name.as_deref()?);
        let same_agent = |call: &OpenCall| match (&call.agent, &end.agent) {
            (Some(a), Some(b)) => fold(a) == fold(b),
            _ => true,
        };
        self.position(|call| call.folded == name && same_agent(call))
            .or_else(|| self.position(|call| call.folded == name))
    }

    /// Matches an end with other words than its start ("Fetching versions", "Versions there") to the only open call of
    /// that agent.
    fn by_phrase(&self, end: &ToolEnd) -> Option<usize> {
        let agent = fold(end.agent.as_deref()?);
        let of_agent = |call: &OpenCall| call.agent.as_deref().map(fold).as_ref() == Some(&agent);
        let mut calls = self.open.iter().enumerate().filter(|(_, call)| of_agent(call));
        let (at, _) = calls.next()?;
        calls.next().is_none().then_some(at)
    }

    /// Returns the oldest open call of the agent that an end names; the oldest of all, if it names none or one
    /// without calls.
    fn by_agent(&self, end: &ToolEnd) -> Option<usize> {
        let agent = end.agent.as_deref().map(fold);
        let of_agent = |call: &OpenCall| agent.is_some() && call.agent.as_deref().map(fold) == agent;
        self.position(of_agent).or_else(|| self.position(|_| true))
    }
}
