//! A lane of a call, independent of the replica that drives the run.
//!
//! A lane at another replica does not raise interrupts: the call would have to be held at the carrier for a
//! reply that arrives at the owner. Its interrupts are answered by the supervisor.

use std::sync::Arc;

use aqueduct_adapter_a2a::call::TaskRef;
use aqueduct_core::InterruptReply;
use aqueduct_core::service::BoxFuture;

use super::RunContext;
use super::call::LaneCall;
use super::lane::Lane;
use super::relate::Caller;
use super::remote::RemoteLane;
use super::tap::Step;
use crate::service::Gateway;

/// Evaluates an expression with the lane of either kind.
macro_rules! either {
    ($tapped:expr, $lane:ident => $use:expr) => {
        match $tapped {
            Tapped::Here($lane) => $use,
            Tapped::There($lane) => $use,
        }
    };
}

/// The lane of one call.
#[derive(Debug)]
pub(crate) enum Tapped {
    /// In a run that this replica drives.
    Here(Box<Lane>),
    /// In a run that another replica drives.
    There(Box<RemoteLane>),
}

impl Tapped {
    /// Returns the lane of a call, if it has one. Without a lane the call is forwarded all the same.
    pub(crate) async fn begin(gateway: &Arc<Gateway>, caller: &Caller, call: LaneCall) -> Option<Self> {
        match caller {
            Caller::Here(anchor) => {
                if call.goes_on() {
                    // The task may have been started through another replica.
                    anchor.run.remote.catch_up(gateway.log()).await;
                }
                Lane::begin(anchor, &call, gateway.metrics()).map(|lane| Self::Here(Box::new(lane)))
            }
            Caller::There(remote) => {
                RemoteLane::begin(gateway, remote, call).await.map(|lane| Self::There(Box::new(lane)))
            }
        }
    }

    /// Returns the run context for the sub-agent.
    pub(crate) fn run_context(&self) -> RunContext {
        either!(self, lane => lane.run_context())
    }

    /// Waits until the run is cancelled. Returns the task to cancel.
    pub(crate) async fn cancel_wanted(&self) -> String {
        either!(self, lane => lane.cancel_wanted().await)
    }

    /// Handles a step of the response. Returns once the run has its events, or they are lost.
    pub(crate) async fn handle(&mut self, step: Step) {
        either!(self, lane => lane.handle(step).await);
    }

    /// Returns `true` if interrupts of the sub-agent are raised to the user of the run.
    pub(crate) fn raises(&self) -> bool {
        matches!(self, Self::Here(lane) if lane.raises())
    }

    /// Returns `true` if the sub-agent waits for a reply of the user.
    pub(crate) fn waits_for_reply(&self) -> bool {
        matches!(self, Self::Here(lane) if lane.waits_for_reply())
    }

    /// Returns `true` if only the next events show whether the sub-agent waits for a reply again.
    pub(crate) fn restates(&self) -> bool {
        matches!(self, Self::Here(lane) if lane.restates())
    }

    /// Returns the interrupted task, once it is known.
    pub(crate) fn task(&self) -> Option<TaskRef> {
        match self {
            Self::Here(lane) => lane.task(),
            Self::There(_) => None,
        }
    }

    /// Raises the interrupts of the sub-agent to the user of the run, and waits for the replies. Returns `None`
    /// without a reply. The supervisor replies then.
    pub(crate) async fn raise(&mut self) -> Option<Vec<InterruptReply>> {
        match self {
            Self::Here(lane) => lane.raise().await,
            Self::There(_) => None,
        }
    }

    /// Continues the task with the user's reply.
    pub(crate) fn continue_with_reply(&mut self, message_id: &str) {
        if let Self::Here(lane) = self {
            lane.continue_with_reply(message_id);
        }
    }

    /// Stores the state that a further call of the task needs. For a task that works without a stream, the future
    /// returns its id once it is to be cancelled.
    pub(crate) fn retire(self) -> BoxFuture<'static, Option<String>> {
        either!(self, lane => Box::pin(lane.retire()))
    }
}
