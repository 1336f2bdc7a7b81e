//! Decodes the response of one call into events of a lane.
//!
//! ```text
//!   bytes ──► SSE events ──► A2A decoder ──► shown as a lane ──► poll_event
//!   body ───────────────────────┘
//!
//!   quiet ── first event, or a failure ──► open ── task ended or interrupted, error, cut ──► closed
//! ```
//!
//! No IO. Everything a lane emits is intermediate, because it is work on the way to the supervisor's answer. Interrupts
//! of the sub-agent are answered by the supervisor, so they become notices, unless they are raised to the user of the
//! run ([`Tap::take_interrupts`]). State of the sub-agent is not the state of the run, so it becomes data. A lane that
//! has ended can continue with the next call of its task; nothing is emitted twice.

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

/// A step of the response to a forwarded call, for the lane of the call.
#[derive(Debug)]
pub(crate) enum Step {
    /// The agent has received the request and has not responded yet.
    Wait,
    /// A chunk of an event stream.
    Chunk(Bytes),
    /// The end of the event stream.
    End,
    /// A response that is not a stream.
    Body { status: u16, body: Bytes },
    /// A failed call or a cut stream.
    Failure(RunFailure),
    /// A warning about the response, for watchers of the run.
    Notice(String),
}

/// How the response of a call is decoded. Cloned for each call of a lane.
#[derive(Debug, Clone)]
pub(crate) struct TapConfig {
    /// The lane: the source of all its events.
    pub(crate) source: Source,
    pub(crate) dialect: Dialect,
    /// The largest line and event of the stream, from the limits of the agent.
    pub(crate) limits: sse::DecodeLimits,
    /// The id of the message in the call.
    pub(crate) message_id: Option<String>,
    /// Set if the task existed before the call.
    pub(crate) follow_up: bool,
    /// Set if interrupts are raised to the user of the run instead of becoming notices.
    pub(crate) raises: bool,
}

/// Decodes the response of one call. Inputs are `handle_*`; events are taken by [`Tap::poll_event`] until it
/// returns `None`.
#[derive(Debug)]
pub(crate) struct Tap {
    source: Source,
    /// The SSE decoder, or `None` once the framing is invalid.
    frames: Option<sse::Decoder>,
    decoder: Decoder,
    /// Events of the decoder that are not converted yet; empty between two calls.
    decoded: Vec<SourceEvent>,
    /// Events to be polled, in order.
    ready: VecDeque<SourceEvent>,
    is_open: bool,
    /// Set once `LaneClosed` was emitted. Later events of the response are dropped, because a lane is closed
    /// once.
    is_closed: bool,
    raises: bool,
    /// Interrupts for the user of the run.
    interrupts: Vec<Interrupt>,
}

impl Tap {
    /// Creates a tap for a task whose earlier calls left `memory`.
    pub(crate) fn new(config: TapConfig, memory: TaskMemory) -> Self {
        let decode = DecodeConfig {
            dialect: config.dialect,
            sent_message_id: config.message_id,
            follow_up: config.follow_up,
            // Nothing in a lane is an answer, so no status text is emitted again as one.
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
            interrupts: Vec::new(),
        }
    }

    /// Shows that the agent has received the request and has not responded yet.
    pub(crate) fn handle_wait(&mut self) {
        self.open();
    }

    /// Handles a chunk of an event stream.
    pub(crate) fn handle_chunk(&mut self, chunk: Bytes) {
        if let Some(frames) = &mut self.frames {
            frames.handle_chunk(chunk);
        }
        self.read_frames();
    }

    /// Handles the end of the event stream.
    pub(crate) fn handle_end(&mut self) {
        if let Some(frames) = &mut self.frames {
            frames.handle_eof();
        }
        self.read_frames();
        self.decoder.handle_end(&mut self.decoded);
        self.show_decoded();
    }

    /// Handles a response that is not a stream. The lane of a task that still works stays open for a later read of the
    /// task.
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

    /// Handles a failed call or a cut stream.
    pub(crate) fn handle_failure(&mut self, failure: RunFailure) {
        self.show_decoded();
        if self.decoder.settled().is_none() {
            self.close(LaneOutcome::Failed(failure));
        }
    }

    /// Emits a notice about the response for watchers.
    pub(crate) fn handle_notice(&mut self, text: &str) {
        self.open();
        let value = json!({ "text": text, "level": "warning" });
        self.ready.push_back(custom(&self.source, wellknown::NOTICE, value).into());
    }

    /// Returns the next event, in order.
    pub(crate) fn poll_event(&mut self) -> Option<SourceEvent> {
        self.ready.pop_front()
    }

    /// Returns the task, once it is known.
    pub(crate) fn task(&self) -> Option<TaskRef> {
        self.decoder.task_ref()
    }

    /// Returns `true` while the task works, as far as is known.
    pub(crate) fn is_working(&self) -> bool {
        self.decoder.settled().is_none() && !self.is_closed
    }

    /// Returns the state for a further call of the same task, or `None` if there can be none.
    pub(crate) fn into_memory(self) -> Option<TaskMemory> {
        let may_go_on = !matches!(self.decoder.settled(), Some(Settled::Completed | Settled::Cancelled));
        (may_go_on && self.decoder.task_ref().is_some()).then(|| self.decoder.into_memory())
    }

    /// Returns `true` if the sub-agent waits for a reply of the user.
    pub(crate) fn waits_for_reply(&self) -> bool {
        !self.interrupts.is_empty()
    }

    /// Returns `true` if the sub-agent has repeated the interrupt that was answered; the next events show whether it
    /// waits for a reply again.
    pub(crate) fn restates(&self) -> bool {
        self.raises && self.decoder.asks_again()
    }

    /// Takes the interrupts for the user.
    pub(crate) fn take_interrupts(&mut self) -> Vec<Interrupt> {
        std::mem::take(&mut self.interrupts)
    }

    /// Turns these and all further interrupts into notices: the supervisor answers them.
    pub(crate) fn decline(&mut self, interrupts: &[Interrupt]) {
        self.raises = false;
        for interrupt in interrupts {
            self.ready.push_back(notice(&self.source, interrupt).into());
        }
        if self.decoder.settled().is_some() && !self.is_closed {
            self.close(LaneOutcome::Suspended);
        }
    }

    /// Decodes all complete frames. An invalid framing fails the lane: what follows cannot be found in the
    /// bytes.
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

    /// Converts decoded events and keeps the lane balanced: it opens before its first event and closes once.
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
                    self.interrupts.push(*interrupt);
                }
                // The run ends with the interrupt, and its lanes with it.
                SourceEvent::LaneClosed { source, .. } if source == self.source && self.waits_for_reply() => {
                }
                SourceEvent::LaneClosed { source, outcome } if source == self.source => self.close(outcome),
                event => {
                    self.open();
                    self.ready.push_back(shown(event));
                }
            }
        }
    }

    /// Emits `LaneOpened`, once.
    fn open(&mut self) {
        if !self.is_open {
            self.is_open = true;
            self.ready.push_back(SourceEvent::LaneOpened(self.source.clone()));
        }
    }

    /// Emits `LaneClosed`, after `LaneOpened` if nothing was emitted before.
    fn close(&mut self, outcome: LaneOutcome) {
        self.open();
        self.is_closed = true;
        self.ready.push_back(SourceEvent::LaneClosed { source: self.source.clone(), outcome });
    }
}

/// Converts an event of a sub-agent into its form in the run of the supervisor.
fn shown(event: SourceEvent) -> SourceEvent {
    match event {
        SourceEvent::Update(update) => Update { channel: Channel::Intermediate, ..update }.into(),
        SourceEvent::InterruptRequested { source, interrupt } => notice(&source, &interrupt).into(),
        SourceEvent::StateSnapshot { source, state } => data(&source, json!({ "state": state })).into(),
        SourceEvent::StateDelta { source, patch } => data(&source, json!({ "statePatch": patch })).into(),
        other => other,
    }
}

/// Returns an interrupt as a notice: the supervisor replies to it, and watchers see its message.
fn notice(source: &Source, interrupt: &Interrupt) -> Update {
    let words = interrupt.message.as_deref().unwrap_or("the agent waits for an answer");
    let value = json!({ "text": words, "level": "info", "code": &*interrupt.reason });
    custom(source, wellknown::NOTICE, value)
}

/// Returns structured content of the sub-agent.
fn data(source: &Source, value: Value) -> Update {
    custom(source, wellknown::DATA, value)
}

/// Returns an update with custom content on the intermediate channel.
fn custom(source: &Source, name: &'static str, value: Value) -> Update {
    Update::new(ContentBlock::custom(ByteString::from_static(name), value)).from_source(source).intermediate()
}

#[cfg(test)]
mod tests;
