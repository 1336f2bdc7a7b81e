//! Decoding of the run's lifecycle, lanes, state, and restated history.
//!
//! | event | becomes |
//! |---|---|
//! | `RUN_FINISHED`, success | `Finished`, with pending calls and the result |
//! | `RUN_FINISHED`, interrupt | one interrupt each, then `Finished` as interrupted |
//! | `RUN_FINISHED` with an unknown outcome | `Failed`: guessing success would hide that the run waits |
//! | `RUN_FINISHED`, cancelled; `RUN_ERROR` with the code of a cancel | `Finished` as cancelled |
//! | `RUN_ERROR` | `Failed`, with the raw event as details |

use aqueduct_core::{
    ByteString, Interrupt, InterruptId, LaneOutcome, RunFailure, RunOutcome, SourceEvent, ToolCallId, Usage,
    wellknown,
};
use serde_json::Value;

use super::{Decoder, interrupt};
use crate::wire::{
    self, Event, RunError, RunFinished, RunFinishedOutcome, SubagentFinished, SubagentFinishedOutcome,
    SubagentStarted, TokenUsage,
};

impl Decoder {
    /// Decodes an event of the run, its lanes, steps or state.
    pub(super) fn apply_run(&mut self, event: Event) {
        match event {
            // The run is opened by the host, not by the source. Only the echoed input is used: its messages
            // are not new content.
            Event::RunStarted(started) => {
                if let Some(input) = &started.input {
                    self.seen.declare_input(input);
                }
            }
            Event::RunFinished(finished) => self.finish(*finished),
            Event::RunError(error) => self.fail(error),
            Event::StepStarted(step) => {
                let tag = step.subagent_run_id.as_ref();
                let source = self.lanes.get(tag, Some(&step.step_name)).source.clone();
                self.emit(SourceEvent::StepStarted { source, name: step.step_name });
            }
            Event::StepFinished(step) => {
                let source = self.lanes.source(step.subagent_run_id.as_ref());
                self.emit(SourceEvent::StepFinished { source, name: step.step_name });
            }
            Event::StateSnapshot(state) => {
                let source = self.lanes.source(state.subagent_run_id.as_ref());
                self.emit(SourceEvent::StateSnapshot { source, state: state.snapshot });
            }
            Event::StateDelta(state) => {
                let source = self.lanes.source(state.subagent_run_id.as_ref());
                let patch = state.delta.into_iter().map(|operation| Value::Object(operation.0)).collect();
                self.emit(SourceEvent::StateDelta { source, patch });
            }
            Event::SubagentStarted(started) => self.open_lane(*started),
            Event::SubagentFinished(finished) => self.close_lane(*finished),
            Event::SubagentError(error) => {
                let source = self.lanes.source(Some(&error.subagent_run_id));
                let outcome = match error.code.as_deref() {
                    Some(RunFailure::CANCELLED) => LaneOutcome::Cancelled,
                    _ => LaneOutcome::Failed(failure(error.code, error.message)),
                };
                self.emit(SourceEvent::LaneClosed { source, outcome });
            }
            Event::MessagesSnapshot(snapshot) => self.restate(&snapshot),
            _ => {}
        }
    }

    /// Opens the lane of a sub-agent below its parent.
    fn open_lane(&mut self, started: SubagentStarted) {
        let parent = self.lanes.source(started.parent_subagent_run_id.as_ref());
        let mut source = parent.child(started.subagent_run_id.clone()).named(started.name);
        if let Some(description) = started.description {
            source = source.described(description);
        }
        if let Some(call) = started.parent_tool_call_id {
            source = source.called_by(ToolCallId::new(call));
        }
        // A lane has no field for its parent message, so the id becomes metadata of the lane.
        let mut base = started.base;
        if let Some(message) = started.parent_message_id {
            base.metadata_mut().insert("parentMessageId".to_owned(), Value::from(&*message));
        }
        if let Some(metadata) = super::details(base).and_then(|details| details.metadata) {
            source = source.with_metadata((*metadata).clone());
        }
        self.lanes.start(&started.subagent_run_id, source.clone());
        self.emit(SourceEvent::LaneOpened(source));
    }

    /// Handles the end of a sub-agent.
    fn close_lane(&mut self, finished: SubagentFinished) {
        let source = self.lanes.source(Some(&finished.subagent_run_id));
        let outcome = match finished.outcome {
            None | Some(SubagentFinishedOutcome::Success(_)) => LaneOutcome::Success(finished.result),
            Some(SubagentFinishedOutcome::Suspended(_)) => LaneOutcome::Suspended,
            Some(SubagentFinishedOutcome::Unknown(outcome)) => LaneOutcome::Failed(unknown_outcome(&outcome)),
        };
        self.emit(SourceEvent::LaneClosed { source, outcome });
    }

    /// Decodes the end of a run: usage, interrupts, then the outcome.
    fn finish(&mut self, finished: RunFinished) {
        self.note_ids();
        self.report_usage(finished.usage);
        // `on_interrupt` events count as interrupts if the run ends without outcome or as a success. An
        // outcome with interrupts lists them itself.
        let on_interrupts = std::mem::take(&mut self.on_interrupts);
        let outcome = match finished.outcome {
            None | Some(RunFinishedOutcome::Success(_)) if !on_interrupts.is_empty() => {
                for (nth, (tag, value, raw)) in on_interrupts.into_iter().enumerate() {
                    let source = self.lanes.source(tag.as_ref());
                    let interrupt = interrupt::of_custom(&value, raw.as_ref(), &finished.run_id, nth);
                    self.emit(SourceEvent::InterruptRequested { source, interrupt: Box::new(interrupt) });
                }
                RunOutcome::Interrupted
            }
            None | Some(RunFinishedOutcome::Success(_)) => RunOutcome::Success,
            Some(RunFinishedOutcome::Cancelled(_)) => RunOutcome::Cancelled,
            Some(RunFinishedOutcome::Interrupt(outcome)) => {
                for interrupt in outcome.interrupts {
                    let source = self.lanes.source(interrupt.subagent_run_id.as_ref());
                    let mut interrupt = canonical_interrupt(interrupt);
                    interrupt::find_message(&mut interrupt);
                    self.emit(SourceEvent::InterruptRequested { source, interrupt: Box::new(interrupt) });
                }
                RunOutcome::Interrupted
            }
            // An unknown outcome is never treated as a success.
            Some(RunFinishedOutcome::Unknown(outcome)) => {
                self.emit(SourceEvent::Failed(unknown_outcome(&outcome)));
                self.ended = true;
                return;
            }
        };
        self.emit(SourceEvent::Finished { outcome, result: finished.result });
        self.ended = true;
    }

    /// Emits the ids under which a snapshot restated content that was streamed under other ids.
    /// An input for the source then uses the restated ids, under which the source stores its history.
    fn note_ids(&mut self) {
        if let Some(value) = self.aliases.value() {
            self.custom(wellknown::IDS, value, None, None, wire::Base::default());
        }
    }

    /// Handles `RUN_ERROR`. The code of a cancelled run is an outcome, not a failure.
    fn fail(&mut self, error: RunError) {
        self.note_ids();
        self.report_usage(error.usage);
        if error.code.as_deref() == Some(RunFailure::CANCELLED) {
            self.emit(SourceEvent::Finished { outcome: RunOutcome::Cancelled, result: None });
        } else {
            let mut failure = failure(error.code, error.message);
            failure.details = error.base.raw_event().cloned();
            self.emit(SourceEvent::Failed(failure));
        }
        self.ended = true;
    }

    /// Emits token counts, on the root lane: AG-UI reports them for the run.
    fn report_usage(&mut self, usage: Option<Vec<TokenUsage>>) {
        for usage in usage.into_iter().flatten() {
            let source = aqueduct_core::Source::root();
            self.emit(SourceEvent::Usage { source, usage: Box::new(canonical_usage(usage)) });
        }
    }
}

/// Returns the canonical failure. Events without a code get the general one.
fn failure(code: Option<ByteString>, message: ByteString) -> RunFailure {
    let code = code.filter(|code| !code.is_empty());
    RunFailure::new(code.unwrap_or(ByteString::from_static(RunFailure::AGENT_FAILED)), message)
}

/// Returns the failure for an outcome of a later version of AG-UI: guessing success would hide an interrupt.
fn unknown_outcome(outcome: &aqueduct_core::Metadata) -> RunFailure {
    let kind = outcome.get("type").and_then(Value::as_str).unwrap_or("");
    let message = format!("the agent ended with the outcome '{kind}', which this version does not know");
    let mut failure = RunFailure::new(ByteString::from_static(RunFailure::UPSTREAM_INVALID), message);
    failure.details = Some(Value::Object(outcome.clone()));
    failure
}

/// Returns the canonical form of an interrupt. Undeclared members are dropped; the tag becomes the
/// lane.
fn canonical_interrupt(interrupt: wire::Interrupt) -> Interrupt {
    Interrupt {
        id: InterruptId::new(interrupt.id),
        reason: interrupt.reason,
        message: interrupt.message,
        tool_call_id: interrupt.tool_call_id.map(ToolCallId::new),
        response_schema: interrupt.response_schema.map(|schema| Value::Object(schema.0)),
        expires_at: interrupt.expires_at,
        metadata: interrupt.metadata.map(|metadata| metadata.0.into()),
    }
}

/// Returns the canonical form of token counts.
fn canonical_usage(usage: TokenUsage) -> Usage {
    Usage {
        provider: usage.provider,
        model: usage.model,
        input: usage.input_tokens,
        output: usage.output_tokens,
        total: usage.total_tokens,
        reasoning: usage.reasoning_tokens,
        cached_input: usage.cached_input_tokens,
        cache_write_input: usage.cache_write_input_tokens,
    }
}
