//! [`IntermediateView`]: how intermediate text (the work on the way to an answer) is shown, for all protocols.
//!
//! The setting selects the *converter* of an event and rewrites nothing: an event keeps its kind and channel, so two
//! watchers of one run can use different views.

use crate::event::{BlockEvent, EventKind, SpanKind};
use crate::update::Channel;

/// How intermediate text is shown. Tool calls, results and custom blocks are always shown under their own kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IntermediateView {
    /// As thinking.
    #[default]
    Reasoning,
    /// As text, attributed to its agent.
    Text,
    /// Omitted.
    Hidden,
}

/// Returns the kind under which an event is converted. Returns `None` if the event is hidden.
pub fn shown_kind(event: &BlockEvent, view: IntermediateView) -> Option<EventKind> {
    let kind = event.kind();
    match event {
        BlockEvent::BlockStarted(block)
        | BlockEvent::BlockDelta { block, .. }
        | BlockEvent::BlockEnded { block, .. }
            if block.kind == SpanKind::Text && block.channel == Channel::Intermediate =>
        {
            match view {
                IntermediateView::Reasoning => Some(EventKind::Thinking),
                IntermediateView::Text => Some(kind),
                IntermediateView::Hidden => None,
            }
        }
        _ => Some(kind),
    }
}
