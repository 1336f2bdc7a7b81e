//! [`ServerEnd`]: how far the end of the server has come, as a connection sees it.

use std::future::Future;
use std::pin::Pin;
use std::task::Context;

use aqueduct_core::Cancelled;
use aqueduct_transport_http::Stopping;

/// The shutdown stage of the server.
pub(super) struct ServerEnd {
    pub(super) stage: EndStage,
    /// Completes at the next stage.
    pub(super) next: Cancelled,
    pub(super) stopping: Stopping,
}

/// The stages of the server's shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndStage {
    Serving,
    Draining,
    Closing,
}

impl ServerEnd {
    /// Returns the stages of a server that is still serving.
    pub(super) fn new(stopping: Stopping) -> Self {
        let next = stopping.draining.cancelled();
        Self { stage: EndStage::Serving, next, stopping }
    }

    /// Returns the current stage. Registers the waker for the next one; stages are never skipped.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> EndStage {
        while self.stage != EndStage::Closing && Pin::new(&mut self.next).poll(cx).is_ready() {
            self.next = self.stopping.closing.cancelled();
            self.stage = match self.stage {
                EndStage::Serving => EndStage::Draining,
                _ => EndStage::Closing,
            };
        }
        self.stage
    }
}
