//! The input dialects: payloads to source events, and where one run of an input ends and the next begins.
//!
//! | dialect | a run begins with | input after the end |
//! |---|---|---|
//! | A2A | the first item; after the end: another task, a task or message again, an update of a task that was interrupted | late |
//! | AG-UI | `RUN_STARTED`, also if the run before was cut | late |
//! | magentic | the first line; after the end: a line that the decoder reads as a new run | counted by the decoder |

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
#[derive(Debug)]
pub(super) enum SourceReader {
    A2a(Box<A2aReader>),
    Agui(Box<AguiDecoder>),
    Magentic(Box<magentic::Decoder>),
}

impl SourceReader {
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

fn tell_magentic(decoder: &mut magentic::Decoder, runs: &mut Runs) {
    while let Some(event) = decoder.poll_event() {
        if !runs.is_open() {
            let known_calls = decoder.waiting_calls().cloned().collect();
            runs.begin(Beginning { known_calls, ..Beginning::default() });
        }
        runs.handle_event(event);
    }
}

fn read_agui(decoder: &mut AguiDecoder, payload: &Payload, runs: &mut Runs) -> Result<(), String> {
    let event = read_payload(&payload.text).map_err(|error| error.to_string())?;
    if let Event::RunStarted(started) = &event {
        *decoder = AguiDecoder::new();
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
    dialect: Dialect,
    decoder: A2aDecoder,
    scratch: Vec<SourceEvent>,
}

impl A2aReader {
    fn new(dialect: Dialect) -> Self {
        Self { dialect, decoder: decoder(dialect), scratch: Vec::new() }
    }

    fn handle_payload(&mut self, payload: &Payload, runs: &mut Runs) -> Result<(), String> {
        let frame = Frame { event: payload.event.as_deref(), data: &payload.text };
        let content = frame.parse(self.dialect).map_err(|error| error.to_string())?;
        match (self.decoder.settled(), &content) {
            (None, _) => {}
            (Some(settled), FrameContent::Item(item)) if self.starts_turn(settled, item) => {
                self.start_turn(settled, item);
            }
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

    fn handle_eof(&mut self, runs: &mut Runs) {
        if self.decoder.settled().is_none() && runs.is_open() {
            self.decoder.handle_end(&mut self.scratch);
            self.tell(runs);
        }
    }

    fn tell(&mut self, runs: &mut Runs) {
        self.scratch.drain(..).for_each(|event| runs.handle_event(event));
    }

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

fn decoder(dialect: Dialect) -> A2aDecoder {
    A2aDecoder::new(DecodeConfig { dialect, ..DecodeConfig::root() })
}

fn context_of(content: &FrameContent<'_>) -> Option<ByteString> {
    let FrameContent::Item(item) = content else { return None };
    Some(item.context_id()).filter(|id| !id.is_empty()).map(ByteString::from)
}
