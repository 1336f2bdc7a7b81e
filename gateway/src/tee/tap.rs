//! One call's answer as events of a lane.
//!
//! ```text
//!   bytes ──► SSE events ──► A2A decoder ──► shown as a lane ──► poll_event
//!   body ───────────────────────┘
//!
//!   quiet ── first event, or a failure ──► open ── task at rest, error, cut ──► closed
//! ```
//!
//! No IO. What a lane says is work on the way to the supervisor's answer, so all of it is intermediate; questions of
//! the sub-agent are the supervisor's to answer, so they are told as notices, unless they are raised to the user of the run
//! ([`Tap::take_questions`]); its state is not the run's, so it is
//! told as data. A lane that has ended can go on with the next call of its task: nothing is told twice.

use std::collections::VecDeque;

use aqueduct_adapter_a2a::call::TaskRef;
use aqueduct_adapter_a2a::config::Unclear;
use aqueduct_adapter_a2a::wire::{Dialect, Frame, WireError};
use aqueduct_adapter_a2a::{DecodeConfig, Decoder, Settled, TaskMemory};
use aqueduct_core::{
    ByteString, Channel, ContentBlock, Interrupt, LaneOutcome, RunFailure, Source, SourceEvent, Update,
    wellknown,
};
use aqueduct_transport_http::sse;
use bytes::Bytes;
use serde_json::{Value, json};

/// How the answer to a call is read.
#[derive(Debug, Clone)]
pub(crate) struct TapConfig {
    pub(crate) source: Source,
    pub(crate) dialect: Dialect,
    pub(crate) limits: sse::DecodeLimits,
    /// The message that is answered.
    pub(crate) message_id: Option<String>,
    /// True if the task was there before.
    pub(crate) follow_up: bool,
    /// True if questions go to the user of the run, and are no notices.
    pub(crate) raises: bool,
}

/// Reads the answer to one call.
#[derive(Debug)]
pub(crate) struct Tap {
    source: Source,
    /// None once the framing is lost.
    frames: Option<sse::Decoder>,
    decoder: Decoder,
    decoded: Vec<SourceEvent>,
    ready: VecDeque<SourceEvent>,
    is_open: bool,
    is_closed: bool,
    raises: bool,
    /// What the sub-agent asks the user of the run.
    questions: Vec<Interrupt>,
}

impl Tap {
    /// For a task of which `memory` is known from earlier calls.
    pub(crate) fn new(config: TapConfig, memory: TaskMemory) -> Self {
        let decode = DecodeConfig {
            dialect: config.dialect,
            sent_message_id: config.message_id,
            follow_up: config.follow_up,
            // Nothing is an answer here, so nothing has to be told again as one.
            promote_last_status: false,
            unclear: Unclear::Show,
            ..DecodeConfig::lane(config.source.clone())
        };
        Self {
            source: config.source,
            frames: Some(sse::Decoder::new(config.limits)),
            decoder: Decoder::resuming(decode, memory),
            decoded: Vec::new(),
            ready: VecDeque::new(),
            is_open: false,
            is_closed: false,
            raises: config.raises,
            questions: Vec::new(),
        }
    }

    /// The agent was asked, and takes its time.
    pub(crate) fn handle_wait(&mut self) {
        self.open();
    }

    /// Takes a piece of an event stream.
    pub(crate) fn handle_chunk(&mut self, chunk: Bytes) {
        if let Some(frames) = &mut self.frames {
            frames.handle_chunk(chunk);
        }
        self.read_frames();
    }

    /// The event stream is over.
    pub(crate) fn handle_end(&mut self) {
        if let Some(frames) = &mut self.frames {
            frames.handle_eof();
        }
        self.read_frames();
        self.decoder.handle_end(&mut self.decoded);
        self.show_decoded();
    }

    /// Takes an answer that is no stream. A task that works on is left open: a look at it may tell more.
    pub(crate) fn handle_body(&mut self, status: u16, body: &Bytes) {
        match (WireError::from_response(status, body), ByteString::try_from(body.clone())) {
            (None, Ok(body)) => self.decoder.handle_frame(Frame::data(&body), &mut self.decoded),
            (None, Err(_)) => {}
            (Some(error), _) => self.decoder.handle_error(&error, &mut self.decoded),
        }
        if self.decoder.task_ref().is_none() {
            self.decoder.handle_end(&mut self.decoded);
        }
        self.show_decoded();
    }

    /// No answer, or no more of it.
    pub(crate) fn handle_failure(&mut self, failure: RunFailure) {
        self.show_decoded();
        if self.decoder.settled().is_none() {
            self.close(LaneOutcome::Failed(failure));
        }
    }

    /// Something about the answer that whoever watches should know.
    pub(crate) fn handle_note(&mut self, text: &str) {
        self.open();
        let value = json!({ "text": text, "level": "warning" });
        self.ready.push_back(custom(&self.source, wellknown::NOTICE, value).into());
    }

    /// The next event, in order.
    pub(crate) fn poll_event(&mut self) -> Option<SourceEvent> {
        self.ready.pop_front()
    }

    /// The task, once it is known.
    pub(crate) fn task(&self) -> Option<TaskRef> {
        self.decoder.task_ref()
    }

    /// True while the task works, as far as is known.
    pub(crate) fn is_working(&self) -> bool {
        self.decoder.settled().is_none() && !self.is_closed
    }

    /// What a further call of the same task needs; nothing if there can be none.
    pub(crate) fn into_memory(self) -> Option<TaskMemory> {
        let may_go_on = !matches!(self.decoder.settled(), Some(Settled::Completed | Settled::Cancelled));
        (may_go_on && self.decoder.task_ref().is_some()).then(|| self.decoder.into_memory())
    }

    /// Returns `true` if the sub-agent waits for a reply of the user.
    pub(crate) fn asks(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Returns `true` if the sub-agent has restated what it was answered, and what follows shows whether it asks again.
    pub(crate) fn restates(&self) -> bool {
        self.raises && self.decoder.asks_again()
    }

    /// Returns what the sub-agent asks the user, once.
    pub(crate) fn take_questions(&mut self) -> Vec<Interrupt> {
        std::mem::take(&mut self.questions)
    }

    /// The supervisor answers from now on, also these.
    pub(crate) fn decline(&mut self, questions: &[Interrupt]) {
        self.raises = false;
        for question in questions {
            self.ready.push_back(notice(&self.source, question).into());
        }
        if self.decoder.settled().is_some() && !self.is_closed {
            self.close(LaneOutcome::Suspended);
        }
    }

    fn read_frames(&mut self) {
        while let Some(event) = self.frames.as_mut().and_then(sse::Decoder::poll_event) {
            match event {
                Ok(event) => {
                    let frame = Frame { event: event.event.as_deref(), data: &event.data };
                    self.decoder.handle_frame(frame, &mut self.decoded);
                }
                Err(error) => {
                    self.frames = None;
                    let message = format!("the agent's stream cannot be shown any further: {error}");
                    self.show_decoded();
                    return self.handle_failure(RunFailure::new(RunFailure::UPSTREAM_INVALID, message));
                }
            }
        }
        self.show_decoded();
    }

    fn show_decoded(&mut self) {
        for event in std::mem::take(&mut self.decoded) {
            if self.is_closed {
                continue;
            }
            match event {
                SourceEvent::LaneOpened(source) if source == self.source => {
                    self.is_open = true;
                    self.ready.push_back(SourceEvent::LaneOpened(source));
                }
                SourceEvent::InterruptRequested { interrupt, .. } if self.raises => {
                    self.open();
                    self.questions.push(interrupt);
                }
                // The run ends with the question, and its lanes with it.
                SourceEvent::LaneClosed { source, .. } if source == self.source && self.asks() => {}
                SourceEvent::LaneClosed { source, outcome } if source == self.source => self.close(outcome),
                event => {
                    self.open();
                    self.ready.push_back(shown(event));
                }
            }
        }
    }

    fn open(&mut self) {
        if !self.is_open {
            self.is_open = true;
            self.ready.push_back(SourceEvent::LaneOpened(self.source.clone()));
        }
    }

    fn close(&mut self, outcome: LaneOutcome) {
        self.open();
        self.is_closed = true;
        self.ready.push_back(SourceEvent::LaneClosed { source: self.source.clone(), outcome });
    }
}

/// What a sub-agent says, as it is shown in the run of its supervisor.
fn shown(event: SourceEvent) -> SourceEvent {
    match event {
        SourceEvent::Update(update) => Update { channel: Channel::Intermediate, ..update }.into(),
        SourceEvent::InterruptRequested { source, interrupt } => notice(&source, &interrupt).into(),
        SourceEvent::StateSnapshot { source, state } => data(&source, json!({ "state": state })).into(),
        SourceEvent::StateDelta { source, patch } => data(&source, json!({ "statePatch": patch })).into(),
        other => other,
    }
}

fn notice(source: &Source, interrupt: &Interrupt) -> Update {
    let words = interrupt.message.as_deref().unwrap_or("the agent waits for an answer");
    let value = json!({ "text": words, "level": "info", "code": &*interrupt.reason });
    custom(source, wellknown::NOTICE, value)
}

fn data(source: &Source, value: Value) -> Update {
    custom(source, wellknown::DATA, value)
}

fn custom(source: &Source, name: &'static str, value: Value) -> Update {
    Update::new(ContentBlock::custom(ByteString::from_static(name), value)).from_source(source).intermediate()
}

#[cfg(test)]
mod tests;
