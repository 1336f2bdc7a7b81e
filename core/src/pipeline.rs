//! The path of data as `futures` streams, for library users: source events → balanced events → protocol events.
//!
//! [`through`](SourceStreamExt::through) drives a [`StreamContext`]; [`convert`](BlockStreamExt::convert) drives a
//! [`ConverterSet`]. Only the output of one input is buffered, so back-pressure reaches the source. Dropping a stream drops
//! its source; whether that cancels the agent depends on the source.

use std::collections::VecDeque;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use pin_project_lite::pin_project;

use crate::convert::ConverterSet;
use crate::event::BlockEvent;
use crate::run::RunFailure;
use crate::stream::StreamContext;
use crate::update::{SourceEvent, Update};

/// An item of a source stream: a source event, an update, or a result of either. An `Err` item fails the run.
pub trait IntoSourceEvent {
    /// Returns the item as a source event.
    fn into_source_event(self) -> SourceEvent;
}

impl IntoSourceEvent for SourceEvent {
    fn into_source_event(self) -> SourceEvent {
        self
    }
}

impl IntoSourceEvent for Update {
    fn into_source_event(self) -> SourceEvent {
        SourceEvent::Update(self)
    }
}

impl<T: IntoSourceEvent, E: Error> IntoSourceEvent for Result<T, E> {
    fn into_source_event(self) -> SourceEvent {
        match self {
            Ok(event) => event.into_source_event(),
            Err(error) => {
                SourceEvent::Failed(RunFailure::new(RunFailure::UPSTREAM_INVALID, error.to_string()))
            }
        }
    }
}

/// Adds [`through`](Self::through) to streams of source events.
pub trait SourceStreamExt: Stream + Sized {
    /// Returns the balanced events of this source. The stream ends after the terminal event, even if the source has more items.
    fn through(self, context: StreamContext) -> Through<Self>
    where
        Self::Item: IntoSourceEvent,
    {
        Through { source: self, context }
    }
}

impl<S: Stream> SourceStreamExt for S {}

/// Adds [`convert`](Self::convert) to streams of balanced events.
pub trait BlockStreamExt: Stream<Item = BlockEvent> + Sized {
    /// Converts the events into those of a protocol.
    fn convert<E>(self, converters: ConverterSet<E>) -> Convert<Self, E> {
        Convert { blocks: self, converters, scratch: Vec::new(), ready: VecDeque::new() }
    }
}

impl<S: Stream<Item = BlockEvent>> BlockStreamExt for S {}

pin_project! {
    /// Stream of [`SourceStreamExt::through`].
    #[derive(Debug)]
    pub struct Through<S> {
        #[pin]
        source: S,
        context: StreamContext,
    }
}

impl<S: Stream> Stream for Through<S>
where
    S::Item: IntoSourceEvent,
{
    type Item = BlockEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<BlockEvent>> {
        let mut this = self.project();
        loop {
            if let Some(event) = this.context.poll_event() {
                return Poll::Ready(Some(event));
            }
            if this.context.is_ended() {
                return Poll::Ready(None);
            }
            match ready!(this.source.as_mut().poll_next(cx)) {
                None => this.context.handle_eof(),
                Some(item) => {
                    if let Err(error) = this.context.handle_event(item.into_source_event()) {
                        this.context.handle_failure((&error).into());
                    }
                }
            }
        }
    }
}

pin_project! {
    /// Stream of [`BlockStreamExt::convert`].
    #[derive(Debug)]
    pub struct Convert<S, E> {
        #[pin]
        blocks: S,
        converters: ConverterSet<E>,
        scratch: Vec<E>,
        ready: VecDeque<E>,
    }
}

impl<S: Stream<Item = BlockEvent>, E: 'static> Stream for Convert<S, E> {
    type Item = E;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<E>> {
        let mut this = self.project();
        loop {
            if let Some(event) = this.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            match ready!(this.blocks.as_mut().poll_next(cx)) {
                None => return Poll::Ready(None),
                Some(block) => {
                    this.converters.convert(&block, this.scratch);
                    this.ready.extend(this.scratch.drain(..));
                }
            }
        }
    }
}
