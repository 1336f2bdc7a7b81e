//! Conversion of updates, messages and whole responses to canonical updates.
//!
//! | input | mode | why |
//! |---|---|---|
//! | a fragment | `Append` | it follows the earlier ones |
//! | `merge_mode: replace` | `Replace`, last | the Responses client repeats the whole text when an item is done |
//! | a whole message with an id | `Snapshot`, last | an aggregator keeps the ids of the messages it repeats |
//! | a whole message without id | `Append`, last, unless the agent has already sent it | there is no id to compare by |
//! | an update that repeats a finished message | nothing | `as_agent()` turns an aggregate into updates |
//!
//! User messages that an output repeats are not output.

use std::collections::HashMap;

use aqueduct_core::{
    ByteString, Channel, ContentBlock, LaneOutcome, Mode, Role, Source, SourceEvent, Timestamp,
};

use super::history::History;
use super::run::Run;
use super::update::{Form, MessageHead, Terms, metadata};
use super::usage::usage;
use crate::wire::{AgentResponse, AgentResponseUpdate, Content, MergeMode, Message, Text};

/// The origin of content: its line, the executor that produced it, and its channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Output<'l> {
    pub(super) line: &'l ByteString,
    pub(super) executor: Option<&'l str>,
    pub(super) channel: Channel,
}

/// The metadata of a response, for its messages.
#[derive(Debug, Default)]
pub(super) struct ResponseMeta {
    pub(super) response_id: Option<ByteString>,
    pub(super) created_at: Option<Timestamp>,
}

impl ResponseMeta {
    /// Returns the fields of a response that its messages share.
    pub(super) fn of(response: &AgentResponse<'_>, line: &ByteString) -> Self {
        Self {
            response_id: response.response_id.as_ref().map(|id| id.share(line)),
            created_at: response.created_at.as_ref().and_then(|at| timestamp(at)),
        }
    }
}

/// Counts the texts without id in a response, each of which can be a repetition of an earlier occurrence.
#[derive(Debug, Default)]
struct Repeated(HashMap<u64, u32>);

impl Repeated {
    /// Counts a text. Returns `true` if the history contains it more often than this response before this call.
    fn takes(&mut self, history: &History, text_key: u64) -> bool {
        let had = self.0.entry(text_key).or_default();
        *had += 1;
        history.times(text_key) >= *had
    }
}

impl Run {
    /// Handles a fragment of an executor.
    pub(super) fn handle_update(&mut self, output: Output<'_>, update: &AgentResponseUpdate<'_>) {
        let Output { line, executor, channel } = output;
        let author = update.author_name.as_deref();
        let source = self.sources.author(executor, author);
        let id = update.message_id.as_deref().filter(|id| !id.is_empty());
        let head = MessageHead {
            channel,
            role: role(update.role.as_deref()),
            message_id: id.and(update.message_id.as_ref()).map(|id| id.share(line)),
            response_id: self.response_id(&source, update.response_id.as_ref(), line),
            created_at: update.created_at.as_ref().and_then(|at| timestamp(at)),
            metadata: metadata(update.additional_properties, &update.unknown),
            source,
        };
        // Tool results are in messages of their own; the text of the agent before them has ended.
        if head.role == Role::Tool {
            self.end_message(&head, None, None);
        }
        let over = id.is_some() && self.history.is_over(&head.source, channel, id);
        let restated = over && self.restates(&head, &update.contents);
        let form = if restated { Form::Restated } else { Form::Fragment };
        let turn = executor.or(author).unwrap_or_default();
        let finish = update.finish_reason.as_ref().map(|reason| reason.share(line));
        for (index, content) in update.contents.iter().enumerate() {
            let is_last = finish.is_some() && index + 1 == update.contents.len();
            let terms = Terms { form, merge: update.merge_mode, is_last };
            self.handle_content(line, turn, &head, content, terms);
        }
        if finish.is_some() {
            self.end_message(&head, id, finish);
        }
    }

    /// Handles a whole response of an executor.
    pub(super) fn handle_response(&mut self, output: Output<'_>, response: &AgentResponse<'_>) {
        let Output { line, executor, channel } = output;
        self.handle_messages(output, &response.messages, &ResponseMeta::of(response, line));
        let source = executor.map_or_else(Source::root, |id| self.sources.executor(id));
        if let Some(details) = response.usage_details
            && let Some(usage) = self.spending.total(executor.unwrap_or_default(), &usage(details))
        {
            self.emit(SourceEvent::Usage { source: source.clone(), usage: Box::new(usage) });
        }
        if let Some(value) = response.value {
            self.data(&source, channel, value.value());
        }
    }

    /// Handles whole messages of an executor; some may be of other agents.
    pub(super) fn handle_messages(
        &mut self,
        output: Output<'_>,
        messages: &[Message<'_>],
        meta: &ResponseMeta,
    ) {
        let mut others: Vec<Source> = Vec::new();
        let mut repeated = Repeated::default();
        for message in messages {
            let maker = self.handle_message(output, message, meta, &mut repeated);
            others.extend(maker.filter(|maker| output.executor.is_some() && !others.contains(maker)));
        }
        // A participant whose message an aggregator repeats is not working again.
        for source in others {
            self.emit(SourceEvent::LaneClosed { source, outcome: LaneOutcome::Success(None) });
        }
    }

    /// Handles a whole message of an executor. Returns its author if that is another agent without open turn.
    fn handle_message(
        &mut self,
        Output { line, executor, channel }: Output<'_>,
        message: &Message<'_>,
        meta: &ResponseMeta,
        repeated: &mut Repeated,
    ) -> Option<Source> {
        let role = role(message.role.as_deref());
        if matches!(role, Role::User | Role::System | Role::Developer) {
            return None;
        }
        let id = message.message_id.as_deref().filter(|id| !id.is_empty());
        let author = message.author_name.as_deref();
        let head = MessageHead {
            channel,
            role,
            message_id: id.and(message.message_id.as_ref()).map(|id| id.share(line)),
            response_id: meta.response_id.clone(),
            created_at: meta.created_at,
            metadata: metadata(message.additional_properties, &message.unknown),
            source: self.sources.maker(executor, author, id),
        };
        let own = self.sources.author(executor, author) == head.source;
        let text = message.text();
        let restated = match id {
            Some(_) => {
                self.history.is_over(&head.source, channel, id) && self.restates(&head, &message.contents)
            }
            None => !own && repeated.takes(&self.history, History::text_key(&head.source, channel, &text)),
        };
        let form = match (restated, own) {
            (true, _) => Form::Restated,
            (false, true) => Form::Whole,
            (false, false) => Form::Gathered,
        };
        let terms = Terms { form, merge: MergeMode::Append, is_last: false };
        self.handle_parts(line, executor.unwrap_or_default(), &head, &message.contents, terms);
        if !restated {
            self.history.replace(&head.source, channel, id, &text);
        }
        let outer = outermost(&head.source);
        let idle = !self.turns.iter().any(|turn| **turn == *outer.key());
        (!own && idle).then(|| outer.clone())
    }

    /// Handles the contents of a whole message. Texts of a message with id form one text, so that a later repetition of the
    /// message can be compared with it.
    fn handle_parts(
        &mut self,
        line: &ByteString,
        turn: &str,
        head: &MessageHead,
        contents: &[Content<'_>],
        terms: Terms,
    ) {
        let grows = head.message_id.is_some() && terms.form != Form::Restated;
        let mut so_far = ByteString::new();
        for (index, content) in contents.iter().enumerate() {
            if grows && let Some(text) = content.text.as_ref().filter(|_| content.is_text()) {
                so_far =
                    if so_far.is_empty() { text.share(line) } else { [&*so_far, &**text].concat().into() };
                self.append(head, ContentBlock::text(so_far.clone()), Mode::Snapshot, false);
                self.emit_citations(head, content);
            } else {
                let terms = Terms { is_last: index + 1 == contents.len(), ..terms };
                self.handle_content(line, turn, head, content, terms);
            }
        }
        if grows && !so_far.is_empty() {
            self.append(head, ContentBlock::text(so_far), Mode::Snapshot, true);
        }
    }

    /// Returns `true` if contents only repeat a finished message: its text, or if it has none its calls or thinking. The id alone
    /// is not sufficient, because some sources reuse ids.
    fn restates(&self, head: &MessageHead, contents: &[Content<'_>]) -> bool {
        let joined = |kind: &str| -> String {
            contents
                .iter()
                .filter(|content| &*content.kind == kind)
                .filter_map(|c| c.text.as_deref())
                .collect()
        };
        let text = joined("text");
        if !text.is_empty() {
            let id = head.message_id.as_deref().unwrap_or_default();
            return self.history.restates(&head.source, head.channel, id, &text);
        }
        let mut calls =
            contents.iter().filter(|content| content.is_call()).filter_map(|c| c.call_id.as_deref());
        if let Some(call) = calls.next() {
            return self.history.has_called(&head.source, call);
        }
        let thought = joined("text_reasoning");
        !thought.is_empty() && self.thoughts.has_text(&head.source, Channel::Intermediate, &thought)
    }

    /// Returns the response id of an update: its own, or that of the agent's present response. The Responses client sets it only
    /// on the first and last update.
    fn response_id(
        &mut self,
        source: &Source,
        given: Option<&Text<'_>>,
        line: &ByteString,
    ) -> Option<ByteString> {
        let known = self.responses.get(source.path());
        let Some(given) = given.filter(|id| !id.is_empty()) else { return known.cloned() };
        if let Some(known) = known.filter(|known| ***known == **given) {
            return Some(known.clone());
        }
        self.responses.insert(source.path().to_owned(), ByteString::from(&**given));
        Some(given.share(line))
    }
}

/// Returns the ancestor of a source whose parent is the root.
fn outermost(source: &Source) -> &Source {
    let mut outer = source;
    while let Some(parent) = outer.parent().filter(|parent| !parent.is_root()) {
        outer = parent;
    }
    outer
}

/// Returns the canonical role. An unknown or missing one counts as the assistant.
pub(super) fn role(name: Option<&str>) -> Role {
    match name {
        Some("user") => Role::User,
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        Some("tool") => Role::Tool,
        _ => Role::Assistant,
    }
}

/// Parses ISO 8601 with an offset, as Python's `isoformat` writes it. Without an offset the time is unknown.
fn timestamp(text: &str) -> Option<Timestamp> {
    let moment = time::OffsetDateTime::parse(text, &time::format_description::well_known::Rfc3339).ok()?;
    let milliseconds = moment.unix_timestamp_nanos() / 1_000_000;
    i64::try_from(milliseconds).ok().map(Timestamp)
}
