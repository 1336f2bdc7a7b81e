//! Readable traces for golden files: one line per event, stable.
//!
//! ```text
//! run started thread=thread run=run
//! lane+ run/2 "researcher" in root
//! text+ run/3 @run/2 message="m1"
//! text  run/3 "Hello"
//! text- run/3 complete
//! tool+ call_1 "search"
//! tool  call_1 "{}"
//! tool- call_1 complete
//! result run/4 of call_1 "found"
//! run finished success
//! ```

use std::fmt::Write as _;

use crate::event::{BlockEvent, BlockHead, Lane, SpanKind};
use crate::run::{LaneOutcome, Usage};
use crate::update::{Channel, Role};

/// Returns the trace of a whole stream, one line per event.
pub fn trace<'a>(events: impl IntoIterator<Item = &'a BlockEvent>) -> String {
    events.into_iter().map(|event| trace_line(event) + "\n").collect()
}

/// Returns one event as one line.
pub fn trace_line(event: &BlockEvent) -> String {
    match event {
        BlockEvent::RunStarted(run) => format!("run started thread={} run={}", run.thread_id, run.run_id),
        BlockEvent::LaneOpened(lane) => opened(lane),
        BlockEvent::LaneClosed { lane, outcome } => format!("lane- {} {}", lane.id, outcome_text(outcome)),
        BlockEvent::BlockStarted(block) => started(block),
        BlockEvent::BlockDelta { block, delta } => {
            format!("{:<5} {} {}", kind(block), block.id, quoted(delta))
        }
        BlockEvent::ThinkingEncrypted { block, value } => {
            format!("seal  {} {}", block.id, quoted(value))
        }
        BlockEvent::BlockEnded { block, reason } => {
            format!("{}- {} {}", kind(block), block.id, format!("{reason:?}").to_lowercase())
        }
        BlockEvent::ToolResult(result) => {
            let error = if result.is_error { " ERROR" } else { "" };
            let output = quoted(&result.output.to_text());
            format!("result {}{} of {}{error} {output}", result.id, at(&result.lane), result.call_id)
        }
        BlockEvent::Custom(custom) => {
            let mark = channel(custom.channel);
            format!("custom {}{}{mark} {:?} {}", custom.id, at(&custom.lane), &*custom.name, custom.value)
        }
        BlockEvent::StepStarted { lane, name } => format!("step+ {:?}{}", &**name, at(lane)),
        BlockEvent::StepFinished { lane, name } => format!("step- {:?}{}", &**name, at(lane)),
        BlockEvent::StateSnapshot { lane, state } => format!("state{} = {state}", at(lane)),
        BlockEvent::StateDelta { lane, patch } => {
            format!("state{} patch {}", at(lane), serde_json::Value::from(patch.clone()))
        }
        BlockEvent::Usage { lane, usage } => format!("usage{} {}", at(lane), usage_text(usage)),
        BlockEvent::InterruptRequested(pending) => {
            let ask = &pending.interrupt;
            let message = ask.message.as_deref().map(quoted).unwrap_or_default();
            format!("interrupt {}{} {} {message}", ask.id, at(&pending.lane), &*ask.reason)
        }
        BlockEvent::RunFinished(end) => finished(end),
        BlockEvent::RunFailed(failed) => {
            let mut line = format!("run failed {}: {}", &*failed.failure.code, &*failed.failure.message);
            append_usage(&mut line, &failed.usage);
            line
        }
    }
}

fn kind(block: &BlockHead) -> &'static str {
    match block.kind {
        SpanKind::Text => "text",
        SpanKind::Thinking => "think",
        SpanKind::ToolUse => "tool",
    }
}

fn started(block: &BlockHead) -> String {
    let mut line = format!("{}+ {}{}{}", kind(block), block.id, at(&block.lane), channel(block.channel));
    if block.kind == SpanKind::ToolUse {
        append(&mut line, format_args!(" {:?}", &*block.tool_name));
    }
    if block.role != Role::Assistant {
        append(&mut line, format_args!(" role={:?}", block.role));
    }
    let links = [("parent", &block.parent), ("continues", &block.continues), ("replaces", &block.replaces)];
    for (name, id) in links {
        if let Some(id) = id {
            append(&mut line, format_args!(" {name}={id}"));
        }
    }
    if let Some(id) = &block.origin.message_id {
        append(&mut line, format_args!(" message={id:?}"));
    }
    if !block.origin.track.as_str().is_empty() {
        append(&mut line, format_args!(" track={:?}", block.origin.track.as_str()));
    }
    line
}

fn opened(lane: &Lane) -> String {
    let mut text = format!("lane+ {} {:?}", lane.id, lane.name());
    if let Some(parent) = lane.parent.as_ref().filter(|parent| !parent.is_root()) {
        append(&mut text, format_args!(" in {}", parent.id));
    }
    if let Some(call) = &lane.parent_call {
        append(&mut text, format_args!(" for {call}"));
    }
    text
}

fn finished(end: &crate::event::RunFinished) -> String {
    let mut line = format!("run finished {}", format!("{:?}", end.outcome).to_lowercase());
    for pending in &end.interrupts {
        append(&mut line, format_args!(" waits={}", pending.interrupt.id));
    }
    for call in &end.pending_calls {
        append(&mut line, format_args!(" unanswered={call}"));
    }
    if let Some(result) = &end.result {
        append(&mut line, format_args!(" result={result}"));
    }
    append_usage(&mut line, &end.usage);
    line
}

fn outcome_text(outcome: &LaneOutcome) -> String {
    match outcome {
        LaneOutcome::Success(None) => "success".to_owned(),
        LaneOutcome::Success(Some(value)) => format!("success {value}"),
        LaneOutcome::Suspended => "suspended".to_owned(),
        LaneOutcome::Cancelled => "cancelled".to_owned(),
        LaneOutcome::Failed(failure) => format!("failed {}: {}", &*failure.code, &*failure.message),
    }
}

fn usage_text(usage: &Usage) -> String {
    let counts =
        [("in", usage.input), ("out", usage.output), ("total", usage.total), ("reasoning", usage.reasoning)];
    let mut parts: Vec<String> =
        [&usage.provider, &usage.model].into_iter().flatten().map(quoted_ref).collect();
    parts.extend(counts.into_iter().filter_map(|(name, count)| count.map(|n| format!("{name}={n}"))));
    parts.join(" ")
}

fn append_usage(line: &mut String, usage: &[Usage]) {
    for usage in usage {
        append(line, format_args!(" usage({})", usage_text(usage)));
    }
}

fn at(lane: &Lane) -> String {
    if lane.is_root() { String::new() } else { format!(" @{}", lane.id) }
}

fn channel(channel: Channel) -> &'static str {
    match channel {
        Channel::Answer => "",
        Channel::Intermediate => " intermediate",
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn quoted_ref(text: &bytestring::ByteString) -> String {
    quoted(text)
}

fn append(line: &mut String, args: std::fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    line.write_fmt(args).unwrap_or_default();
}
