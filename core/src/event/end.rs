//! The terminal events: [`RunFinished`] with the interrupts that the run waits for, and [`RunFailed`].

use std::sync::Arc;

use bytestring::ByteString;
use serde_json::Value;

use super::Lane;
use crate::id::ToolCallId;
use crate::run::{Interrupt, RunFailure, RunInfo, RunOutcome, Usage};

/// An interrupt and the lane that requested it.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingInterrupt {
    /// The lane that waits for the reply.
    pub lane: Arc<Lane>,
    /// The interrupt. Its `tool_call_id` is the emitted one.
    pub interrupt: Interrupt,
}

/// The end of a run that did not fail.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunFinished {
    /// The run that ended.
    pub run: Arc<RunInfo>,
    /// How it ended.
    pub outcome: RunOutcome,
    /// The run's value, where it has one beside its text.
    pub result: Option<Value>,
    /// The interrupts that wait for replies. Not empty if and only if the outcome is `Interrupted`.
    pub interrupts: Vec<PendingInterrupt>,
    /// Tool calls without a result in this run, for example calls of a frontend's own tools.
    pub pending_calls: Vec<ToolCallId>,
    /// The sum of tokens spent, by provider and model.
    pub usage: Vec<Usage>,
    /// Why the model stopped: the last reason that the source sent with the answer.
    pub finish_reason: Option<ByteString>,
}

impl RunFinished {
    /// Returns the end of `run` without value, interrupts, pending calls and usage.
    pub fn new(run: Arc<RunInfo>, outcome: RunOutcome) -> Self {
        Self {
            run,
            outcome,
            result: None,
            interrupts: Vec::new(),
            pending_calls: Vec::new(),
            usage: Vec::new(),
            finish_reason: None,
        }
    }
}

/// The end of a run that failed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct RunFailed {
    /// The run that failed.
    pub run: Arc<RunInfo>,
    /// Why the run failed.
    pub failure: RunFailure,
    /// The sum of tokens spent, by provider and model.
    pub usage: Vec<Usage>,
}

impl RunFailed {
    /// Returns the failure of `run` without usage.
    pub fn new(run: Arc<RunInfo>, failure: RunFailure) -> Self {
        Self { run, failure, usage: Vec::new() }
    }
}
