//! The converter strategy: [`BlockEventConverter`], one small implementation per kind of event and protocol, and
//! [`ConverterSet`], which dispatches to them in constant time.
//!
//! Converters receive only balanced events, so they cannot produce an unbalanced stream, and they keep no state
//! (`&self`), so a watcher of a run can start at any event. A converter decides *how* an event is written in a protocol;
//! *when* blocks open and close is decided by [`stream`](crate::stream).

use std::fmt;
use std::sync::Arc;

use crate::event::{BlockEvent, EventKind};
use crate::presentation::{IntermediateView, shown_kind};

/// Converts events of one kind into events of one protocol.
///
/// Every `Fn(&BlockEvent, &mut Vec<E>)` is a converter, so a closure can replace one of an adapter's converters.
pub trait BlockEventConverter<E>: Send + Sync {
    /// Appends the protocol events for `event`: none, one or several.
    fn convert(&self, event: &BlockEvent, out: &mut Vec<E>);
}

impl<E, F: Fn(&BlockEvent, &mut Vec<E>) + Send + Sync> BlockEventConverter<E> for F {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<E>) {
        self(event, out);
    }
}

/// One converter per [`EventKind`]. Cheap to clone; replacing a converter in a clone leaves the original unchanged.
///
/// # Examples
///
/// ```
/// use aqueduct_core::{BlockEvent, ConverterSet, EventKind, RunInfo};
///
/// let names = ConverterSet::uniform(|event: &BlockEvent, out: &mut Vec<String>| out.push(format!("{:?}", event.kind())))
///     .with(EventKind::Usage, |_: &BlockEvent, _: &mut Vec<String>| {});
/// let mut out = Vec::new();
/// names.convert(&BlockEvent::RunStarted(RunInfo::new("thread", "run").into()), &mut out);
/// assert_eq!(out, ["Run"]);
/// ```
pub struct ConverterSet<E> {
    strategies: [Arc<dyn BlockEventConverter<E>>; EventKind::ALL.len()],
    intermediate: IntermediateView,
}

impl<E: 'static> ConverterSet<E> {
    /// Returns a set in which one converter handles every kind. Adapters start from it and replace converters by kind.
    pub fn uniform(converter: impl BlockEventConverter<E> + 'static) -> Self {
        let shared: Arc<dyn BlockEventConverter<E>> = Arc::new(converter);
        Self {
            strategies: std::array::from_fn(|_| Arc::clone(&shared)),
            intermediate: IntermediateView::default(),
        }
    }

    /// Replaces the converter of one kind.
    pub fn with(mut self, kind: EventKind, converter: impl BlockEventConverter<E> + 'static) -> Self {
        if let Some(slot) = self.strategies.get_mut(kind as usize) {
            *slot = Arc::new(converter);
        }
        self
    }

    /// Sets how intermediate text is converted.
    pub fn with_intermediate(mut self, view: IntermediateView) -> Self {
        self.intermediate = view;
        self
    }

    /// Appends the protocol events for `event`. Hidden intermediate text appends none.
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
