//! The end of a turn: completed, failed, cancelled, interrupted, cut.
//!
//! | what ends it | handled by | the run ends as |
//! |---|---|---|
//! | `completed` | `conclude`, `close_with`, `promote` | success |
//! | `completed` after content that reports an error | `give_up` | failed, `agent_failed` |
//! | `failed`, `rejected` | `give_up` | failed, `agent_failed` or `agent_rejected` |
//! | `canceled` | `conclude` | cancelled |
//! | the end of the stream | `handle_end` | by `AtEnd`: interrupted, success, or failed with `upstream_ended` |
//! | an error response or error event | `handle_error` | failed, by the table of `failure_of` |
//!
//! Invariant: exactly one final event per turn (`finish_with` or `fail`),
//! after all held texts, and nothing behind it. Whether that event ends the run or a lane is configured
//! (`DecodeConfig::ending`).

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
    /// Handles a terminal state, with the message of that status, its metadata (`beside`) and its time.
    ///
    /// An error that the agent reported as content decides over the state: CAIPE agents send an artifact
    /// `error_result` and then `completed`.
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
    ///
    /// | the text | becomes |
    /// |---|---|
    /// | was streamed in status texts | nothing, or the part that it adds |
    /// | there is no answer yet | the answer |
    /// | repeats or extends one artifact | a snapshot of that artifact: the added part is shown |
    /// | repeats all artifacts together | nothing |
    /// | anything else ("Done." beside artifacts) | a separate text on the channel of `DecodeConfig::closing_remark` |
    ///
    /// Parts that are not text are emitted in every case.
    fn close_with(
        &mut self,
        message: Message<'_>,
        beside: Metadata,
        at: Option<Timestamp>,
        live: bool,
        sink: &mut Sink<'_>,
    ) {
        let mut message = message;
        // First the comparison with status texts: it also settles texts that are held.
        if self.concludes(&message.parts, sink) {
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
        // Then the comparison with artifacts. `target` is the artifact that the text repeats or extends.
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
        // The text extends or equals an artifact: emitted under the artifact's id, so that the stream machine
        // compares both.
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
            self.emit_other(&part, &mut place, sink);
        }
    }

    /// Emits the last status text as the answer, if a task completes without a message and has shown nothing else.
    ///
    /// Older agents answer in a `working` status. A held text was not shown yet and becomes the answer; a text that
    /// was shown as a notice is emitted again, with the metadata `aqueduct.textFrom: status`, because a frontend that
    /// hides intermediate text would show nothing. Off with `DecodeConfig::promote_last_status`.
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
    ///
    /// The failure's message is, in this order: for `completed` the reported error, then the status message;
    /// otherwise the status message, the reported error, an error event that preceded a cut. Its `details` have the
    /// task's ids, the state, and the metadata of the message.
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
        // The text is the failure's message. Files and data of the last status stay content.
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
    ///
    /// A client that can reconnect must not call this at every end: [`TaskClient`](crate::client::TaskClient)
    /// subscribes again, and calls it only where the end of the stream is the end of the turn. No effect on a turn
    /// that has settled.
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

    /// Returns `true` if the end of the stream would not be a cut: an interrupt is pending, or a message has
    /// answered.
    pub(crate) fn rests_at_end(&self) -> bool {
        self.at_end != AtEnd::Cut
    }

    /// Returns the failure for a cut: `upstream_ended`, with the task's ids. The start of a frame that could not be
    /// decoded is added as `unread` (200 characters: enough to see the kind of the frame, short enough for a log
    /// line).
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

    /// Ends the run, or the lane, without failure and without a result.
    pub(super) fn finish(&mut self, how: Settled, out: &mut Vec<SourceEvent>) {
        self.finish_with(how, None, out);
    }

    /// Ends the run, or the lane, without failure. `result` is the value that Aqueduct's own server sends with the
    /// end of a run; A2A itself has no place for one.
    ///
    /// Callers check that the turn has not settled.
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

    /// Ends the run, or the lane, as failed. Held texts are emitted as notices first. No effect on a turn that has
    /// settled: the first end counts.
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

    /// Records an error that the agent reported on the stream before the stream ended: the reason of the failure, if
    /// the task turns out to be `failed` without a message. A blank message is not recorded.
    pub(crate) fn note_error(&mut self, error: &WireError) {
        self.reported = Some(error.message.clone()).filter(|message| !message.trim().is_empty());
    }

    /// Ends the task as cancelled, without confirmation by the agent: the message was never sent, the agent does not
    /// know the task, or it refuses to cancel and no caller waits for the result.
    pub(crate) fn cancelled(&mut self, out: &mut Vec<SourceEvent>) {
        if self.settled.is_none() {
            self.finish(Settled::Cancelled, out);
        }
    }
}

/// Converts an error of the peer into a failure. The table is in `docs/a2a.md` §4.
///
/// A code that the transport has assigned (`WireError::failure`: unreachable, timeout) takes precedence. Code, HTTP
/// status, reason and data of the error become `details`. A blank message is replaced, because a failure without text
/// cannot be shown.
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
