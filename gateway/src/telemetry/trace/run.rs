//! [`RunTrace`]: the spans of one run, built from its canonical events.
//!
//! ```text
//! new ── begin (a caller's trace context), or the first event ──► open ── terminal event, or the lease is lost ──► ended
//!                                                                  │ LaneOpened … LaneClosed        ► lane
//!                                                                  │ BlockStarted(tool) … ToolResult ► tool call
//!                                                                  └ InterruptRequested              ► interrupt
//! ```
//!
//! Every span is ended once, at the latest with the run. If calls of a lane begin before its first event, the span of
//! the lane begins with them, so that the calls are below it. Ids of the run and of A2A tasks are attributes; content
//! is recorded only if `telemetry.content` is set.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_core::event::SpanKind as BlockKind;
use aqueduct_core::service::Caller;
use aqueduct_core::{
    BlockEvent, Lane, LaneId, LaneOutcome, RunFailure, RunInput, Source, SourceEvent, ToolCallId, Usage,
};
use aqueduct_runs::RunOrigin;
use opentelemetry::KeyValue;
use opentelemetry::trace::{Link, Span as _, SpanContext, SpanKind, Status};
use opentelemetry_sdk::trace::Span;
use serde_json::{Value, json};

use super::{Tracing, content, of_caller, of_headers, pairs};

/// The largest number of spans inside one run: lanes, tool calls and interrupts. A run with more is a loop;
/// further spans are left out, and the span of the run is ended as usual.
const MOST_SPANS: usize = 1_000;

/// The spans of one run. Shared by the run's extension and by the contexts of its calls, hence the lock; it is
/// held for single operations and never across an await.
#[derive(Debug)]
pub(crate) struct RunTrace {
    tracing: Arc<Tracing>,
    /// The key of the agent in the configuration.
    agent: String,
    surface: &'static str,
    /// The id of the run in the log. Used for runs without `begin`; a caller's own id takes its place.
    run: String,
    thread: String,
    state: Mutex<State>,
}

/// What is open. All spans are owned here, so that `close_all` can end every one of them.
#[derive(Debug, Default)]
struct State {
    /// The span of the run: `None` before `open` and after `end`.
    run: Option<Span>,
    /// The trace context of the run. It stays set after the end, for calls that are still open.
    context: Option<SpanContext>,
    /// The trace context of the caller, or of the checkpoint after a takeover.
    parent: Option<SpanContext>,
    /// The span of the run at its former owner. The new span is linked to it, because a span has one owner and
    /// one end.
    former: Option<SpanContext>,
    lanes: HashMap<LaneId, (Source, Span)>,
    /// Spans of lanes whose calls began before their first event.
    early: Vec<(Source, Span)>,
    /// Tool calls without a result.
    tools: HashMap<ToolCallId, Span>,
    /// Interrupts stay open until the run ends: the reply belongs to the next run.
    interrupts: Vec<Span>,
    /// Spans that were requested inside the run, for [`MOST_SPANS`].
    made: usize,
    /// The answer of the agent, if content is recorded.
    output: String,
    /// The arguments of open calls, if content is recorded.
    arguments: HashMap<ToolCallId, String>,
    is_ended: bool,
}

impl RunTrace {
    /// Returns the trace of a run that has not begun. After a takeover, the origin contains the
    /// [`checkpoint`](Self::checkpoint) of the former owner; a malformed one is ignored.
    pub(crate) fn new(
        tracing: &Arc<Tracing>,
        run: &str,
        origin: &RunOrigin<'_>,
        surface: &'static str,
    ) -> Self {
        let left = |name: &str| {
            let text = origin.takeover.as_ref()?.get(name)?.as_str()?;
            let mut headers = http::HeaderMap::new();
            headers.insert("traceparent", text.parse().ok()?);
            of_headers(&headers)
        };
        let state = State { parent: left("parent"), former: left("span"), ..State::default() };
        Self {
            tracing: Arc::clone(tracing),
            agent: origin.agent.to_owned(),
            surface,
            run: run.to_owned(),
            thread: origin.thread_id.to_string(),
            state: Mutex::new(state),
        }
    }

    /// Locks the state. A panic while the lock was held cannot leave spans in an invalid state, so poison is
    /// ignored.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the run of this caller. Returns the caller for the run's own calls: with the trace context of the run's
    /// span.
    ///
    /// Also records the trace id in the current log span, so that log lines can be found from a trace and the
    /// reverse.
    pub(crate) fn begin(&self, caller: &Caller, input: &RunInput) -> Caller {
        let mut state = self.state();
        state.parent = of_caller(caller);
        // The caller's own id: the log may store the run under another one.
        self.open(&mut state, input.run_id.as_str());
        if let (true, Some(run)) = (self.tracing.has_content, &mut state.run) {
            let text = content::shortened(input.text());
            let message = json!([{ "role": "user", "parts": [{ "type": "text", "content": text }] }]);
            run.set_attribute(KeyValue::new("gen_ai.input.messages", message.to_string()));
        }
        let mut caller = caller.clone();
        if let Some(context) = &state.context {
            super::replace(&mut caller.headers, context);
            tracing::Span::current().record("trace", context.trace_id().to_string());
        }
        caller
    }

    /// Starts the span of the run, once. A run that was taken over has no `begin`: its first event opens the
    /// span.
    fn open(&self, state: &mut State, run: &str) {
        if state.context.is_some() {
            return;
        }
        let attributes = vec![
            KeyValue::new("gen_ai.operation.name", "invoke_agent"),
            KeyValue::new("gen_ai.agent.name", self.agent.clone()),
            KeyValue::new("gen_ai.conversation.id", self.thread.clone()),
            KeyValue::new("aqueduct.run.id", run.to_owned()),
            KeyValue::new("aqueduct.surface", self.surface),
        ];
        let relation = vec![KeyValue::new("aqueduct.link", "takeover")];
        let links =
            state.former.iter().map(|former| Link::new(former.clone(), relation.clone(), 0)).collect();
        let name = format!("invoke_agent {}", self.agent);
        let run = self.tracing.begin((name, SpanKind::Server), state.parent.as_ref(), links, attributes);
        state.context = Some(run.span_context().clone());
        state.run = Some(run);
    }

    /// Returns the trace context of the run, once it has begun.
    pub(crate) fn context(&self) -> Option<SpanContext> {
        self.state().context.clone()
    }

    /// Returns the state that a replica needs to take the run over. Both values are `traceparent` headers:
    ///
    /// ```text
    /// {"span":"00-0af7…-b7ad…-01","parent":"00-0af7…-00f0…-01"}
    /// ```
    pub(crate) fn checkpoint(&self) -> Option<Value> {
        let state = self.state();
        let traceparent = |context: &SpanContext| {
            pairs(context).into_iter().find(|(name, _)| name == "traceparent").map(|(_, value)| value)
        };
        let span = state.context.as_ref().and_then(traceparent)?;
        Some(json!({ "span": span, "parent": state.parent.as_ref().and_then(traceparent) }))
    }

    /// Returns the trace context of a lane. Its span begins now if it has not begun. Returns `None` if the run
    /// has not begun or has too many spans; the call is traced below the run then.
    pub(crate) fn lane_context(&self, source: &Source) -> Option<SpanContext> {
        let mut state = self.state();
        let of_source = |(known, _): &&(Source, Span)| known == source;
        let known = state.lanes.values().find(of_source).or_else(|| state.early.iter().find(of_source));
        if let Some((_, span)) = known {
            return Some(span.span_context().clone());
        }
        let parent = state.context.clone()?;
        let span = self.begin_lane(&mut state, source.name(), Some(&parent))?;
        let context = span.span_context().clone();
        state.early.push((source.clone(), span));
        Some(context)
    }

    /// Starts the span of a lane below `parent`, or below the run without one.
    fn begin_lane(&self, state: &mut State, name: &str, parent: Option<&SpanContext>) -> Option<Span> {
        let attributes = vec![
            KeyValue::new("gen_ai.operation.name", "invoke_agent"),
            KeyValue::new("gen_ai.agent.name", name.to_owned()),
            KeyValue::new("gen_ai.conversation.id", self.thread.clone()),
        ];
        self.begin_below(state, format!("invoke_agent {name}"), parent, attributes)
    }

    /// Starts a span inside the run, or returns `None` if the run has too many.
    fn begin_below(
        &self,
        state: &mut State,
        name: String,
        parent: Option<&SpanContext>,
        attributes: Vec<KeyValue>,
    ) -> Option<Span> {
        // Counted before the comparison, so that a run in a loop stops creating spans instead of replacing old
        // ones.
        state.made += 1;
        let parent = parent.or(state.context.as_ref());
        (state.made <= MOST_SPANS)
            .then(|| self.tracing.begin((name, SpanKind::Internal), parent, Vec::new(), attributes))
    }

    /// Records the ids of an A2A task from a checkpoint. A checkpoint that only announces a request names no task.
    pub(crate) fn handle_source(&self, event: &SourceEvent) {
        let SourceEvent::Checkpoint(checkpoint) = event else { return };
        if checkpoint.0.get("taskId").is_none() {
            return;
        }
        let mut state = self.state();
        for (name, key) in [("taskId", "a2a.task.id"), ("contextId", "a2a.context.id")] {
            if let (Some(id), Some(run)) = (checkpoint.0.get(name).and_then(Value::as_str), &mut state.run) {
                run.set_attribute(KeyValue::new(key, id.to_owned()));
            }
        }
    }

    /// Handles canonical events, in order.
    pub(crate) fn handle_events(&self, events: &[BlockEvent]) {
        let mut state = self.state();
        self.open(&mut state, &self.run);
        // A run that is not sampled, or has ended, has no spans to build.
        if !state.run.as_ref().is_some_and(Span::is_recording) {
            return;
        }
        for event in events {
            self.handle_event(&mut state, event);
        }
    }

    /// Starts or ends the span that an event concerns. Events without a span are ignored.
    fn handle_event(&self, state: &mut State, event: &BlockEvent) {
        match event {
            BlockEvent::LaneOpened(lane) => self.open_lane(state, lane),
            BlockEvent::LaneClosed { lane, outcome } => {
                if let Some((_, mut span)) = state.lanes.remove(&lane.id) {
                    end_lane(&mut span, outcome);
                }
            }
            // A tool call lasts from its first fragment to its result, not to the end of its arguments.
            BlockEvent::BlockStarted(block) if block.kind == BlockKind::ToolUse => {
                let parent = state.lanes.get(&block.lane.id).map(|(_, span)| span.span_context().clone());
                let attributes = vec![
                    KeyValue::new("gen_ai.operation.name", "execute_tool"),
                    KeyValue::new("gen_ai.tool.name", block.tool_name.to_string()),
                    KeyValue::new("gen_ai.tool.call.id", block.id.to_string()),
                ];
                let name = format!("execute_tool {}", block.tool_name);
                if let Some(span) = self.begin_below(state, name, parent.as_ref(), attributes) {
                    state.tools.insert(block.tool_call_id(), span);
                }
            }
            BlockEvent::BlockDelta { block, delta } if self.tracing.has_content => match block.kind {
                BlockKind::Text => content::push(&mut state.output, delta),
                // A call without a span has no attribute for its arguments: [`MOST_SPANS`] limits them too.
                BlockKind::ToolUse => {
                    let call = block.tool_call_id();
                    if state.tools.contains_key(&call) {
                        content::push(state.arguments.entry(call).or_default(), delta);
                    }
                }
                // Thinking is not part of the answer.
                BlockKind::Thinking => {}
            },
            BlockEvent::ToolResult(result) => {
                let arguments = state.arguments.remove(&result.call_id);
                if let Some(mut span) = state.tools.remove(&result.call_id) {
                    if self.tracing.has_content {
                        let output = format!("{:?}", result.output);
                        let output = content::shortened(output);
                        span.set_attribute(KeyValue::new("gen_ai.tool.call.result", output));
                        if let Some(arguments) = arguments.map(content::shortened) {
                            span.set_attribute(KeyValue::new("gen_ai.tool.call.arguments", arguments));
                        }
                    }
                    if result.is_error {
                        span.set_attribute(KeyValue::new("error.type", "tool_error"));
                        span.set_status(Status::error("the tool failed"));
                    }
                    span.end();
                }
            }
            BlockEvent::InterruptRequested(pending) => {
                let parent = state.lanes.get(&pending.lane.id).map(|(_, span)| span.span_context().clone());
                let attributes = vec![
                    KeyValue::new("aqueduct.interrupt.id", pending.interrupt.id.to_string()),
                    KeyValue::new("aqueduct.interrupt.reason", pending.interrupt.reason.to_string()),
                ];
                let span = self.begin_below(state, "interrupt".to_owned(), parent.as_ref(), attributes);
                state.interrupts.extend(span);
            }
            BlockEvent::RunFinished(end) => {
                let outcome = format!("{:?}", end.outcome).to_lowercase();
                self.end(state, &outcome, None, &end.usage);
            }
            BlockEvent::RunFailed(end) => self.end(state, "failed", Some(&end.failure), &end.usage),
            _ => {}
        }
    }

    /// Starts the span of a lane, or adopts the one that began with its first call. The parent is the tool call
    /// that opened the lane if it is known, else the parent lane, else the run.
    fn open_lane(&self, state: &mut State, lane: &Lane) {
        let early = state.early.iter().position(|(source, _)| *source == lane.source);
        let span = if let Some(place) = early {
            Some(state.early.swap_remove(place).1)
        } else {
            let of_call = lane.parent_call.as_ref().and_then(|call| state.tools.get(call));
            let of_lane = lane.parent.as_ref().and_then(|parent| state.lanes.get(&parent.id));
            let parent =
                of_call.or_else(|| of_lane.map(|(_, span)| span)).map(|span| span.span_context().clone());
            self.begin_lane(state, lane.name(), parent.as_ref())
        };
        if let Some(mut span) = span {
            span.set_attribute(KeyValue::new("aqueduct.lane.id", lane.id.to_string()));
            state.lanes.insert(lane.id.clone(), (lane.source.clone(), span));
        }
    }

    /// Ends the span of the run with its outcome, usage and failure, and every span inside it. Further calls do
    /// nothing.
    ///
    /// Usage is summed over all models of the run; model and provider are those of the first entry.
    fn end(&self, state: &mut State, outcome: &str, failure: Option<&RunFailure>, usage: &[Usage]) {
        let Some(mut run) = state.run.take() else { return };
        run.set_attribute(KeyValue::new("aqueduct.outcome", outcome.to_owned()));
        let sum = |count: fn(&Usage) -> Option<u64>| {
            let all: Vec<u64> = usage.iter().filter_map(count).collect();
            (!all.is_empty()).then(|| i64::try_from(all.iter().sum::<u64>()).unwrap_or(i64::MAX))
        };
        if let Some(input) = sum(|usage| usage.input) {
            run.set_attribute(KeyValue::new("gen_ai.usage.input_tokens", input));
        }
        if let Some(output) = sum(|usage| usage.output) {
            run.set_attribute(KeyValue::new("gen_ai.usage.output_tokens", output));
        }
        if let Some(Usage { model: Some(model), .. }) = usage.first() {
            run.set_attribute(KeyValue::new("gen_ai.response.model", model.to_string()));
        }
        if let Some(Usage { provider: Some(provider), .. }) = usage.first() {
            run.set_attribute(KeyValue::new("gen_ai.provider.name", provider.to_string()));
        }
        if self.tracing.has_content {
            let output = content::shortened(std::mem::take(&mut state.output));
            let parts = json!([{ "type": "text", "content": output }]);
            let message = json!([{ "role": "assistant", "parts": parts }]).to_string();
            run.set_attribute(KeyValue::new("gen_ai.output.messages", message));
        }
        if let Some(failure) = failure {
            run.set_attribute(KeyValue::new("error.type", failure.code.to_string()));
            run.set_status(Status::error(failure.message.to_string()));
        }
        state.close_all();
        run.end();
        state.is_ended = true;
    }

    /// Ends all spans: the run has ended or is driven elsewhere. A run without a terminal event is driven by
    /// another replica now, so its outcome here is `taken_over`.
    pub(crate) fn handle_end(&self) {
        let mut state = self.state();
        if !state.is_ended {
            self.end(&mut state, "taken_over", None, &[]);
        }
    }
}

impl State {
    /// Ends every span that is open inside the run.
    fn close_all(&mut self) {
        self.arguments.clear();
        let lanes = self.lanes.drain().map(|(_, (_, span))| span);
        let early = self.early.drain(..).map(|(_, span)| span);
        let tools = self.tools.drain().map(|(_, span)| span);
        for mut span in lanes.chain(early).chain(tools).chain(self.interrupts.drain(..)) {
            span.end();
        }
    }
}

/// Ends the span of a lane with the same outcome label as the metric `lanes`.
fn end_lane(span: &mut Span, outcome: &LaneOutcome) {
    span.set_attribute(KeyValue::new("aqueduct.outcome", super::super::meter::lane_outcome(outcome)));
    if let LaneOutcome::Failed(failure) = outcome {
        span.set_attribute(KeyValue::new("error.type", failure.code.to_string()));
        span.set_status(Status::error(failure.message.to_string()));
    }
    span.end();
}
