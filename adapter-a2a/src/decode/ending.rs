//! The end of a turn: completed, failed, cancelled, interrupted, cut.

use aqueduct_core::{
    Channel, ContentBlock, LaneOutcome, MessageId, Metadata, Mode, RunFailure, RunOutcome, SourceEvent,
    Timestamp, Track, wellknown,
};
use serde_json::{Value, json};

use super::matching::AnswerMatch;
use super::parts::UpdateTarget;
use super::sink::Sink;
use super::status::joined_text;
use super::{AtEnd, Decoder, Settled, metadata};
use crate::config::{ClosingRemark, Ending};
use crate::error;
use crate::wire::{ErrorKind, Message, TaskState, WireError};

impl Decoder {
    /// Handles a terminal state.
    pub(super) fn conclude(
        &mut self,
        state: &TaskState<'_>,
        message: Option<Message<'_>>,
        beside: Metadata,
        at: Option<Timestamp>,
        live: bool,
        sink: &mut Sink<'_>,
    ) {
        match state {
            TaskState::Canceled => {
                self.release(sink);
                if let Some(message) = message {
                    self.say(message, beside, at, Channel::Intermediate, live, sink);
                }
                self.finish(Settled::Cancelled, sink.out);
            }
            TaskState::Completed if self.failure.is_none() => {
                match message {
                    Some(message) => self.close_with(message, beside, at, live, sink),
                    None => self.promote(sink),
                }
                self.finish(Settled::Completed, sink.out);
            }
            _ => self.give_up(state, message, beside, at, live, sink),
        }
    }

    /// Handles the message of a completed task: the answer, a repetition of it, or a remark beside it.
    fn close_with(
        &mut self,
        message: Message<'_>,
        beside: Metadata,
        at: Option<Timestamp>,
        live: bool,
        sink: &mut Sink<'_>,
    ) {
        let mut message = message;
        if self.concludes(&self.words(&message.parts), sink) {
            message.parts.retain(|part| !self.was_emitted(part));
            if message.parts.is_empty() {
                return;
            }
        }
        let text = joined_text(&message.parts);
        let remark = match self.config.closing_remark {
            ClosingRemark::Intermediate => Channel::Intermediate,
            ClosingRemark::Answer => Channel::Answer,
        };
        let has_other_parts = message.parts.iter().any(|part| part.as_text().is_none());
        let (channel, target) = match self.memory.match_answer(&text) {
            _ if text.trim().is_empty() => (Channel::Answer, None),
            AnswerMatch::None => (Channel::Answer, None),
            AnswerMatch::Repeats(target) | AnswerMatch::Continues(target) => (Channel::Answer, Some(target)),
            AnswerMatch::RepeatsAll => {
                self.counts.repeated += 1;
                if !has_other_parts {
                    return;
                }
                (remark, None)
            }
            AnswerMatch::ContinuesAll(_) | AnswerMatch::Differs(_) | AnswerMatch::DiffersFromAll => {
                (remark, None)
            }
        };
        let Some(target) = target else {
            // A text that was shown as a status is the answer now, and is emitted as such.
            if channel == Channel::Answer && self.memory.messages.knows(&message, &text) {
                let id = format!("answer-{}", self.memory.next());
                return self.say(
                    Message { message_id: id.into(), ..message },
                    beside,
                    at,
                    channel,
                    live,
                    sink,
                );
            }
            return self.say(message, beside, at, channel, live, sink);
        };
        let mut place = UpdateTarget {
            source: self.agent_of(&target),
            message_id: target.clone(),
            track: Track::new(target),
            channel,
            created_at: at,
            metadata: Metadata::new(),
            last: true,
        };
        self.emit_whole(&message.parts, Mode::Snapshot, &mut place, sink);
        place.metadata = metadata::of_message(&message);
        place.metadata.extend(beside);
        for part in message.parts.into_iter().filter(|part| part.as_text().is_none()) {
            self.emit_other(part, &mut place, sink);
        }
    }

    /// Emits the last status text as the answer, if a task completes without a message and has shown nothing else.
    fn promote(&mut self, sink: &mut Sink<'_>) {
        if self.answer_shown || !self.config.promote_last_status || self.promote_held(sink) {
            return;
        }
        let Some(text) = self.last_status.take() else { return };
        let mut update = self.update(ContentBlock::text(text), Channel::Answer);
        update.message_id = Some(MessageId::new(format!("answer-{}", self.memory.next())));
        update.last = true;
        let from = Metadata::from_iter([(wellknown::META_TEXT_FROM.to_owned(), "status".into())]);
        metadata::attach(&mut update, from);
        sink.push(update);
    }

    /// Handles `failed`, `rejected`, or completion with an error that the agent only sent as an artifact.
    fn give_up(
        &mut self,
        state: &TaskState<'_>,
        message: Option<Message<'_>>,
        beside: Metadata,
        at: Option<Timestamp>,
        live: bool,
        sink: &mut Sink<'_>,
    ) {
        self.release(sink);
        let said = message.as_ref().map(Message::text).filter(|text| !text.trim().is_empty());
        let told = self.failure.take().filter(|text| !text.trim().is_empty());
        let words = match state {
            TaskState::Completed => told.or(said),
            _ => said.or(told).or_else(|| self.reported.take()),
        };
        let code =
            if matches!(state, TaskState::Rejected) { error::REJECTED } else { RunFailure::AGENT_FAILED };
        let words = words.unwrap_or_else(|| format!("the agent's task ended as {state}, without saying why"));
        let mut details = self.task_metadata();
        details.insert("state".to_owned(), state.v03_name().into());
        if let Some(mut message) = message {
            let own = metadata::of_message(&message);
            if !own.is_empty() {
                details.insert("metadata".to_owned(), Value::Object(own));
            }
            message.parts.retain(|part| part.as_text().is_none());
            if !message.parts.is_empty() {
                self.say(message, Metadata::new(), at, Channel::Intermediate, live, sink);
            }
        }
        details.extend(beside);
        let mut failure = RunFailure::new(code, words.trim());
        failure.details = Some(Value::Object(details));
        self.fail(failure, sink.out);
    }

    /// Handles the end of the stream. If the task has not ended, the stream was cut, which is a failure.
    pub fn handle_end(&mut self, out: &mut Vec<SourceEvent>) {
        if self.settled.is_some() {
            return;
        }
        match self.at_end {
            AtEnd::Waits => self.finish(Settled::Interrupted, out),
            AtEnd::AsksAgain => self.ask_again(out),
            AtEnd::Answered => self.finish(Settled::Completed, out),
            AtEnd::Cut => self.fail(self.cut(), out),
        }
    }

    /// Returns `true` if the end of the stream would not be a cut.
    pub(crate) fn rests_at_end(&self) -> bool {
        self.at_end != AtEnd::Cut
    }

    /// Returns the failure for a cut.
    pub(crate) fn cut(&self) -> RunFailure {
        let words = "the agent's stream was cut before its task came to an end: the answer may be incomplete";
        let mut failure = RunFailure::new(RunFailure::UPSTREAM_ENDED, words);
        let mut details = self.task_metadata();
        if let Some(unread) = &self.unread {
            let start: String = unread.chars().take(200).collect();
            details.insert("unread".to_owned(), start.into());
        }
        failure.details = (!details.is_empty()).then_some(Value::Object(details));
        failure
    }

    /// Ends the run, or the lane, without failure.
    pub(super) fn finish(&mut self, how: Settled, out: &mut Vec<SourceEvent>) {
        self.finish_with(how, None, out);
    }

    /// As [`finish`](Self::finish), with a result.
    pub(super) fn finish_with(&mut self, how: Settled, result: Option<Value>, out: &mut Vec<SourceEvent>) {
        self.release_held(out);
        self.settled = Some(how);
        out.push(match self.config.ending {
            Ending::Run => SourceEvent::Finished {
                outcome: match how {
                    Settled::Interrupted => RunOutcome::Interrupted,
                    Settled::Cancelled => RunOutcome::Cancelled,
                    _ => RunOutcome::Success,
                },
                result,
            },
            Ending::Lane => SourceEvent::LaneClosed {
                source: self.source.clone(),
                outcome: match how {
                    Settled::Interrupted => LaneOutcome::Suspended,
                    Settled::Cancelled => LaneOutcome::Cancelled,
                    _ => LaneOutcome::Success(result),
                },
            },
        });
    }

    /// Ends the run, or the lane, as failed.
    pub(crate) fn fail(&mut self, failure: RunFailure, out: &mut Vec<SourceEvent>) {
        if self.settled.is_some() {
            return;
        }
        self.release_held(out);
        self.settled = Some(Settled::Failed);
        out.push(match self.config.ending {
            Ending::Run => SourceEvent::Failed(failure),
            Ending::Lane => {
                SourceEvent::LaneClosed { source: self.source.clone(), outcome: LaneOutcome::Failed(failure) }
            }
        });
    }

    /// Records an error that the agent reported before failing: the reason, if its task has none.
    pub(crate) fn note_error(&mut self, error: &WireError) {
        self.reported = Some(error.message.clone()).filter(|message| !message.trim().is_empty());
    }

    /// Ends the task as cancelled, without confirmation by the agent.
    pub(crate) fn cancelled(&mut self, out: &mut Vec<SourceEvent>) {
        if self.settled.is_none() {
            self.finish(Settled::Cancelled, out);
        }
    }
}

/// Converts an error of the peer into a failure. The table is in `docs/a2a.md`.
pub(crate) fn failure_of(error: &WireError) -> RunFailure {
    let code = match error.kind() {
        _ if error.failure.is_some() => error.failure.unwrap_or_default(),
        ErrorKind::TaskNotFound => error::TASK_NOT_FOUND,
        ErrorKind::Unauthorized => error::UNAUTHORIZED,
        ErrorKind::VersionNotSupported => error::VERSION_NOT_SUPPORTED,
        ErrorKind::Parse
        | ErrorKind::InvalidRequest
        | ErrorKind::MethodNotFound
        | ErrorKind::InvalidParams
        | ErrorKind::ContentTypeNotSupported
        | ErrorKind::UnsupportedOperation
        | ErrorKind::PushNotificationNotSupported
        | ErrorKind::ExtensionSupportRequired
        | ErrorKind::ExtendedCardNotConfigured
        | ErrorKind::TaskNotCancelable => error::INVALID_REQUEST,
        ErrorKind::InvalidAgentResponse | ErrorKind::Internal | ErrorKind::Unavailable | ErrorKind::Other => {
            error::UPSTREAM_ERROR
        }
    };
    let words =
        if error.message.trim().is_empty() { "the agent reported an error" } else { error.message.trim() };
    let mut failure = RunFailure::new(code, words);
    let fields = [
        ("code", error.code.map(Value::from)),
        ("httpStatus", error.http_status.map(Value::from)),
        ("reason", error.reason.clone().map(Value::from)),
        ("data", error.data.clone()),
    ];
    let details: Metadata =
        fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
    failure.details = (!details.is_empty()).then(|| json!(details));
    failure
}
