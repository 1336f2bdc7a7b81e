//! The copy of a call, wherever the run is driven that it belongs to.

use std::sync::Arc;

use aqueduct_adapter_a2a::call::TaskRef;
use aqueduct_core::service::BoxFuture;
use aqueduct_core::{InterruptReply, RunFailure};
use bytes::Bytes;

use super::Trail;
use super::call::LaneCall;
use super::lane::Lane;
use super::relate::Caller;
use super::remote::RemoteLane;
use crate::service::Gateway;

/// One call's lane.
#[derive(Debug)]
pub(crate) enum Tapped {
    /// In a run that is driven here.
    Here(Box<Lane>),
    /// In a run that another gateway drives.
    There(Box<RemoteLane>),
}

impl Tapped {
    /// The lane of a call, if it has one.
    pub(crate) async fn begin(gateway: &Arc<Gateway>, caller: &Caller, call: LaneCall) -> Option<Self> {
        match caller {
            Caller::Here(anchor) => {
                if call.goes_on() {
                    // Its task may have been begun through another gateway.
                    anchor.run.remote.catch_up(gateway.log()).await;
                }
                Lane::begin(anchor, &call, gateway.metrics()).map(|lane| Self::Here(Box::new(lane)))
            }
            Caller::There(remote) => {
                RemoteLane::begin(gateway, remote, call).await.map(|lane| Self::There(Box::new(lane)))
            }
        }
    }

    /// What the sub-agent is handed.
    pub(crate) fn trail(&self) -> Trail {
        match self {
            Self::Here(lane) => lane.trail(),
            Self::There(lane) => lane.trail(),
        }
    }

    /// Waits until the task is to be cancelled, because its run is stopped, and names it.
    pub(crate) async fn cancel_wanted(&self) -> String {
        match self {
            Self::Here(lane) => lane.cancel_wanted().await,
            Self::There(lane) => lane.cancel_wanted().await,
        }
    }

    /// The agent was asked, and takes its time.
    pub(crate) async fn handle_wait(&mut self) {
        match self {
            Self::Here(lane) => lane.handle_wait().await,
            Self::There(lane) => lane.handle_wait().await,
        }
    }

    /// Takes a piece of an event stream.
    pub(crate) async fn handle_chunk(&mut self, chunk: Bytes) {
        match self {
            Self::Here(lane) => lane.handle_chunk(chunk).await,
            Self::There(lane) => lane.handle_chunk(&chunk).await,
        }
    }

    /// Takes an answer that is no stream.
    pub(crate) async fn handle_body(&mut self, status: u16, body: &Bytes) {
        match self {
            Self::Here(lane) => lane.handle_body(status, body).await,
            Self::There(lane) => lane.handle_body(status, body).await,
        }
    }

    /// The event stream is over.
    pub(crate) async fn handle_end(&mut self) {
        match self {
            Self::Here(lane) => lane.handle_end().await,
            Self::There(lane) => lane.handle_end().await,
        }
    }

    /// No answer, or no more of it.
    pub(crate) async fn handle_failure(&mut self, failure: RunFailure) {
        match self {
            Self::Here(lane) => lane.handle_failure(failure).await,
            Self::There(lane) => lane.handle_failure(&failure).await,
        }
    }

    /// Something about the answer that whoever watches should know.
    pub(crate) async fn handle_note(&mut self, text: &str) {
        match self {
            Self::Here(lane) => lane.handle_note(text).await,
            Self::There(lane) => lane.handle_note(text).await,
        }
    }

    /// Returns `true` if what the sub-agent asks is for the user of the run.
    pub(crate) fn raises(&self) -> bool {
        matches!(self, Self::Here(lane) if lane.raises())
    }

    /// Returns `true` if the sub-agent waits for a reply of the user.
    pub(crate) fn asks(&self) -> bool {
        matches!(self, Self::Here(lane) if lane.asks())
    }

    /// Returns `true` if what follows shows whether the sub-agent asks again.
    pub(crate) fn restates(&self) -> bool {
        matches!(self, Self::Here(lane) if lane.restates())
    }

    /// Returns the task that the sub-agent asks for, once it is known.
    pub(crate) fn task(&self) -> Option<TaskRef> {
        match self {
            Self::Here(lane) => lane.task(),
            Self::There(_) => None,
        }
    }

    /// Raises what the sub-agent asks to the user of the run, and waits for the replies; `None` if there are none.
    pub(crate) async fn raise(&mut self) -> Option<Vec<InterruptReply>> {
        match self {
            Self::Here(lane) => lane.raise().await,
            Self::There(_) => None,
        }
    }

    /// The task goes on with the user's reply.
    pub(crate) fn go_on(&mut self, message_id: &str) {
        if let Self::Here(lane) = self {
            lane.go_on(message_id);
        }
    }

    /// Leaves what a further call of the task needs, at once. A task that works on without a stream is given once it is to
    /// be cancelled.
    pub(crate) fn retire(self) -> BoxFuture<'static, Option<String>> {
        match self {
            Self::Here(lane) => Box::pin(lane.retire()),
            Self::There(lane) => Box::pin(lane.retire()),
        }
    }
}
