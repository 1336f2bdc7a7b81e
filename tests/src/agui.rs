//! Canonical events as AG-UI bodies, in every dialect, setting and encoding.

use aqueduct_adapter_agui::config::{Dialect, Interrupts, Settings, Subagents};
use aqueduct_adapter_agui::convert::converters;
use aqueduct_adapter_agui::encode;
use aqueduct_adapter_agui::wire::Event;
use aqueduct_core::{BlockEvent, IntermediateView};

/// Every combination of settings.
pub fn all_settings() -> Vec<Settings> {
    let mut all = Vec::new();
    for dialect in [Dialect::V1_0, Dialect::V0_0_59] {
        for subagents in [Subagents::Attributed, Subagents::Inline, Subagents::Hidden] {
            for intermediate in
                [IntermediateView::Reasoning, IntermediateView::Text, IntermediateView::Hidden]
            {
                for interrupts in [Interrupts::Interrupt, Interrupts::Text] {
                    let settings = Settings::new(dialect).with_subagents(subagents);
                    all.push(settings.with_intermediate(intermediate).with_interrupts(interrupts));
                }
            }
        }
    }
    all
}

/// The AG-UI events of a stream.
pub fn convert(events: &[BlockEvent], settings: &Settings) -> Vec<Event> {
    let set = converters(settings);
    let mut out = Vec::new();
    events.iter().for_each(|event| set.convert(event, &mut out));
    out
}

/// The body of an SSE response.
pub fn sse_body(events: &[Event]) -> String {
    let mut body = Vec::new();
    events.iter().for_each(|event| encode::sse(event, None, &mut body).unwrap());
    String::from_utf8(body).unwrap()
}

/// The body of a protobuf response.
pub fn proto_body(events: &[Event]) -> Vec<u8> {
    let mut body = Vec::new();
    events.iter().for_each(|event| encode::proto_frame(event, &mut body).unwrap());
    body
}
