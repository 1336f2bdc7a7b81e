//! The lifecycle of a run: the task, and its final status.
//!
//! | end of the run | state | message |
//! |---|---|---|
//! | success | `completed` | none, or the result |
//! | cancelled | `canceled` | none, or the result |
//! | interrupted | `input-required`, or `auth-required` if all ask for it | the questions as text, their schemas |
//! | failed | `failed`; `rejected` for the code `agent_rejected` | the failure's message |
//!
//! Outcome, interrupts, failure and usage are in the mark of that message, for Aqueduct's own client. A task that
//! ends without a message has no mark: its state is enough.

use aqueduct_core::event::{PendingInterrupt, RunFailed, RunFinished};
use aqueduct_core::{BlockEvent, BlockEventConverter, RunId, RunInfo, RunOutcome};
use serde_json::{Value, json};

use super::show::{converter, data, message, owned, status};
use crate::error;
use crate::mark::{Mark, failure_value, interrupt_value, kind, usage_value};
use crate::wire::{Part, StreamItem, Task, TaskState, TaskStatus};

converter! {
    /// Emits the task first, and `completed`, `canceled`, `failed`, `rejected`, `input-required` or `auth-required`
    /// last.
    RunConverter
}

impl BlockEventConverter<StreamItem<'static>> for RunConverter {
    fn convert(&self, event: &BlockEvent, out: &mut Vec<StreamItem<'static>>) {
        out.push(match event {
            BlockEvent::RunStarted(run) => self.task(run),
            BlockEvent::RunFinished(finished) => self.finished(finished),
            BlockEvent::RunFailed(failed) => self.failed(failed),
            _ => return,
        });
    }
}

impl RunConverter {
    /// Returns the task that begins a stream, with the run in its mark.
    fn task(&self, run: &RunInfo) -> StreamItem<'static> {
        let mut mark = Mark::default();
        mark.put("run", run.run_id.as_str());
        mark.put_set("parentRun", run.parent_run_id.as_ref().map(RunId::as_str));
        mark.put_set("agent", run.agent.as_deref());
        StreamItem::Task(Task {
            id: owned(&self.settings.task_id),
            context_id: owned(&self.settings.context_id),
            status: TaskStatus { state: TaskState::Working, ..TaskStatus::default() },
            metadata: Some(mark.into_metadata()),
            ..Task::default()
        })
    }

    /// Returns the final status of a run that did not fail.
    fn finished(&self, finished: &RunFinished) -> StreamItem<'static> {
        let settings = &self.settings;
        let (state, word) = match finished.outcome {
            RunOutcome::Success => (TaskState::Completed, "success"),
            RunOutcome::Interrupted => (waiting_state(&finished.interrupts), "interrupted"),
            _ => (TaskState::Canceled, "cancelled"),
        };
        // Every client can show text; schemas and the result are data for clients that know them.
        let mut parts: Vec<Part<'static>> = finished.interrupts.iter().map(question).collect();
        parts.extend(finished.interrupts.iter().filter_map(schema));
        let mut mark = Mark::new(kind::FINISHED);
        mark.put("outcome", word);
        if let Some(result) = &finished.result {
            parts.push(data(&json!({"type": "result", "result": result})));
            mark.put("result", result.clone());
        }
        if !finished.interrupts.is_empty() {
            let asked = finished.interrupts.iter().map(|pending| {
                // The lane is encoded as in every mark, inside the interrupt.
                let lane = Mark::new(kind::INTERRUPT).of_lane(&pending.lane);
                let lane = lane.get("lane").cloned().unwrap_or_else(|| json!([]));
                json!({"lane": lane, "interrupt": interrupt_value(&pending.interrupt)})
            });
            mark.put("interrupts", asked.collect::<Vec<Value>>());
        }
        if !finished.usage.is_empty() {
            mark.put("usage", finished.usage.iter().map(usage_value).collect::<Vec<_>>());
        }
        // A success or cancel without a result needs no message.
        let says = !parts.is_empty();
        let last = says.then(|| message(settings, format!("{}/end", finished.run.run_id), parts, mark));
        status(settings, state, last)
    }

    /// Returns the final status of a failed run: the message as text. Code and details are in its mark.
    fn failed(&self, failed: &RunFailed) -> StreamItem<'static> {
        let mut mark = Mark::new(kind::FAILED);
        mark.put("failure", failure_value(&failed.failure));
        if !failed.usage.is_empty() {
            mark.put("usage", failed.usage.iter().map(usage_value).collect::<Vec<_>>());
        }
        let parts = vec![Part::text(failed.failure.message.to_string())];
        let last = message(&self.settings, format!("{}/end", failed.run.run_id), parts, mark);
        // The inverse of how the decoder maps `rejected`.
        let is_refusal = &*failed.failure.code == error::REJECTED;
        let state = if is_refusal { TaskState::Rejected } else { TaskState::Failed };
        status(&self.settings, state, Some(last))
    }
}

/// Returns `auth-required` if all interrupts ask for authorisation, else `input-required`.
fn waiting_state(interrupts: &[PendingInterrupt]) -> TaskState<'static> {
    let is_auth = |pending: &PendingInterrupt| &*pending.interrupt.reason == "auth_required";
    if !interrupts.is_empty() && interrupts.iter().all(is_auth) {
        TaskState::AuthRequired
    } else {
        TaskState::InputRequired
    }
}

/// Returns the interrupt as text, for every client. One without text is described by its reason.
fn question(pending: &PendingInterrupt) -> Part<'static> {
    let interrupt = &pending.interrupt;
    let words = interrupt.message.as_deref().filter(|message| !message.is_empty());
    Part::text(words.map_or_else(
        || format!("The agent waits for your answer ({}).", &*interrupt.reason),
        ToOwned::to_owned,
    ))
}

/// Returns the schema of the reply as data, if there is one: `{"type": "question", "interruptId", "responseSchema"}`.
fn schema(pending: &PendingInterrupt) -> Option<Part<'static>> {
    let interrupt = &pending.interrupt;
    let schema = interrupt.response_schema.as_ref()?;
    Some(data(&json!({"type": "question", "interruptId": interrupt.id.as_str(), "responseSchema": schema})))
}
