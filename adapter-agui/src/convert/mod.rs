//! Converters of balanced canonical events into AG-UI events: one per kind, composed by [`converters`].
//!
//! ```
//! use aqueduct_adapter_agui::config::{Dialect, Settings};
//! use aqueduct_adapter_agui::convert::converters;
//! use aqueduct_core::{BlockEvent, EventKind};
//!
//! let set = converters(&Settings::new(Dialect::V1_0))
//!     // A converter of your own for one kind: omits tool results.
//!     .with(EventKind::ToolResult, |_: &BlockEvent, _: &mut Vec<_>| {});
//! # let _ = set;
//! ```
//!
//! Converters keep no state: the event carries all that they need, so a watcher can start anywhere. Their input is balanced,
//! so their output is, too. Ids pass unchanged: the stream machine has made them unique in the thread, over all kinds.
//!
//! A text delta costs no allocation: ids and text are shared with the canonical event.

mod custom;
mod history;
mod lane;
mod run;
mod show;
mod state;
mod text;
mod thinking;
mod tool;
mod view;

#[cfg(test)]
mod tests;

use aqueduct_core::{ConverterSet, EventKind};

pub use custom::CustomConverter;
pub(crate) use history::readable;
pub use lane::{LaneConverter, StepConverter};
pub use run::{InterruptConverter, RunConverter, UsageConverter};
pub use show::{META_AUTHOR, META_CHANNEL, META_CONTINUES, META_IS_ERROR, META_OUTCOME, META_REPLACES};
pub(crate) use show::{text_prefix, thought_prefix, tool_prefix};
pub use state::StateConverter;
pub use text::TextConverter;
pub use thinking::ThinkingConverter;
pub(crate) use tool::result_content;
pub use tool::{ToolResultConverter, ToolUseConverter};
pub use view::View;

use crate::config::Settings;
use crate::wire::Event;

/// Returns the converters for these settings. Replace any of them with [`ConverterSet::with`].
pub fn converters(settings: &Settings) -> ConverterSet<Event> {
    let settings = *settings;
    ConverterSet::uniform(RunConverter::new(settings))
        .with(EventKind::Text, TextConverter::new(settings))
        .with(EventKind::Thinking, ThinkingConverter::new(settings))
        .with(EventKind::ToolUse, ToolUseConverter::new(settings))
        .with(EventKind::ToolResult, ToolResultConverter::new(settings))
        .with(EventKind::Custom, CustomConverter::new(settings))
        .with(EventKind::Lane, LaneConverter::new(settings))
        .with(EventKind::Step, StepConverter::new(settings))
        .with(EventKind::State, StateConverter::new(settings))
        .with(EventKind::Usage, UsageConverter)
        .with(EventKind::Interrupt, InterruptConverter)
        .with_intermediate(settings.intermediate)
}
