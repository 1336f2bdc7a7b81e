//! The waits of a driver beside its input: each comes once or never, so all of them stand behind one gate and cost nothing
//! while events flow ([`Gate`]).

use std::pin::Pin;
use std::task::{Context, Poll};

use aqueduct_core::service::BoxFuture;
use aqueduct_core::{CancelToken, Cancelled, Gate};
use aqueduct_runlog::{Control, LogError};
use tokio::sync::futures::Notified;
use tokio::time::{Instant, Sleep};

use crate::handle::RunHandle;

/// Why a driver stops to wait for its input.
pub(super) enum Interruption {
    /// The lease is lost.
    Lost,
    /// The run is cancelled here.
    Cancelled,
    /// Control messages arrived from other replicas.
    Messages(Result<Vec<Control>, LogError>),
    /// The deadline of the run has come.
    Deadline,
    /// The run had no watchers for too long.
    Unwatched,
    /// Watchers or lanes have changed.
    Changed,
}

/// The state of a run that decides which waits count.
#[derive(Clone, Copy)]
pub(super) struct Waits {
    pub(super) is_stopping: bool,
    pub(super) deadline: Instant,
    pub(super) unwatched: Option<Instant>,
}

/// All waits of a driver beside its input.
pub(super) struct Controls<'d> {
    gate: Gate,
    handle: &'d RunHandle,
    /// `None` once the lease was lost.
    lost: Option<Cancelled>,
    cancelled: Cancelled,
    messages: BoxFuture<'d, Result<Vec<Control>, LogError>>,
    clock: Pin<Box<Sleep>>,
    unwatched: Option<Pin<Box<Sleep>>>,
    changed: Pin<Box<Notified<'d>>>,
}

impl<'d> Controls<'d> {
    pub(super) fn new(
        handle: &'d RunHandle,
        lost: &CancelToken,
        messages: BoxFuture<'d, Result<Vec<Control>, LogError>>,
        deadline: Instant,
    ) -> Self {
        Self {
            gate: Gate::default(),
            handle,
            lost: Some(lost.cancelled()),
            cancelled: handle.cancel_token().cancelled(),
            messages,
            clock: Box::pin(tokio::time::sleep_until(deadline)),
            unwatched: None,
            changed: Box::pin(handle.changed()),
        }
    }

    /// Waits for the next control messages.
    pub(super) fn set_messages(&mut self, messages: BoxFuture<'d, Result<Vec<Control>, LogError>>) {
        self.messages = messages;
        self.gate.open();
    }

    /// Polls the waits that count, the most urgent first.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, waits: Waits) -> Poll<Interruption> {
        self.set_timers(waits);
        let Self { gate, handle, lost, cancelled, messages, clock, unwatched, changed } = self;
        gate.poll(cx, |cx| {
            if lost.as_mut().is_some_and(|lost| Pin::new(lost).poll(cx).is_ready()) {
                *lost = None;
                return Poll::Ready(Interruption::Lost);
            }
            if !waits.is_stopping && Pin::new(cancelled).poll(cx).is_ready() {
                return Poll::Ready(Interruption::Cancelled);
            }
            if let Poll::Ready(messages) = messages.as_mut().poll(cx) {
                return Poll::Ready(Interruption::Messages(messages));
            }
            if clock.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Interruption::Deadline);
            }
            let unwatched = unwatched.as_mut().filter(|_| !waits.is_stopping);
            if unwatched.is_some_and(|unwatched| unwatched.as_mut().poll(cx).is_ready()) {
                return Poll::Ready(Interruption::Unwatched);
            }
            if changed.as_mut().poll(cx).is_ready() {
                changed.set(handle.changed());
                return Poll::Ready(Interruption::Changed);
            }
            Poll::Pending
        })
    }

    /// Moves the timers to the times of the run.
    fn set_timers(&mut self, waits: Waits) {
        if self.clock.deadline() != waits.deadline {
            self.clock.as_mut().reset(waits.deadline);
            self.gate.open();
        }
        if self.unwatched.as_ref().map(|timer| timer.deadline()) != waits.unwatched {
            self.unwatched = waits.unwatched.map(|when| Box::pin(tokio::time::sleep_until(when)));
            self.gate.open();
        }
    }
}
