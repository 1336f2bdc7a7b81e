//! The list of runs: each with its prompt, outcome, length, tokens and failures, narrowed by the filters of the page.
//!
//! ```text
//! Runs::list_runs (the caller's own) ──► filters on states ──► summary from the log ──► filters on summaries
//! ```
//!
//! Invariants: no summary is built of a run that the caller may not access; the summary of an ended run is read from
//! the log once and then cached, up to [`HELD`] of them; at most [`SCANNED`] events of one run are read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use aqueduct_core::service::{Caller, ServiceError};
use aqueduct_core::{BlockEvent, Identity, LaneOutcome, RunId, RunOutcome, Timestamp, Usage};
use aqueduct_runlog::{LogError, RunLog, RunState};
use aqueduct_runs::{OF_EXTENSION, Runs};
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::progress::shortened;
use crate::service::Gateway;

/// The largest number of runs in the response; filters search further back.
const LISTED: usize = 200;
/// The number of newest runs that the filters search.
const SEARCHED: usize = 5_000;
/// Events of one run from which a summary is built, beside its last event: more than most runs have, and one read of
/// the log.
const SCANNED: usize = 2_000;
/// Summaries of ended runs in the cache: some 500 bytes each.
const HELD: usize = 8_192;
/// Summaries that are read from the log concurrently, for engines on another machine.
const AT_ONCE: usize = 16;
/// The longest prompt or error message in the list, in characters.
const TEXT: usize = 400;

/// The query of `GET /inspector/runs`. Every filter is optional.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RunsQuery {
    /// The name of the agent, exactly; empty for all.
    agent: String,
    /// `running`, `success`, `interrupt`, `cancelled` or `failed`; `errors` for runs that failed or had a sub-agent fail.
    outcome: String,
    /// The id of the thread, exactly; empty for all.
    thread: String,
    /// A part of the principal's name or tenant.
    principal: String,
    /// Milliseconds since 1970: runs that were opened at this time or later.
    since: Option<i64>,
    /// Milliseconds since 1970: runs that were opened before this time.
    until: Option<i64>,
    /// Words to search for in the prompt, the agent, the ids and the errors.
    q: String,
    /// The largest number of runs in the response, from 1 to [`LISTED`].
    limit: Option<usize>,
}

/// Facts about a run that its events contain, beside its state.
#[derive(Debug, Clone, Default)]
struct Summary {
    /// As in [`RunsQuery::outcome`], without `errors`.
    outcome: &'static str,
    prompt: String,
    /// Code and message of a run that failed.
    failure: Option<(String, String)>,
    /// Name and error message of each sub-agent that failed.
    failed_lanes: Vec<(String, String)>,
    /// The number of invocations of sub-agents.
    lanes: usize,
    /// The number of tool results.
    tools: usize,
    usage: Usage,
    /// The last cost that the agent reported, without a currency.
    cost: Option<f64>,
    /// The trace id of the run, if its trace is exported.
    trace: Option<String>,
}

/// Identifies a run: ids may be reused after their run has expired.
type Key = (RunId, Timestamp);

/// Summaries of ended runs, which never change.
#[derive(Debug, Clone, Default)]
pub(super) struct Summaries(Arc<Mutex<HashMap<Key, Arc<Summary>>>>);

impl Summaries {
    /// Returns the summary of a run, from the cache if the run has ended. Two requests may read the same run at the
    /// same time; the result is equal.
    ///
    /// # Errors
    ///
    /// Returns the error of the log, also if the run has expired.
    async fn of(&self, log: &dyn RunLog, run: &RunState) -> Result<Arc<Summary>, LogError> {
        let key = (run.meta.run_id.clone(), run.meta.opened_at);
        if let Some(held) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(Arc::clone(held));
        }
        let summary = Arc::new(summarise(log, run).await?);
        if run.closed_at.is_some() {
            let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // All at once: which entries are used again is unknown, and a full cache is rare.
            if held.len() >= HELD {
                held.clear();
            }
            held.insert(key, Arc::clone(&summary));
        }
        Ok(summary)
    }
}

/// Returns the newest runs of the caller that pass the filters.
///
/// Filters on the state of a run are applied before its events are read. Summaries are read in order, [`AT_ONCE`] at a
/// time, until the list is full. `searchedAll` is `false` if there are more runs than were searched.
///
/// ```text
/// {"runs":[{"run":"…","agent":"team","outcome":"success","prompt":"…","events":42,…}],"more":false,"searched":1,…}
/// ```
///
/// # Errors
///
/// Returns a refusal if the caller cannot be identified, or if the log does not respond.
pub(super) async fn list(
    gateway: &Gateway,
    summaries: &Summaries,
    caller: &Caller,
    query: &RunsQuery,
) -> Result<Value, ServiceError> {
    let runs = gateway.runs().list_runs(caller, SEARCHED).await?;
    let traces = gateway.config().inspector.traces.clone();
    let identity = gateway.runs().identify(caller)?;
    let limit = query.limit.unwrap_or(LISTED).clamp(1, LISTED);
    let searched = runs.len();
    let is_full = searched == SEARCHED;
    let wanted = runs.into_iter().filter(|run| query.wants_state(run));
    let log = gateway.log();
    let read = |run: RunState| async move {
        let summary = summaries.of(&**log, &run).await;
        (run, summary)
    };
    let mut found = stream::iter(wanted).map(read).buffered(AT_ONCE);
    let mut list = Vec::new();
    let mut is_more = false;
    while let Some((run, summary)) = found.next().await {
        // A run that has expired since the list was read is omitted.
        let Ok(summary) = summary else { continue };
        if !query.wants_summary(&run, &summary) {
            continue;
        }
        is_more = list.len() == limit;
        if is_more {
            break;
        }
        let mut entry = to_json(&identity, &run, &summary);
        if let (true, Some(entry)) = (identity.is_admin, entry.as_object_mut()) {
            entry.insert("principal".to_owned(), run.meta.owner.as_str().into());
        }
        if let (Some(trace), Some(entry)) = (&summary.trace, entry.as_object_mut()) {
            let url = traces.as_ref().map(|url| url.replace("{trace}", trace));
            entry.insert("traceUrl".to_owned(), url.into());
            entry.insert("trace".to_owned(), trace.clone().into());
        }
        list.push(entry);
    }
    Ok(
        json!({ "runs": list, "more": is_more, "searched": searched, "searchedAll": !is_full, "principals": identity.is_admin }),
    )
}

impl RunsQuery {
    /// Returns `true` if the run passes the filters that need no events.
    fn wants_state(&self, run: &RunState) -> bool {
        let RunState { meta, .. } = run;
        (self.agent.is_empty() || self.agent == meta.agent)
            && (self.thread.is_empty() || self.thread == meta.thread_id.as_str())
            && meta.owner.to_lowercase().contains(&self.principal.to_lowercase())
            && self.since.is_none_or(|since| meta.opened_at.0 >= since)
            && self.until.is_none_or(|until| meta.opened_at.0 < until)
    }

    /// Returns `true` if the run passes the filters on its summary. All words of `q` must be found, in any field.
    fn wants_summary(&self, run: &RunState, summary: &Summary) -> bool {
        let is_outcome = match self.outcome.as_str() {
            "" => true,
            "errors" => summary.outcome == "failed" || !summary.failed_lanes.is_empty(),
            outcome => outcome == summary.outcome,
        };
        is_outcome && self.q.split_whitespace().all(|word| says(run, summary, &word.to_lowercase()))
    }
}

/// Returns `true` if the listed fields of a run contain a word (in lower case).
fn says(run: &RunState, summary: &Summary, word: &str) -> bool {
    let lanes = summary.failed_lanes.iter().chain(&summary.failure).flat_map(|(name, what)| [name, what]);
    let ids = [run.meta.run_id.as_str(), run.meta.thread_id.as_str(), &run.meta.agent, &summary.prompt];
    ids.into_iter().chain(lanes.map(String::as_str)).any(|text| text.to_lowercase().contains(word))
}

/// Builds the summary of a run from its first [`SCANNED`] events, its last event and its input. Counts of a longer run
/// are therefore lower bounds; its outcome is exact.
async fn summarise(log: &dyn RunLog, run: &RunState) -> Result<Summary, LogError> {
    let id = &run.meta.run_id;
    let page = log.read(id, run.earliest.saturating_sub(1), SCANNED).await?;
    let mut summary = Summary { outcome: "running", ..Summary::default() };
    page.events.iter().for_each(|event| summary.handle_event(&event.event));
    let read = page.events.last().map_or(0, |event| event.number);
    // The last event of an ended run has the outcome, the failure and the usage.
    if run.closed_at.is_some() && read < run.head {
        let last = log.read(id, run.head.saturating_sub(1), 1).await?;
        last.events.iter().for_each(|event| summary.handle_event(&event.event));
    }
    if let Some(input) = log.input(id).await? {
        summary.prompt = cut(&prompt_of(&input));
        summary.trace = trace_of(&input);
    }
    Ok(summary)
}

impl Summary {
    /// Adds one event to the summary. Usage is taken from the terminal event alone, which contains the sum.
    fn handle_event(&mut self, event: &BlockEvent) {
        match event {
            BlockEvent::LaneOpened(_) => self.lanes += 1,
            BlockEvent::LaneClosed { lane, outcome } => {
                if let LaneOutcome::Failed(failure) = &**outcome {
                    self.failed_lanes.push((cut(lane.name()), cut(&failure.message)));
                }
            }
            BlockEvent::ToolResult(_) => self.tools += 1,
            BlockEvent::Custom(custom) => self.cost = told_cost(&custom.value).or(self.cost),
            BlockEvent::RunFinished(end) => {
                self.outcome = match end.outcome {
                    RunOutcome::Interrupted => "interrupt",
                    RunOutcome::Cancelled => "cancelled",
                    _ => "success",
                };
                self.cost = end.result.as_ref().and_then(told_cost).or(self.cost);
                end.usage.iter().for_each(|usage| self.usage.add(usage));
            }
            BlockEvent::RunFailed(end) => {
                self.outcome = "failed";
                self.failure = Some((end.failure.code.to_string(), cut(&end.failure.message)));
                end.usage.iter().for_each(|usage| self.usage.add(usage));
            }
            _ => {}
        }
    }
}

/// Returns the trace id of a run: that of the W3C `traceparent` which the gateway stores with the input, if the span is
/// sampled.
fn trace_of(input: &Value) -> Option<String> {
    let span = input.get(OF_EXTENSION)?.get("span")?.as_str()?;
    let fields: Vec<&str> = span.split('-').collect();
    let [_, trace, _, flags] = fields.as_slice() else { return None };
    let is_sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
    let is_id = trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_sampled && is_id).then(|| (*trace).to_owned())
}

/// Members in which agents and model gateways report the cost of a run. The protocols define none.
const COSTS: [&str; 6] = ["cost", "costUsd", "cost_usd", "total_cost_usd", "totalCost", "total_cost"];

/// Returns the cost in a reported value, directly or below `usage` or `metadata`. A cost that is not a number is
/// ignored.
fn told_cost(value: &Value) -> Option<f64> {
    let object = value.as_object()?;
    let own = COSTS.iter().find_map(|name| object.get(*name)?.as_f64());
    own.or_else(|| ["usage", "metadata"].iter().find_map(|inner| told_cost(object.get(*inner)?)))
}

/// Returns the last message of the user in a recorded input.
fn prompt_of(input: &Value) -> String {
    let messages = input.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let prompt = messages.iter().rev().find(|message| message.get("role").is_some_and(|role| role == "user"));
    match prompt.and_then(|message| message.get("content")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            texts.collect::<Vec<_>>().join(" ")
        }
        _ => String::new(),
    }
}

/// Returns at most [`TEXT`] characters of a text, with an ellipsis if it is longer.
fn cut(text: &str) -> String {
    shortened(text, TEXT)
}

/// Returns the entry of a run as the page reads it. `run` is the id with which this caller can watch the run.
fn to_json(identity: &Identity, run: &RunState, summary: &Summary) -> Value {
    let RunState { meta, .. } = run;
    let Summary { usage, .. } = summary;
    let named = |(name, message): &(String, String)| json!({ "name": name, "message": message });
    let total = usage.total.or_else(|| Some(usage.input? + usage.output?));
    json!({
        "run": Runs::id_for(identity, meta).as_str(), "runId": meta.public_id().as_str(), "owner": meta.owner, "thread": meta.thread_id.as_str(), "agent": meta.agent,
        "openedAt": meta.opened_at.0, "endedAt": run.closed_at.map(|at| at.0), "events": run.head,
        "outcome": summary.outcome, "prompt": summary.prompt, "lanes": summary.lanes, "tools": summary.tools,
        "error": summary.failure.as_ref().map(|(code, message)| json!({ "code": code, "message": message })),
        "failedAgents": summary.failed_lanes.iter().map(named).collect::<Vec<_>>(),
        "tokens": { "input": usage.input, "output": usage.output, "total": total },
        "cost": summary.cost,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_found_where_it_is_told() {
        assert_eq!(told_cost(&json!({ "total_cost_usd": 0.3 })), Some(0.3));
        assert_eq!(told_cost(&json!({ "usage": { "cost": 2 } })), Some(2.0));
        assert_eq!(told_cost(&json!({ "cost": "much" })), None);
        assert_eq!(told_cost(&json!([1])), None);
    }

    #[test]
    fn a_trace_is_that_of_the_span_if_it_is_sampled() {
        let parent = |flags: &str| format!("00-{}-{}-{flags}", "a1".repeat(16), "b2".repeat(8));
        let input = |span: String| json!({ "messages": [], OF_EXTENSION: { "span": span, "parent": null } });
        assert_eq!(trace_of(&input(parent("01"))), Some("a1".repeat(16)));
        assert_eq!(trace_of(&input(parent("00"))), None, "it is not exported");
        assert_eq!(trace_of(&input("00-zz-yy-01".to_owned())), None);
        assert_eq!(
            trace_of(&json!({ "state": { "span": parent("01") } })),
            None,
            "a word of a caller is no trace"
        );
    }

    #[test]
    fn a_prompt_is_the_last_thing_that_the_user_said() {
        let input = json!({ "messages": [
            { "role": "user", "content": "first" }, { "role": "user", "content": [{ "type": "text", "text": "two" },
            { "type": "image" }, { "type": "text", "text": "parts" }] }, { "role": "assistant", "content": "no" },
        ] });
        assert_eq!(prompt_of(&input), "two parts");
        assert_eq!(prompt_of(&json!({})), "");
        assert_eq!(cut(&"é".repeat(500)).chars().count(), TEXT + 1);
    }
}
