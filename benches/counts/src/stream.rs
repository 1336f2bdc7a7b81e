//! The stream machine, the coalescer, and AG-UI's encoder in both dialects.

use aqueduct_adapter_agui::config::{Dialect, Settings};
use aqueduct_adapter_agui::encode::WatcherEncoder;
use aqueduct_adapter_agui::version::Encoding;
use aqueduct_core::coalesce::Coalescer;
use aqueduct_core::service::{EventEncoder as _, NumberedEvent, PayloadSink};
use aqueduct_core::{
    BlockEvent, ByteString, ContentBlock, RunInfo, RunOutcome, SourceEvent, StreamContext, Update,
};

use crate::{EVENTS, case, is_wanted};

/// The most text of a merged delta, as transports set it.
const MERGED: usize = 4 * 1024;

pub(crate) fn run() {
    machine("machine, text deltas", false);
    machine("machine, nine of ten text deltas", true);
    if is_wanted("coalescer, text deltas") {
        let mut waiting: Vec<NumberedEvent> =
            (1..).zip(deltas(EVENTS)).map(|(number, event)| NumberedEvent { number, event }).collect();
        case(EVENTS, || coalesce(std::mem::take(&mut waiting)));
    }
    for (name, settings) in ["1.0", "0.0"].into_iter().zip(dialects()) {
        if is_wanted(&format!("encode AG-UI {name}, text deltas")) {
            let (events, mut out) = (deltas(EVENTS), Bytes::new(settings));
            case(EVENTS, || {
                for event in &events {
                    out.write(event);
                }
                out.take()
            });
        }
    }
}

fn machine(name: &str, with_tools: bool) {
    if is_wanted(name) {
        let mut waiting = updates(EVENTS, with_tools);
        case(EVENTS, || polled(std::mem::take(&mut waiting)));
    }
}

/// Returns the settings of a peer that declares AG-UI 1.0, and of one that declares nothing.
pub(crate) fn dialects() -> [Settings; 2] {
    [Settings::new(Dialect::V1_0), Settings::for_declared(None)]
}

/// Returns the events of a run with that many text deltas and its end.
pub(crate) fn deltas(count: usize) -> Vec<BlockEvent> {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    for update in updates(count, false) {
        context.handle_update(update).ok();
    }
    context.handle_event(SourceEvent::Finished { outcome: RunOutcome::Success, result: None }).ok();
    std::iter::from_fn(|| context.poll_event()).collect()
}

fn updates(count: usize, with_tools: bool) -> Vec<Update> {
    let (text, message) = (ByteString::from("some twenty bytes, ok"), ByteString::from("message-1"));
    let update = |number: usize| {
        let call = format!("call-{}", number / 20);
        match number % 20 {
            18 if with_tools => Update::new(ContentBlock::tool_use(call, "search", r#"{"query":"rust"}"#)),
            19 if with_tools => Update::new(ContentBlock::tool_result(call, "found")),
            _ => Update::text(text.clone()).in_message(message.clone()),
        }
    };
    (0..count).map(update).collect()
}

/// Polls after each update, as a driver does.
fn polled(updates: Vec<Update>) -> usize {
    let mut context = StreamContext::new(RunInfo::new("thread", "run"));
    let mut polled = 0;
    for update in updates {
        if let Err(error) = context.handle_update(update) {
            context.handle_failure((&error).into());
        }
        polled += std::iter::from_fn(|| context.poll_event()).count();
    }
    polled
}

/// Merges what waits for a reader that is behind.
fn coalesce(events: Vec<NumberedEvent>) -> usize {
    let (mut coalescer, mut sent) = (Coalescer::default(), 0);
    for event in events {
        if let Some(event) = coalescer.handle_event(event, MERGED) {
            sent += usize::from(coalescer.take().and_then(|gathered| gathered.merged()).is_some());
            sent += usize::from(coalescer.handle_event(event, MERGED).is_none());
        }
    }
    sent
}

/// AG-UI payloads in a buffer that is flushed and reused, as in a transport.
pub(crate) struct Bytes {
    encoder: WatcherEncoder,
    sink: Sink,
}

#[derive(Default)]
struct Sink {
    buffer: Vec<u8>,
    flushed: usize,
}

/// The size at which the buffer is flushed.
const FLUSHED: usize = 16 * 1024;

impl Bytes {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { encoder: WatcherEncoder::for_settings(&settings, Encoding::Json), sink: Sink::default() }
    }

    pub(crate) fn write(&mut self, event: &BlockEvent) {
        self.encoder.encode(event, &mut self.sink);
    }

    /// Returns the number of bytes since the last call.
    pub(crate) fn take(&mut self) -> usize {
        let written = self.sink.flushed + self.sink.buffer.len();
        self.sink.buffer.clear();
        self.sink.flushed = 0;
        written
    }
}

impl PayloadSink for Sink {
    fn push(&mut self, write: &mut dyn FnMut(&mut Vec<u8>)) {
        write(&mut self.buffer);
        if self.buffer.len() > FLUSHED {
            self.flushed += self.buffer.len();
            self.buffer.clear();
        }
    }
}
