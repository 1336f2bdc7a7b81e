//! Verifies the order of events by the rules of the AG-UI client's own verifier.
//!
//! `RUN_STARTED` resets the state of the run:
//!
//! | phase | `RUN_STARTED` | `RUN_FINISHED` | `RUN_ERROR` | any other event |
//! |---|---|---|---|---|
//! | `New` | `Active` | rejected, then as `Active` | `Errored` | rejected, then as `Active` |
//! | `Active` | rejected, then `Active` | `Finished` | `Errored` | verified |
//! | `Finished` | `Active` | rejected | `Errored` | rejected |
//! | `Errored` | `Active` | rejected | rejected | rejected |
//!
//! | thing | opened by | needed by | at `RUN_FINISHED` |
//! |---|---|---|---|
//! | text message | `TEXT_MESSAGE_START` | content, end | must be ended |
//! | tool call | `TOOL_CALL_START` | arguments, end | must be ended; a result is not required |
//! | step | `STEP_STARTED` | `STEP_FINISHED` of the same agent | must be finished |
//! | sub-agent | `SUBAGENT_STARTED` | its end, its children | must be ended |
//! | reasoning span and message | `REASONING_START`, `REASONING_MESSAGE_START` | content, end | must be ended from 1.0 on |
//!
//! Everything in the first column has an owner: the sub-agent whose id (`subagentRunId`, here the *tag*) is in its first event,
//! or the parent agent if that event has no tag. A later event with another tag is rejected; one without a tag is accepted.

use std::collections::{HashMap, HashSet};

use aqueduct_core::ByteString;

use super::rule::{Report, Rule, Severity};
use crate::config::Dialect;
use crate::wire::{ActivitySnapshot, EncryptedSubtype, Event, Message, SubagentStarted, ToolCallStart};

/// The agent that opened a message, call, step or reasoning span: the tag of a sub-agent, or `None` for the parent agent.
type Owner = Option<ByteString>;

/// The phase of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// No event has arrived.
    New,
    /// A run is in progress.
    Active,
    /// `RUN_FINISHED` was the last event; only a new run or `RUN_ERROR` may follow.
    Finished,
    /// `RUN_ERROR` was the last event; only a new run may follow.
    Errored,
}

/// The state of the stream.
#[derive(Debug)]
pub(super) struct Order {
    dialect: Dialect,
    pub(super) phase: Phase,
    run: Run,
}

/// What is open in one run, and who owns it.
#[derive(Debug, Default)]
struct Run {
    /// This list and the next ones are in the order of opening, in which violations name the ids. They are short.
    texts: Vec<ByteString>,
    tools: Vec<ByteString>,
    spans: Vec<ByteString>,
    reasonings: Vec<ByteString>,
    /// Steps have no id: the agent and the name identify one.
    steps: Vec<(Owner, ByteString)>,
    subagents: Vec<ByteString>,
    /// A sub-agent's id names one invocation and must not start again in this run.
    ended_subagents: HashSet<ByteString>,
    owners: Owners,
}

/// The owners of ids, one map per kind, because a message and a call may have the same id. Owners are kept after the end:
/// later events may name the id.
#[derive(Debug, Default)]
struct Owners {
    messages: HashMap<ByteString, Owner>,
    calls: HashMap<ByteString, Owner>,
    activities: HashMap<ByteString, Owner>,
    reasonings: HashMap<ByteString, Owner>,
}

impl Order {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self { dialect, phase: Phase::New, run: Run::default() }
    }

    /// Returns the open text messages.
    pub(super) fn open_texts(&self) -> &[ByteString] {
        &self.run.texts
    }

    /// Returns the kinds of which something is open, each with its ids, for error messages.
    pub(super) fn open_things(&self) -> Vec<(&'static str, String)> {
        let run = &self.run;
        let steps: Vec<_> = run.steps.iter().map(|(_, name)| name.clone()).collect();
        let all = [
            ("steps", &steps),
            ("text messages", &run.texts),
            ("reasoning messages", &run.reasonings),
            ("reasoning spans", &run.spans),
            ("tool calls", &run.tools),
            ("sub-agents", &run.subagents),
        ];
        all.into_iter().filter(|(_, ids)| !ids.is_empty()).map(|(kind, ids)| (kind, ids.join(", "))).collect()
    }

    /// Verifies the next event, and reports violations.
    pub(super) fn handle(&mut self, event: &Event, report: &mut Report) {
        if !self.handle_phase(event, report) {
            return;
        }
        match event {
            Event::RunStarted(started) => {
                let messages = started.input.iter().flat_map(|input| &input.messages);
                messages.for_each(|message| self.run.owners.seed(message, false));
            }
            Event::MessagesSnapshot(snapshot) => {
                snapshot.messages.iter().for_each(|message| self.run.owners.seed(message, true));
            }
            Event::RunFinished(_) => self.finish(report),
            Event::RunError(_) => self.phase = Phase::Errored,
            Event::StepStarted(_) | Event::StepFinished(_) => self.run.step(event, report),
            Event::SubagentStarted(_) | Event::SubagentFinished(_) | Event::SubagentError(_) => {
                self.run.subagent(event, report);
            }
            Event::ReasoningStart(_)
            | Event::ReasoningEnd(_)
            | Event::ReasoningMessageStart(_)
            | Event::ReasoningMessageContent(_)
            | Event::ReasoningMessageEnd(_)
            | Event::ReasoningEncryptedValue(_) => self.run.reasoning(event, self.dialect, report),
            Event::ActivitySnapshot(activity) => self.run.owners.activity(activity),
            Event::ActivityDelta(delta) => {
                let owner = self.run.owners.activities.get(&delta.message_id);
                check_owner(delta.subagent_run_id.as_ref(), owner, "activity", &delta.message_id, report);
            }
            _ => self.run.content(event, report),
        }
    }

    /// Verifies the event against the phase. Returns `false` if the event is rejected and must not change the state.
    fn handle_phase(&mut self, event: &Event, report: &mut Report) -> bool {
        let kind = event.kind();
        let (starts, errors) = (matches!(event, Event::RunStarted(_)), matches!(event, Event::RunError(_)));
        match self.phase {
            Phase::New if !starts && !errors => {
                // The verifier continues as if the run had started, so that one missing event is one
                // violation.
                report.rejected(Rule::FirstEvent, format!("the stream begins with {kind}"));
                self.phase = Phase::Active;
            }
            Phase::Errored if !starts => {
                report.rejected(Rule::AfterError, format!("{kind} follows RUN_ERROR"));
                return false;
            }
            Phase::Finished if !starts && !errors => {
                report.rejected(Rule::AfterFinish, format!("{kind} follows RUN_FINISHED"));
                return false;
            }
            Phase::Active if starts => {
                report.rejected(Rule::RunActive, "RUN_STARTED comes while a run is active".to_owned());
            }
            _ => {}
        }
        if starts {
            self.run = Run::default();
            self.phase = Phase::Active;
        }
        true
    }

    /// Reports everything that is still open at the end of a run.
    fn finish(&mut self, report: &mut Report) {
        for (kind, ids) in self.open_things() {
            let reasoning = kind.starts_with("reasoning");
            let severity = reasoning_severity(self.dialect, reasoning);
            report.add(Rule::OpenAtFinish, severity, format!("the run finishes with open {kind}: {ids}"));
        }
        self.phase = Phase::Finished;
        // The caller compares snapshots with the open texts: those of a finished run are already reported.
        self.run.texts.clear();
    }
}

/// Returns the severity of a violation. Clients verify reasoning from 1.0 on; older ones continue with a warning.
fn reasoning_severity(dialect: Dialect, reasoning: bool) -> Severity {
    if reasoning && dialect == Dialect::V0_0_59 { Severity::Unnoticed } else { Severity::Rejected }
}

/// Returns the name of an owner for an error message.
fn named(owner: Option<&ByteString>) -> String {
    owner.map_or_else(|| "the parent agent".to_owned(), |id| format!("sub-agent '{id}'"))
}

/// Reports a tag that differs from the owner of the id.
/// An event without a tag is accepted, because a client finds the owner by the id. An id without a known owner is accepted
/// here, because other rules report an id that is not open.
fn check_owner(tag: Option<&ByteString>, owner: Option<&Owner>, kind: &str, id: &str, report: &mut Report) {
    if let (Some(tag), Some(owner)) = (tag, owner)
        && owner.as_ref() != Some(tag)
    {
        let (tag, owner) = (named(Some(tag)), named(owner.as_ref()));
        report
            .rejected(Rule::OwnerMismatch, format!("{kind} '{id}' is tagged {tag}, but belongs to {owner}"));
    }
}

/// Removes an id from a list of open ones. Returns `false` if it is not in the list.
fn close(open: &mut Vec<ByteString>, id: &str) -> bool {
    let at = open.iter().position(|open| &**open == id);
    at.map(|at| open.remove(at)).is_some()
}

impl Run {
    /// Verifies text messages, tool calls and results.
    fn content(&mut self, event: &Event, report: &mut Report) {
        match event {
            Event::TextMessageStart(start) => {
                self.start_text(&start.message_id, start.subagent_run_id.as_ref(), report);
            }
            Event::TextMessageContent(content) => {
                let (id, tag) = (&content.message_id, content.subagent_run_id.as_ref());
                let open = self.texts.contains(id);
                check_open(open, Rule::TextNotOpen, "text message", id, report);
                check_owner(tag, self.owners.messages.get(id), "text message", id, report);
            }
            Event::TextMessageEnd(end) => {
                let (id, tag) = (&end.message_id, end.subagent_run_id.as_ref());
                let open = close(&mut self.texts, id);
                check_open(open, Rule::TextNotOpen, "text message", id, report);
                check_owner(tag, self.owners.messages.get(id), "text message", id, report);
            }
            Event::ToolCallStart(start) => self.start_tool(start, report),
            Event::ToolCallArgs(args) => {
                let (id, tag) = (&args.tool_call_id, args.subagent_run_id.as_ref());
                check_open(self.tools.contains(id), Rule::ToolNotOpen, "tool call", id, report);
                check_owner(tag, self.owners.calls.get(id), "tool call", id, report);
            }
            Event::ToolCallEnd(end) => {
                let (id, tag) = (&end.tool_call_id, end.subagent_run_id.as_ref());
                let open = close(&mut self.tools, id);
                check_open(open, Rule::ToolNotOpen, "tool call", id, report);
                check_owner(tag, self.owners.calls.get(id), "tool call", id, report);
            }
            Event::ToolCallResult(result) => {
                self.owners.messages.insert(result.message_id.clone(), result.subagent_run_id.clone());
            }
            _ => {}
        }
    }

    /// Opens a text message. A second start is reported; the owner stays the first one.
    fn start_text(&mut self, id: &ByteString, tag: Option<&ByteString>, report: &mut Report) {
        if self.texts.contains(id) {
            report.rejected(Rule::TextOpenTwice, format!("text message '{id}' is already open"));
        } else {
            self.texts.push(id.clone());
        }
        check_owner(tag, self.owners.messages.get(id), "text message", id, report);
        self.owners.messages.entry(id.clone()).or_insert_with(|| tag.cloned());
    }

    /// Opens a tool call. Its owner is its tag, or the owner of its parent message if it has no tag.
    fn start_tool(&mut self, start: &ToolCallStart, report: &mut Report) {
        let (id, tag) = (&start.tool_call_id, start.subagent_run_id.as_ref());
        if self.tools.contains(id) {
            report.rejected(Rule::ToolOpenTwice, format!("tool call '{id}' is already open"));
        } else {
            self.tools.push(id.clone());
        }
        let parent = start.parent_message_id.as_ref();
        let inherited = parent.and_then(|parent| self.owners.messages.get(parent)).cloned();
        // A call that starts again, or that a snapshot restated, has an owner already.
        let known = self.owners.calls.get(id);
        if let (Some(owner), Some(parent)) = (&inherited, parent) {
            // A tag, or the owner that an untagged call already has, must equal the owner of the parent message.
            let claimed = tag.cloned().map(Some).or_else(|| known.cloned());
            if claimed.is_some_and(|claimed| claimed != *owner) {
                let owner = named(owner.as_ref());
                let what = format!("tool call '{id}' is not of {owner}, who owns its message '{parent}'");
                report.rejected(Rule::ParentOwnerMismatch, what);
            }
        }
        check_owner(tag, known, "tool call", id, report);
        let owner = tag.cloned().or_else(|| inherited.flatten());
        self.owners.calls.entry(id.clone()).or_insert(owner);
    }

    /// Verifies a step. Steps are identified by agent and name.
    fn step(&mut self, event: &Event, report: &mut Report) {
        match event {
            Event::StepStarted(start) => {
                let step = (start.subagent_run_id.clone(), start.step_name.clone());
                if self.steps.contains(&step) {
                    let what = format!("step '{}' of {} is already open", step.1, named(step.0.as_ref()));
                    report.rejected(Rule::StepOpenTwice, what);
                } else {
                    self.steps.push(step);
                }
            }
            Event::StepFinished(finish) => {
                let (owner, name) = (finish.subagent_run_id.as_ref(), &finish.step_name);
                let own = self.steps.iter().position(|step| step.0.as_ref() == owner && step.1 == *name);
                if let Some(at) = own {
                    self.steps.remove(at);
                } else if let Some((other, _)) = self.steps.iter().find(|step| step.1 == *name) {
                    let (owner, other) = (named(owner), named(other.as_ref()));
                    let what = format!("step '{name}' is finished by {owner}, but open under {other}");
                    report.rejected(Rule::StepWrongOwner, what);
                } else {
                    report.rejected(Rule::StepNotOpen, format!("step '{name}' is not open"));
                }
            }
            _ => {}
        }
    }

    /// Verifies the start or the end of a sub-agent.
    fn subagent(&mut self, event: &Event, report: &mut Report) {
        let id = match event {
            Event::SubagentStarted(start) => return self.start_subagent(start, report),
            Event::SubagentFinished(finish) => &finish.subagent_run_id,
            Event::SubagentError(error) => &error.subagent_run_id,
            _ => return,
        };
        if close(&mut self.subagents, id) {
            self.ended_subagents.insert(id.clone());
        } else {
            report.rejected(Rule::SubagentNotOpen, format!("sub-agent '{id}' is not active"));
        }
    }

    /// Opens a sub-agent. Its id must be new in the run, and its parent must have been started.
    fn start_subagent(&mut self, start: &SubagentStarted, report: &mut Report) {
        let id = &start.subagent_run_id;
        if self.subagents.contains(id) {
            report.rejected(Rule::SubagentOpenTwice, format!("sub-agent '{id}' is already active"));
            return;
        }
        if self.ended_subagents.contains(id) {
            report.rejected(Rule::SubagentReused, format!("sub-agent '{id}' has already ended in this run"));
        }
        if let Some(parent) = &start.parent_subagent_run_id
            && !self.subagents.contains(parent)
            && !self.ended_subagents.contains(parent)
        {
            let what = format!("the parent '{parent}' of sub-agent '{id}' has not started in this run");
            report.rejected(Rule::SubagentUnknownParent, what);
        }
        self.subagents.push(id.clone());
    }

    /// Verifies a reasoning event. Spans and messages are opened and closed independently.
    fn reasoning(&mut self, event: &Event, dialect: Dialect, report: &mut Report) {
        let severity = reasoning_severity(dialect, true);
        let (id, tag) = match event {
            Event::ReasoningStart(e) => (&e.message_id, e.subagent_run_id.as_ref()),
            Event::ReasoningEnd(e) => (&e.message_id, e.subagent_run_id.as_ref()),
            Event::ReasoningMessageStart(e) => (&e.message_id, e.subagent_run_id.as_ref()),
            Event::ReasoningMessageContent(e) => (&e.message_id, e.subagent_run_id.as_ref()),
            Event::ReasoningMessageEnd(e) => (&e.message_id, e.subagent_run_id.as_ref()),
            Event::ReasoningEncryptedValue(e) => {
                let tag = e.subagent_run_id.as_ref();
                let owner = self.owners.sealed(e.subtype, &e.entity_id);
                return check_owner(tag, owner, "sealed value of", &e.entity_id, report);
            }
            _ => return,
        };
        let span = matches!(event, Event::ReasoningStart(_) | Event::ReasoningEnd(_));
        let (open, kind) = if span {
            (&mut self.spans, "reasoning span")
        } else {
            (&mut self.reasonings, "reasoning message")
        };
        match event {
            Event::ReasoningStart(_) | Event::ReasoningMessageStart(_) => {
                if open.contains(id) {
                    report.add(Rule::ReasoningOpenTwice, severity, format!("{kind} '{id}' is already open"));
                } else {
                    open.push(id.clone());
                }
            }
            Event::ReasoningMessageContent(_) if open.contains(id) => {}
            _ if close(open, id) => {}
            _ => report.add(Rule::ReasoningNotOpen, severity, format!("{kind} '{id}' is not open")),
        }
        check_owner(tag, self.owners.reasonings.get(id), "reasoning", id, report);
        if matches!(event, Event::ReasoningStart(_) | Event::ReasoningMessageStart(_)) {
            self.owners.reasonings.entry(id.clone()).or_insert_with(|| tag.cloned());
        }
    }
}

/// Reports an event for an id that is not open.
fn check_open(open: bool, rule: Rule, kind: &str, id: &str, report: &mut Report) {
    if !open {
        report.rejected(rule, format!("{kind} '{id}' is not open"));
    }
}

impl Owners {
    /// Sets the owners of a restated message and its calls. `replaces` is set for messages of a snapshot, which replace known
    /// owners; messages of an echoed input do not.
    fn seed(&mut self, message: &Message, replaces: bool) {
        let owner = message.subagent_run_id().cloned();
        let put = |map: &mut HashMap<ByteString, Owner>, id: &str| {
            if replaces || !map.contains_key(id) {
                map.insert(id.into(), owner.clone());
            }
        };
        let map = match message {
            Message::Reasoning(_) => &mut self.reasonings,
            Message::Activity(_) => &mut self.activities,
            _ => &mut self.messages,
        };
        put(map, message.id());
        for call in message.tool_calls() {
            put(&mut self.calls, &call.id);
        }
    }

    /// Records the owner of an activity message. A snapshot with `replace: false` keeps the first owner.
    fn activity(&mut self, activity: &ActivitySnapshot) {
        let id = &activity.message_id;
        if activity.replace != Some(false) || !self.activities.contains_key(id) {
            self.activities.insert(id.clone(), activity.subagent_run_id.clone());
        }
    }

    /// Returns the owner of the message or call that an encrypted value belongs to.
    fn sealed(&self, subtype: EncryptedSubtype, id: &ByteString) -> Option<&Owner> {
        match subtype {
            EncryptedSubtype::ToolCall => self.calls.get(id),
            EncryptedSubtype::Message => self.messages.get(id).or_else(|| self.reasonings.get(id)),
        }
    }
}
