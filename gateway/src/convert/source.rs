//! The input dialects: payloads to source events, and where one run of an input ends and the next begins.
//!
//! | dialect | a run begins with | input after the end |
//! |---|---|---|
//! | A2A | the first item; after the end: another task, a task or message again, an update of a task that was interrupted | late |
//! | AG-UI | `RUN_STARTED`, also if the run before was cut | late |
//! | magentic | the first line; after the end: a line that the decoder reads as a new run | counted by the decoder |
//!
//! A decoder keeps the state of one run. It is replaced when the next run begins, except that an interrupted
//! A2A task hands its state on, so that its next turn does not repeat what was emitted.

use aqueduct_adapter_a2a::wire::{Dialect, Frame, FrameContent, StateClass, StreamItem};
use aqueduct_adapter_a2a::{DecodeConfig, Decoder as A2aDecoder, Settled};
use aqueduct_adapter_agui::decode::{Decoder as AguiDecoder, read_payload};
use aqueduct_adapter_agui::error::Error as AguiError;
use aqueduct_adapter_agui::wire::Event;
use aqueduct_adapter_magentic as magentic;
use aqueduct_core::{ByteString, SourceEvent};

use super::runs::{Beginning, Runs};
use crate::cli::FromDialect;
use crate::input::Payload;

/// A decoder of one input. A payload that cannot be decoded returns a sentence with the reason.
///
/// Variants are boxed: decoders are large and differ in size.
#[derive(Debug)]
pub(super) enum SourceReader {
    A2a(Box<A2aReader>),
    Agui(Box<AguiDecoder>),
    Magentic(Box<magentic::Decoder>),
}

impl SourceReader {
    /// Returns the decoder of a dialect. `Auto` is resolved by the caller, and is read as AG-UI if it is not.
    pub(super) fn new(dialect: FromDialect) -> Self {
        match dialect {
            FromDialect::A2a => Self::A2a(Box::new(A2aReader::new(Dialect::V1))),
            FromDialect::A2a03 => Self::A2a(Box::new(A2aReader::new(Dialect::V03JsonRpc))),
            FromDialect::Agui | FromDialect::Auto => Self::Agui(Box::default()),
            FromDialect::Magentic => {
                let config =
                    magentic::Config { numbering: magentic::Numbering::Run, ..magentic::Config::default() };
                Self::Magentic(Box::new(magentic::Decoder::new(config)))
            }
        }
    }

    /// Decodes one payload into events of the open run, or of a new one.
    ///
    /// # Errors
    ///
    /// The payload is not valid in the dialect. The open run stays open; the caller decides whether to end it.
    pub(super) fn handle_payload(&mut self, payload: &Payload, runs: &mut Runs) -> Result<(), String> {
        match self {
            Self::A2a(reader) => reader.handle_payload(payload, runs),
            Self::Agui(decoder) => read_agui(decoder, payload, runs),
            Self::Magentic(decoder) => {
                let read = decoder.handle_line(&payload.text);
                tell_magentic(decoder, runs);
                read.map_err(|error| error.to_string())
            }
        }
    }

    /// Ends the input. Decoders that hold input back release it; `Runs::finish` ends a run that is still open.
    pub(super) fn handle_eof(&mut self, runs: &mut Runs) {
        match self {
            Self::A2a(reader) => reader.handle_eof(runs),
            Self::Agui(_) => {}
            Self::Magentic(decoder) => {
                // The lines held back were readable one by one, so a failure here has no other cause.
                if let Err(error) = decoder.handle_eof() {
                    runs.handle_event(SourceEvent::Failed((&error).into()));
                }
                tell_magentic(decoder, runs);
                (0..decoder.counts().late).for_each(|_| runs.note_late());
            }
        }
    }
}

/// Moves the decoded events into the runs. A new run knows the tool calls that wait from the run before, so
/// that their results are accepted.
fn tell_magentic(decoder: &mut magentic::Decoder, runs: &mut Runs) {
    while let Some(event) = decoder.poll_event() {
        if !runs.is_open() {
            let known_calls = decoder.waiting_calls().cloned().collect();
            runs.begin(Beginning { known_calls, ..Beginning::default() });
        }
        runs.handle_event(event);
    }
}

/// Decodes one AG-UI event. `RUN_STARTED` begins a run with the ids that it contains:
///
/// ```text
/// {"type":"RUN_STARTED","threadId":"t","runId":"r"}  ──► Beginning { thread: t, run: r }
/// ```
fn read_agui(decoder: &mut AguiDecoder, payload: &Payload, runs: &mut Runs) -> Result<(), String> {
    let event = read_payload(&payload.text).map_err(|error| error.to_string())?;
    if let Event::RunStarted(started) = &event {
        *decoder = AguiDecoder::new();
        // The decoder has to know the earlier messages, so that a history that the run restates adds no
        // content.
        if let Some(input) = &started.input {
            *decoder = AguiDecoder::new().with_input(input);
        }
        runs.begin(Beginning {
            thread: Some(started.thread_id.clone()),
            run: Some(started.run_id.clone()),
            parent: started.parent_run_id.clone(),
            known_calls: Vec::new(),
        });
    }
    match decoder.handle_event(event) {
        Ok(()) => {}
        Err(AguiError::AfterEnd(_)) => runs.note_late(),
        Err(error) => return Err(error.to_string()),
    }
    while let Some(event) = decoder.poll_event() {
        runs.handle_event(event);
    }
    Ok(())
}

/// Decodes A2A: the turns of one or more tasks.
#[derive(Debug)]
pub(super) struct A2aReader {
    /// The version that `--from` names, or that was detected.
    dialect: Dialect,
    decoder: A2aDecoder,
    /// Reused between frames; empty between two calls.
    scratch: Vec<SourceEvent>,
}

impl A2aReader {
    fn new(dialect: Dialect) -> Self {
        Self { dialect, decoder: decoder(dialect), scratch: Vec::new() }
    }

    /// Decodes one frame. After the end of a turn, the frame may begin the next turn, repeat the final status,
    /// or be late.
    fn handle_payload(&mut self, payload: &Payload, runs: &mut Runs) -> Result<(), String> {
        let frame = Frame { event: payload.event.as_deref(), data: &payload.text };
        let content = frame.parse(self.dialect).map_err(|error| error.to_string())?;
        match (self.decoder.settled(), &content) {
            (None, _) => {}
            (Some(settled), FrameContent::Item(item)) if self.starts_turn(settled, item) => {
                self.start_turn(settled, item);
            }
            // Agents repeat the final status without content; that is not late input.
            (Some(_), FrameContent::Item(StreamItem::Status(update))) if update.status.message.is_none() => {
                return Ok(());
            }
            (Some(_), _) => {
                runs.note_late();
                return Ok(());
            }
        }
        if !runs.is_open() {
            runs.begin(Beginning { thread: context_of(&content), ..Beginning::default() });
        }
        self.decoder.handle_frame(frame, &mut self.scratch);
        self.tell(runs);
        Ok(())
    }

    /// Ends an open turn as cut.
    fn handle_eof(&mut self, runs: &mut Runs) {
        if self.decoder.settled().is_none() && runs.is_open() {
            self.decoder.handle_end(&mut self.scratch);
            self.tell(runs);
        }
    }

    /// Moves the decoded events into the runs.
    fn tell(&mut self, runs: &mut Runs) {
        self.scratch.drain(..).for_each(|event| runs.handle_event(event));
    }

    /// Returns `true` if an item after the end of a turn begins another one, as the table of this module says.
    fn starts_turn(&self, settled: Settled, item: &StreamItem<'_>) -> bool {
        let known = self.decoder.task_ref();
        let is_same = known.is_some_and(|task| task.task_id == item.task_id());
        match item {
            _ if !is_same => true,
            StreamItem::Task(task) => task.status.state.class() != StateClass::Terminal,
            StreamItem::Message(_) => true,
            // A status, an artifact, or an item of a later version: an update of a task that was interrupted.
            _ => settled == Settled::Interrupted,
        }
    }

    /// Replaces the decoder. The next turn of an interrupted task keeps the memory of the task.
    fn start_turn(&mut self, settled: Settled, item: &StreamItem<'_>) {
        let known = self.decoder.task_ref();
        let goes_on = settled == Settled::Interrupted && known.is_some_and(|t| t.task_id == item.task_id());
        let before = std::mem::replace(&mut self.decoder, decoder(self.dialect));
        if goes_on {
            let config = DecodeConfig { dialect: self.dialect, follow_up: true, ..DecodeConfig::root() };
            self.decoder = A2aDecoder::resuming(config, before.into_memory());
        }
    }
}

/// Returns a decoder without memory of earlier turns.
fn decoder(dialect: Dialect) -> A2aDecoder {
    A2aDecoder::new(DecodeConfig { dialect, ..DecodeConfig::root() })
}

/// Returns the context id of an item, which becomes the thread of the run.
fn context_of(content: &FrameContent<'_>) -> Option<ByteString> {
    let FrameContent::Item(item) = content else { return None };
    Some(item.context_id()).filter(|id| !id.is_empty()).map(ByteString::from)
}
