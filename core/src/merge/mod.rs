//! [`MessageMerger`]: a turn's updates as one [`Response`], for callers who want a value instead of a stream.
//!
//! Invariants of the result:
//! 1. it has one response id;
//! 2. within an agent, messages stand in the order of their times as far as they have any, else in the order of
//!    arrival; a call precedes its result, which precedes what followed it (see `order.rs` for why this is a total
//!    order);
//! 3. the messages of one agent are contiguous, agents in the order of their first update: never sorted purely by time.
//!
//! A merger keeps whole texts (a value needs them), so it is bounded by [`MergeLimits`]. It is not part of the streaming
//! path and emits no events.

mod draft;
mod order;
mod run;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use bytestring::ByteString;

use crate::Metadata;
use crate::block::{ContentBlock, ToolOutput};
use crate::error::Error;
use crate::id::{MessageId, ResponseId, ToolCallId};
use crate::message::{Message, Response};
use crate::source::Source;
use crate::update::{Channel, Mode, Timestamp, Update};
use crate::usage_sum::UsageSum;
use draft::Draft;
pub use run::{CompletedRun, RunMerger};

/// The position of updates without response id or message id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Placement {
    /// In the order of arrival.
    #[default]
    Arrival,
    /// After the updates that have an id: the behaviour of older hosting code.
    AfterKeyed,
}

/// Settings of a [`MessageMerger`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MergeSettings {
    /// The position of updates without response id.
    pub without_response_id: Placement,
    /// The position of updates without message id.
    pub without_message_id: Placement,
    /// The limits of held content.
    pub limits: MergeLimits,
}

/// Limits of a merge. All text of a turn is held in memory until the merge is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MergeLimits {
    /// Messages of one turn.
    pub messages: usize,
    /// Bytes of text and arguments of one turn.
    pub bytes: usize,
    /// Agents, providers and models whose usage is summed.
    pub usage_accounts: usize,
}

impl Default for MergeLimits {
    fn default() -> Self {
        Self { messages: 65_536, bytes: 64 * 1024 * 1024, usage_accounts: 1024 }
    }
}

/// Merges the updates of one turn into one [`Response`].
///
/// # Examples
///
/// ```
/// use aqueduct_core::merge::{MergeSettings, MessageMerger};
/// use aqueduct_core::{ResponseId, Update};
///
/// let mut merger = MessageMerger::new(MergeSettings::default());
/// merger.handle_update(Update::text("Hello ").in_message("m"))?;
/// merger.handle_update(Update::text("world").in_message("m"))?;
/// assert_eq!(merger.finish(ResponseId::from("r")).text(), "Hello world");
/// # Ok::<(), aqueduct_core::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct MessageMerger {
    settings: MergeSettings,
    agents: Vec<Agent>,
    /// The agent that made each call. A result is placed with its call, whichever agent reports it.
    callers: HashMap<ToolCallId, usize>,
    results: HashSet<(ToolCallId, ByteString)>,
    usage: UsageSum,
    finish_reasons: HashSet<ByteString>,
    created_at: Option<Timestamp>,
    metadata: Metadata,
    messages: usize,
    bytes: usize,
}

/// The messages of one agent.
#[derive(Debug)]
struct Agent {
    source: Source,
    drafts: Vec<Draft>,
    by_id: HashMap<(MessageId, Channel), usize>,
    last: Option<usize>,
}

impl MessageMerger {
    /// Returns a merger without updates.
    pub fn new(settings: MergeSettings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// Adds the next update of the turn.
    ///
    /// # Errors
    ///
    /// Returns an error of [`Fault::Peer`](crate::error::Fault) if the turn exceeds a limit of [`MergeLimits`]. The merger is
    /// unchanged and can be finished.
    pub fn handle_update(&mut self, mut update: Update) -> Result<(), Error> {
        update.drop_empty_ids();
        let bytes = self.bytes + size(&update.block);
        if bytes > self.settings.limits.bytes {
            return Err(Error::TooLong { max: self.settings.limits.bytes });
        }
        let agent = self.agent_of(&update);
        let at = match self.agents.get(agent).and_then(|agent| agent.draft_for(&update)) {
            Some(at) => at,
            None => self.begin(agent, &update)?,
        };
        self.bytes = bytes;
        self.note(&update, agent)?;
        if self.repeats_result(&update.block) {
            return Ok(());
        }
        if let Some(agent) = self.agents.get_mut(agent) {
            agent.last = Some(at);
            if let Some(draft) = agent.drafts.get_mut(at) {
                draft.take(update);
            }
        }
        Ok(())
    }

    /// Returns the turn as one value under `response_id`.
    pub fn finish(self, response_id: ResponseId) -> Response {
        let settings = self.settings;
        let mut sources = self.agents.iter().map(|agent| agent.source.clone());
        let agent = sources.next().filter(|_| sources.next().is_none());
        let mut reasons = self.finish_reasons.into_iter();
        let finish_reason = reasons.next().filter(|_| reasons.next().is_none());
        let messages = self.agents.into_iter().flat_map(|agent| agent.finish(settings)).collect();
        Response {
            id: response_id,
            agent,
            messages,
            created_at: self.created_at,
            finish_reason,
            usage: self.usage.totals(),
            metadata: self.metadata,
        }
    }

    /// Returns the index of the agent of an update; a result belongs to the agent that made its call.
    fn agent_of(&mut self, update: &Update) -> usize {
        if let ContentBlock::ToolResult(result) = &update.block
            && let Some(id) = &result.id
            && let Some(caller) = self.callers.get(id)
        {
            return *caller;
        }
        if let Some(at) = self.agents.iter().position(|agent| agent.source == update.source) {
            return at;
        }
        let source = update.source.clone();
        self.agents.push(Agent { source, drafts: Vec::new(), by_id: HashMap::new(), last: None });
        self.agents.len() - 1
    }

    /// Starts a message, within the limit.
    fn begin(&mut self, agent: usize, update: &Update) -> Result<usize, Error> {
        if self.messages >= self.settings.limits.messages {
            return Err(Error::TooManyMessages { max: self.settings.limits.messages });
        }
        self.messages += 1;
        let Some(agent) = self.agents.get_mut(agent) else { return Ok(0) };
        let at = agent.drafts.len();
        agent.drafts.push(Draft::new(update));
        if let Some(id) = &update.message_id {
            agent.by_id.insert((id.detached(), update.channel), at);
        }
        Ok(at)
    }

    /// Records usage, finish reason, time and metadata of an update, which belong to the response as a whole.
    fn note(&mut self, update: &Update, agent: usize) -> Result<(), Error> {
        if let ContentBlock::ToolUse(call) = &update.block
            && let Some(id) = &call.id
        {
            self.callers.entry(id.detached()).or_insert(agent);
        }
        self.created_at = self.created_at.into_iter().chain(update.created_at).min();
        if let Some(details) = &update.details {
            let max = self.settings.limits.usage_accounts;
            if let Some(usage) = &details.usage
                && !self.usage.book(&update.source, update.response_id.as_ref(), update.mode, usage, max)
            {
                return Err(Error::TooManyAccounts { max });
            }
            self.finish_reasons.extend(details.finish_reason.clone());
            self.metadata.extend(details.metadata.iter().flat_map(|metadata| (**metadata).clone()));
        }
        Ok(())
    }

    /// Returns `true` if an equal result was merged before.
    fn repeats_result(&mut self, block: &ContentBlock) -> bool {
        let ContentBlock::ToolResult(result) = block else { return false };
        match (&result.id, &result.output) {
            (_, ToolOutput::Progress(_)) => true,
            (Some(id), output) => !self.results.insert((id.detached(), output.to_text())),
            (None, _) => false,
        }
    }
}

impl Agent {
    /// Returns the index of the message that an update belongs to. Returns `None` if it starts a message.
    fn draft_for(&self, update: &Update) -> Option<usize> {
        let found = self.draft_before(update)?;
        self.drafts.get(found).is_some_and(|draft| !draft.is_over_for(update)).then_some(found)
    }

    /// Returns the existing message that an update can continue.
    fn draft_before(&self, update: &Update) -> Option<usize> {
        if let Some(id) = &update.message_id {
            return self.by_id.get(&(id.clone(), update.channel)).copied();
        }
        let fits = |draft: &Draft| draft.channel == update.channel && draft.role == update.role;
        if update.mode == Mode::Append {
            // An update without id continues the message before it if that has no id either.
            return self.last.filter(|at| self.drafts.get(*at).is_some_and(|d| d.id.is_none() && fits(d)));
        }
        // A whole text without id restates the agent's last text.
        self.drafts.iter().rposition(|draft| fits(draft) && draft.has_text())
    }

    fn finish(self, settings: MergeSettings) -> Vec<Message> {
        let drafts = fold(order::sorted(self.drafts, settings));
        let source = self.source;
        drafts.into_iter().filter_map(|draft| draft.finish(source.clone())).collect()
    }
}

/// Merges a message without id into the next one if that has an id and the same kind.
fn fold(drafts: Vec<Draft>) -> Vec<Draft> {
    let mut folded: Vec<Draft> = Vec::with_capacity(drafts.len());
    for mut draft in drafts {
        let joins = |before: &Draft| {
            before.id.is_none()
                && draft.id.is_some()
                && (before.role, before.channel) == (draft.role, draft.channel)
        };
        if let Some(before) = folded.pop_if(|before| joins(before)) {
            draft.fold_in(before);
        }
        folded.push(draft);
    }
    folded
}

/// Returns the bytes of text and arguments in a block.
fn size(block: &ContentBlock) -> usize {
    match block {
        ContentBlock::Text(part) => part.text.len(),
        ContentBlock::Thinking(part) => part.text.len() + part.encrypted.as_ref().map_or(0, |v| v.len()),
        ContentBlock::ToolUse(call) => call.arguments.len(),
        ContentBlock::ToolResult(result) => result.output.to_text().len(),
        ContentBlock::Custom(custom) => custom.value.to_string().len(),
    }
}
