//! The converter strategy: [`BlockEventConverter`], one small implementation per kind of event and protocol, and
//! [`ConverterSet`], which dispatches to them in constant time.
//!
//! Converters see only balanced events, so they cannot produce a broken stream; and they keep no state (`&self`),
//! so a watcher of a run can start at any event. They decide *what* an event looks like; *when* blocks open and
//! close was decided before.

use std::fmt;
use std::sync::Arc;

use crate::event::{BlockEvent, EventKind};
use crate::presentation::{IntermediateView, shown_kind};

/// Translates events of one kind into one protocol.
///
/// Any `Fn(&BlockEvent, &mut Vec<E>)` is one: a user's own converter can be a closure.
pub trait BlockEventConverter<E>: Send + Sync {
    /// Appends what `event` looks like in the protocol: nothing, one event or several.
    fn convert(&self, event: &BlockEvent, out: &mut Vec<E>);
}

impl<E, F: Fn(&BlockEvent, &mut Vec<E>) + Send + Sync> BlockEventConverter<E> for F {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<E>) {
        self(event, out);
    }
}

/// One converter per [`EventKind`]. Cheap to clone; replacing a strategy in a clone leaves the original as it was.
pub struct ConverterSet<E> {
    strategies: [Arc<dyn BlockEventConverter<E>>; EventKind::ALL.len()],
    intermediate: IntermediateView,
}

impl<E: 'static> ConverterSet<E> {
    /// A set in which one converter serves every kind. Adapters start here and replace kind by kind.
    pub fn uniform(converter: impl BlockEventConverter<E> + 'static) -> Self {
        let shared: Arc<dyn BlockEventConverter<E>> = Arc::new(converter);
        Self {
            strategies: std::array::from_fn(|_| Arc::clone(&shared)),
            intermediate: IntermediateView::default(),
        }
    }

    /// The same set with another strategy for one kind.
    pub fn with(mut self, kind: EventKind, converter: impl BlockEventConverter<E> + 'static) -> Self {
        if let Some(slot) = self.strategies.get_mut(kind as usize) {
            *slot = Arc::new(converter);
        }
        self
    }

    /// The same set, showing intermediate text that way.
    pub fn with_intermediate(mut self, view: IntermediateView) -> Self {
        self.intermediate = view;
        self
    }

    /// Appends what `event` looks like in the protocol.
    pub fn convert(&self, event: &BlockEvent, out: &mut Vec<E>) {
        if let Some(kind) = shown_kind(event, self.intermediate)
            && let Some(strategy) = self.strategies.get(kind as usize)
        {
            strategy.convert(event, out);
        }
    }
}

impl<E> Clone for ConverterSet<E> {
    fn clone(&self) -> Self {
        Self { strategies: self.strategies.clone(), intermediate: self.intermediate }
    }
}

impl<E> fmt::Debug for ConverterSet<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConverterSet").field("intermediate", &self.intermediate).finish_non_exhaustive()
    }
}
