//! Balanced canonical events as A2A stream items: one small converter per kind, composed by [`converters`].
//!
//! ```
//! use aqueduct_adapter_a2a::config::Settings;
//! use aqueduct_adapter_a2a::convert::converters;
//! use aqueduct_core::{BlockEvent, EventKind};
//!
//! let set = converters(&Settings::new("task-1", "context-1"))
//!     // A converter of your own for one kind: usage is omitted.
//!     .with(EventKind::Usage, |_: &BlockEvent, _: &mut Vec<_>| {});
//! # let _ = set;
//! ```
//!
//! Content with a beginning and an end (text, thinking, tool calls) and self-contained content (results, custom
//! content) are artifacts, because only artifacts can be appended to and only they outlive the stream. Everything
//! beside the content (lanes, steps, state, usage, interrupts) is a `working` status with a data part. The
//! [marks](crate::mark) on both let Aqueduct's own client restore the canonical stream; `docs/a2a.md` §7 has the table.
//!
//! Converters keep no state: everything they need is in the event and in the settings, so a watcher can start anywhere.

mod custom;
mod run;
mod show;
mod signal;
mod tool;
mod words;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use aqueduct_core::{ConverterSet, EventKind};

pub use custom::CustomConverter;
pub use run::RunConverter;
pub use signal::{InterruptConverter, LaneConverter, StateConverter, StepConverter, UsageConverter};
pub use tool::{ToolResultConverter, ToolUseConverter};
pub use words::{PLAIN_STATUS, TextConverter, ThinkingConverter};

use crate::config::Settings;
use crate::wire::StreamItem;

/// Returns the converters for these settings. Replace any of them with [`ConverterSet::with`].
pub fn converters(settings: &Settings) -> ConverterSet<StreamItem<'static>> {
    let shared = Arc::new(settings.clone());
    let own = || Arc::clone(&shared);
    ConverterSet::uniform(RunConverter::new(own()))
        .with(EventKind::Text, TextConverter::new(own()))
        .with(EventKind::Thinking, ThinkingConverter::new(own()))
        .with(EventKind::ToolUse, ToolUseConverter::new(own()))
        .with(EventKind::ToolResult, ToolResultConverter::new(own()))
        .with(EventKind::Custom, CustomConverter::new(own()))
        .with(EventKind::Lane, LaneConverter::new(own()))
        .with(EventKind::Step, StepConverter::new(own()))
        .with(EventKind::State, StateConverter::new(own()))
        .with(EventKind::Usage, UsageConverter::new(own()))
        .with(EventKind::Interrupt, InterruptConverter::new(own()))
        .with_intermediate(settings.intermediate)
}
