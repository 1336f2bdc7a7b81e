//! Applies an [`IdMap`] to an input for the source: ids, and messages that are one message of the
//! source.
//!
//! A frontend posts its whole history with the ids that this gateway emitted. The source knows its
//! own ids, and merges messages by them. So for every message, in this order:
//!
//! 1. Calls and results that only show a sub-agent are removed, and labels (`historian › search`)
//!    are stripped.
//! 2. Texts that show an interrupt or a failure are removed, with the reply that became `resume`.
//! 3. Ids of messages, calls and lanes become those of the source.
//! 4. Messages that now share an id and a kind are joined into one: the source sent them as one.
//!
//! A message whose id is not in the map passes unchanged.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use aqueduct_core::block::{Text, Thinking};
use aqueduct_core::{ByteString, ContentBlock, Message, MessageId, Role, RunInput, Source, ToolCallId};

use super::IdMap;
use crate::convert::META_AUTHOR;
use crate::input::META_MEMBERS;

/// The kind of a message for a source that merges by id: text and thinking of one id are separate
/// messages. `Other` messages are never joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Speech,
    Thought,
    Other,
}

/// Applies the map to all messages of an input: removes views, renames ids, and merges parts of one source message.
pub(super) fn apply(map: &IdMap, input: &mut RunInput) {
    let messages = without_questions(map, without_views(map, std::mem::take(&mut input.messages)));
    let mut places: HashMap<(Kind, ByteString), usize> = HashMap::new();
    let mut out: Vec<Message> = Vec::with_capacity(messages.len());
    for mut message in messages {
        let (is_mapped, replaces) = rename(map, &mut message);
        let key = message.id.as_ref().map(|id| (kind_of(&message), id.as_bytes().clone()));
        let earlier = key.as_ref().filter(|_| is_mapped).and_then(|key| places.get(key).copied());
        match (earlier.and_then(|at| out.get_mut(at)), &key) {
            (Some(earlier), Some((kind, _))) if *kind != Kind::Other => join(earlier, message, replaces),
            _ => {
                places.extend(key.map(|key| (key, out.len())));
                out.push(message);
            }
        }
    }
    input.messages = out;
}

/// Removes calls that show sub-agents, with their results, and the names of sub-agents in calls and
/// thinking: all of these are for readers only. A message that becomes empty by this is removed;
/// one that was empty before stays.
fn without_views(map: &IdMap, mut messages: Vec<Message>) -> Vec<Message> {
    for message in &mut messages {
        let label = message.id.as_ref().and_then(|id| map.labels.get(id.as_str()));
        message.contents.iter_mut().for_each(|block| strip_label(map, label, block));
    }
    let is_view = |block: &ContentBlock| {
        let id = match block {
            ContentBlock::ToolUse(call) => &call.id,
            ContentBlock::ToolResult(result) => &result.id,
            _ => return false,
        };
        id.as_ref().is_some_and(|id| map.views.contains(id.as_str()))
    };
    messages.retain_mut(|message| {
        let was_empty = message.contents.is_empty();
        message.contents.retain(|block| !is_view(block));
        was_empty || !message.contents.is_empty()
    });
    messages
}

/// Removes the name of a sub-agent before its tool or thinking.
fn strip_label(map: &IdMap, label: Option<&String>, block: &mut ContentBlock) {
    match block {
        ContentBlock::ToolUse(call) => {
            let label = call.id.as_ref().and_then(|id| map.labels.get(id.as_str()));
            let name = call.name.as_ref().zip(label).and_then(|(name, label)| name.strip_prefix(&**label));
            if let Some(name) = name.map(ByteString::from) {
                call.name = Some(name);
            }
        }
        ContentBlock::Thinking(Thinking { text, .. }) | ContentBlock::Text(Text { text }) => {
            let stripped = label.and_then(|label| text.strip_prefix(&**label)).map(ByteString::from);
            *text = stripped.unwrap_or_else(|| text.clone());
        }
        _ => {}
    }
}

/// Removes failures and interrupts that were shown as text, and the user message after the latter: they are not messages of
/// the source. The last message is never removed: a reply to an open interrupt was turned into `resume` before, and a
/// snapshot may have removed an earlier reply from the client's history.
fn without_questions(map: &IdMap, messages: Vec<Message>) -> Vec<Message> {
    let mut asked = false;
    let is_question =
        |message: &Message| message.id.as_ref().is_some_and(|id| map.interrupts.contains(id.as_str()));
    let mut keep = |message: &Message| {
        if message.id.as_ref().is_some_and(|id| map.views.contains(id.as_str())) {
            return false;
        }
        if is_question(message) {
            asked = true;
            return false;
        }
        // Only the first user message after the interrupt is its reply.
        let is_answer = asked && message.role == Role::User;
        asked &= message.role != Role::User;
        !is_answer
    };
    let last = messages.len().saturating_sub(1);
    let kept = messages.into_iter().enumerate();
    kept.filter(|(at, message)| keep(message) || (*at == last && message.role == Role::User))
        .map(|(_, message)| message)
        .collect()
}

/// Writes the source's ids. Returns whether the message's id was changed, and whether it replaces an earlier message.
fn rename(map: &IdMap, message: &mut Message) -> (bool, bool) {
    rename_lane(map, message);
    strip_notes(message);
    let mut seen = HashSet::new();
    let replaced: Vec<bool> = message.contents.iter_mut().map(|block| rename_block(map, block)).collect();
    // A corrected call was emitted under a new id that maps to the same id of the source: the last one
    // of an id is kept.
    if replaced.contains(&true) {
        // The corrected call follows the one it corrects.
        let mut kept: Vec<_> = std::mem::take(&mut message.contents).into_iter().rev().collect();
        kept.retain(|block| match block {
            ContentBlock::ToolUse(call) => call.id.as_ref().is_none_or(|id| seen.insert(id.clone())),
            _ => true,
        });
        message.contents = kept.into_iter().rev().collect();
    }
    let entry = message.id.as_ref().and_then(|id| map.messages.get(id.as_str()));
    let Some(entry) = entry else { return (false, false) };
    message.id = Some(MessageId::new(entry.source.clone()));
    (true, entry.replaces)
}

/// Writes the source's ids into a block. Returns `true` if it is a call that replaces another one.
fn rename_block(map: &IdMap, block: &mut ContentBlock) -> bool {
    let id = match block {
        ContentBlock::ToolUse(call) => &mut call.id,
        ContentBlock::ToolResult(result) => &mut result.id,
        _ => return false,
    };
    let Some(entry) = id.as_ref().and_then(|id| map.calls.get(id.as_str())) else { return false };
    *id = Some(ToolCallId::new(entry.source.clone()));
    entry.replaces
}

/// Replaces the key of a sub-agent by the id that its source knows.
fn rename_lane(map: &IdMap, message: &mut Message) {
    if let Some(entry) = map.lanes.get(message.source.key()) {
        let name = ByteString::from(message.source.name());
        let is_named = name != message.source.key();
        let source = Source::root().child(entry.source.clone());
        message.source = if is_named { source.named(name) } else { source };
    }
}

/// Removes metadata that was added for frontends: all keys under `aqueduct.`, except for the two
/// that `input` restores as members.
fn strip_notes(message: &mut Message) {
    let is_note = |key: &str| key.starts_with("aqueduct.") && ![META_AUTHOR, META_MEMBERS].contains(&key);
    let Some(metadata) = &mut message.metadata else { return };
    if metadata.keys().any(|key| is_note(key)) {
        Arc::make_mut(metadata).retain(|key, _| !is_note(key));
        message.metadata.take_if(|metadata| metadata.is_empty());
    }
}

/// Returns what a message contains: the source has separate ids for text and thinking.
fn kind_of(message: &Message) -> Kind {
    let is_thought = |block: &ContentBlock| matches!(block, ContentBlock::Thinking(_));
    let is_speech = |block: &ContentBlock| matches!(block, ContentBlock::Text(_) | ContentBlock::ToolUse(_));
    match message.role {
        Role::Assistant if message.contents.iter().all(is_speech) => Kind::Speech,
        Role::Assistant if message.contents.iter().all(is_thought) => Kind::Thought,
        _ => Kind::Other,
    }
}

/// Appends a later part of the same source message, or replaces the earlier part. A replacement
/// removes the earlier texts or the call of the same id before the later content is added.
fn join(earlier: &mut Message, later: Message, replaces: bool) {
    if replaces {
        let says_same = |block: &ContentBlock| {
            later.contents.iter().any(|other| match (block, other) {
                (ContentBlock::ToolUse(call), ContentBlock::ToolUse(other)) => call.id == other.id,
                (ContentBlock::Text(_), ContentBlock::Text(_))
                | (ContentBlock::Thinking(_), ContentBlock::Thinking(_)) => true,
                _ => false,
            })
        };
        earlier.contents.retain(|block| !says_same(block));
    }
    let is_call = |block: &ContentBlock| matches!(block, ContentBlock::ToolUse(_));
    let (calls, words): (Vec<_>, Vec<_>) = later.contents.into_iter().partition(is_call);
    // Text before calls, as in the messages of the protocol.
    let at = earlier.contents.iter().position(is_call).unwrap_or(earlier.contents.len());
    earlier.contents.splice(at..at, words);
    earlier.contents.extend(calls);
    if earlier.metadata.is_none() {
        earlier.metadata = later.metadata;
    }
}
