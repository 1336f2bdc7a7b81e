//! Answer and intermediate: one setting, for all protocols, of how the work on the way to an answer is shown.
//!
//! Nothing is rewritten: an event keeps its kind and channel, and only the *strategy* that translates it is
//! chosen by what it is shown as. So two watchers of one run can see it in two ways.

use crate::event::{BlockEvent, EventKind, SpanKind};
use crate::update::Channel;

/// How intermediate text is shown. Tool calls, results and custom blocks are always shown as what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IntermediateView {
    /// As thinking.
    #[default]
    Reasoning,
    /// As text, attributed to its agent.
    Text,
    /// Not at all.
    Hidden,
}

/// The kind an event is shown as; none if it is hidden.
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
