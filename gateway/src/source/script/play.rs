//! Plays a rule: each step becomes the source events that a real agent would have emitted.
//!
//! ```text
//! rule fits ──► step ──► step ──► … ──► success
//!                │ ask, auth                      │ fail, reject, raise, cut, end
//!                ▼                                ▼
//!            interrupted ── next run of the thread: on with the step after it
//! ```

use aqueduct_adapter_a2a::convert::PLAIN_STATUS;
use aqueduct_adapter_a2a::decode::metadata::ARTIFACT_NAME;
use aqueduct_adapter_a2a::error::REJECTED;
use aqueduct_core::block::{ToolOutput, ToolResult};
use aqueduct_core::{
    ContentBlock, Interrupt, LaneOutcome, Message, Metadata, RunFailure, RunInput, RunOutcome, SourceEvent,
    ToolCallId, Update, wellknown,
};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::model::{Action, Artifact, Close, End, Rule, Step, Words};
use super::{A2A_MESSAGE, CUT, Position};
use crate::source::EventSender;

/// Plays one rule for one run.
pub(super) struct Player<'p> {
    pub(super) input: &'p RunInput,
    pub(super) out: &'p EventSender,
    /// The index of the rule in the script.
    pub(super) rule: usize,
    /// The reply of the human, if the run continues after an interrupt.
    pub(super) answer: Option<String>,
}

/// How a rule ended.
pub(super) enum Played {
    /// With this terminal event.
    Ended(Box<SourceEvent>),
    /// With an interrupt; the next run continues at this position.
    Asked(Position),
}

impl Player<'_> {
    /// Plays the steps from an index on.
    ///
    /// Steps with the same `together` number run concurrently, and the rule continues when all of them have ended. If
    /// several of them end the run, the first in the order of the script decides.
    pub(super) async fn play(&self, rule: &Rule, from: usize) -> Played {
        let mut at = from;
        while let Some((first, rest)) = rule.steps.get(at..).and_then(<[Step]>::split_first) {
            // The group: the step at `at` and the steps directly after it with the same number.
            let with_first = |step: &&Step| first.together.is_some() && step.together == first.together;
            let more = rest.iter().take_while(with_first).count();
            let now = rule.steps.iter().enumerate().skip(at).take(more + 1);
            at += more + 1;
            let ends = join_all(now.map(|(index, step)| self.step(index, step))).await;
            match ends.into_iter().flatten().next() {
                None => {}
                Some(Stop::Asked(interrupt, source)) => {
                    let mut interrupt = *interrupt;
                    let position = Position { rule: self.rule, step: at };
                    // The id contains where to continue, so that no replica needs a memory of the interrupt.
                    interrupt.id = position.interrupt_id(&self.input.run_id);
                    self.out
                        .send(SourceEvent::InterruptRequested { source, interrupt: Box::new(interrupt) })
                        .await;
                    return Played::Asked(position);
                }
                Some(Stop::Ended(end)) => return Played::Ended(end),
            }
        }
        Played::Ended(Box::new(finished(RunOutcome::Success)))
    }

    /// Plays one step. Returns the reason if it is the last step of this run.
    async fn step(&self, index: usize, step: &Step) -> Option<Stop> {
        match &step.action {
            Action::Text(words) => self.words(step, words, ContentBlock::text).await,
            Action::Thinking(words) => self.words(step, words, ContentBlock::thinking).await,
            Action::Status(text) => self.status(step, &self.fill(text)).await,
            Action::Notice { tool, is_error } => self.notice(step, tool, *is_error).await,
            Action::Tool { name, arguments, result, is_error } => {
                let id = format!("{name}-{}-{index}", self.rule);
                self.tool(step, &id, name, arguments, result.as_deref().map(|text| (text, *is_error))).await;
            }
            Action::File(value) => self.say(step, ContentBlock::custom(wellknown::FILE, value.clone())).await,
            Action::Data(value) => self.say(step, ContentBlock::custom(wellknown::DATA, value.clone())).await,
            Action::Custom { name, value } => {
                self.say(step, ContentBlock::custom(name.clone(), value.clone())).await;
            }
            Action::State(state) => {
                let event = SourceEvent::StateSnapshot { source: step.source(), state: state.clone() };
                self.out.send(event).await;
            }
            Action::Burst { count, text } => self.burst(step, *count, text).await,
            Action::Message(text) => {
                // The content that follows is the message; frontends of other protocols receive it as any other text.
                self.say(step, ContentBlock::custom(A2A_MESSAGE, json!({}))).await;
                self.words(step, &Words::Chunks(vec![text.clone()]), ContentBlock::text).await;
            }
            Action::Close(how) => self.close(step, *how).await,
            Action::Sleep(time) => tokio::time::sleep(*time).await,
            Action::Ask { question, reason, schema } => {
                let mut interrupt = Interrupt::new("", *reason);
                interrupt.message = Some(self.fill(question).into());
                interrupt.response_schema =
                    Some(schema.clone().unwrap_or_else(|| json!({ "type": "string" })));
                return Some(Stop::Asked(Box::new(interrupt), step.source()));
            }
            Action::End(end) => return Some(Stop::Ended(Box::new(self.end(end)))),
        }
        None
    }

    /// Emits a block that is complete with one update.
    async fn say(&self, step: &Step, block: ContentBlock) {
        self.out.send(self.placed(step, Update::new(block)).last()).await;
    }

    /// Adds the sub-agent, channel and artifact of the step to an update.
    ///
    /// An artifact is a track and a message of its own, so that several artifacts can be open at once and each is
    /// continued by its name.
    fn placed(&self, step: &Step, update: Update) -> Update {
        let update = step.place(update);
        let Some(Artifact { name, .. }) = &step.artifact else { return update };
        let mut update = update.on_track(name.clone()).in_message(format!("{}/{name}", self.input.run_id));
        let mut metadata = Metadata::new();
        metadata.insert(ARTIFACT_NAME.to_owned(), Value::from(name.as_str()));
        update.details_mut().metadata = Some(metadata.into());
        update
    }

    /// Emits a text word by word, or chunk by chunk, with the pace of the step between the pieces. `block` decides
    /// whether it is text or thinking.
    async fn words(&self, step: &Step, words: &Words, block: impl Fn(String) -> ContentBlock) {
        let pieces: Vec<String> = match words {
            Words::Flow(text) => self.fill(text).split_inclusive(' ').map(str::to_owned).collect(),
            Words::Chunks(chunks) => chunks.iter().map(|chunk| self.fill(chunk)).collect(),
        };
        let count = pieces.len();
        for (index, piece) in pieces.into_iter().enumerate() {
            let update = self.placed(step, Update::new(block(piece)));
            self.out.send(bounded(step, update, index == 0, index + 1 == count)).await;
            self.pause(step).await;
        }
    }

    /// Emits one text many times without a pause, for tests of slow readers. Stops if the run was dropped.
    async fn burst(&self, step: &Step, count: u64, text: &str) {
        for number in 1..=count {
            let piece = self.fill(text).replace("{n}", &number.to_string());
            let update = self.placed(step, Update::text(piece));
            if !self.out.send(bounded(step, update, number == 1, number == count)).await {
                return;
            }
        }
    }

    /// Emits a complete text of its own, which an A2A agent sends as its status.
    async fn status(&self, step: &Step, text: &str) {
        let mut update = step.place(Update::text(text.to_owned())).intermediate().last();
        let mut metadata = Metadata::new();
        metadata.insert(PLAIN_STATUS.to_owned(), Value::Bool(true));
        update.details_mut().metadata = Some(metadata.into());
        self.out.send(update).await;
        self.pause(step).await;
    }

    /// Emits the two status texts by which many A2A agents report a tool call.
    async fn notice(&self, step: &Step, tool: &str, is_error: bool) {
        self.status(step, &format!("🔧 Calling tool: **{tool}**")).await;
        // The texts are those of widespread agents, signs included: frontends and decoders recognize them.
        let (sign, word) = if is_error { ("❌", "failed") } else { ("✅", "completed") };
        self.status(step, &format!("{sign} Tool **{tool}** {word}")).await;
    }

    /// Emits a tool call with its arguments, and its result after one pace. Without a result the call stays open.
    async fn tool(&self, step: &Step, id: &str, name: &str, arguments: &str, result: Option<(&str, bool)>) {
        let arguments = self.fill(arguments);
        let call = ContentBlock::tool_use(id.to_owned(), name.to_owned(), arguments);
        self.out.send(step.place(Update::new(call)).last()).await;
        let Some((result, is_error)) = result else { return };
        self.pause(step).await;
        let output = ToolOutput::Text(self.fill(result).into());
        let result = ToolResult { id: Some(ToolCallId::from(id)), name: None, output, is_error };
        self.out.send(step.place(Update::new(ContentBlock::from(result)))).await;
    }

    /// Ends the lane of the step's sub-agent, with the outcome of the step.
    async fn close(&self, step: &Step, how: Close) {
        let outcome = match how {
            Close::Success => LaneOutcome::Success(None),
            Close::Cancelled => LaneOutcome::Cancelled,
            Close::Failed => {
                LaneOutcome::Failed(RunFailure::new(RunFailure::AGENT_FAILED, "the sub-agent failed"))
            }
        };
        self.out.send(SourceEvent::LaneClosed { source: step.source(), outcome }).await;
    }

    /// Sleeps for the pace of the step. Without a pace no timer is used.
    async fn pause(&self, step: &Step) {
        if !step.pace.is_zero() {
            tokio::time::sleep(step.pace).await;
        }
    }

    /// Returns the terminal event of a run that a step ends.
    fn end(&self, end: &End) -> SourceEvent {
        let failed = |code: &'static str, words: String| SourceEvent::Failed(RunFailure::new(code, words));
        match end {
            End::Success => finished(RunOutcome::Success),
            End::Cancelled => finished(RunOutcome::Cancelled),
            End::Fail(words) => failed(RunFailure::AGENT_FAILED, self.fill(words)),
            End::Reject(words) => failed(REJECTED, self.fill(words)),
            End::Raise(words) => {
                let words = format!("the agent broke off with an exception: {}", self.fill(words));
                failed(RunFailure::UPSTREAM_ENDED, words)
            }
            // The message contains the code too: the server cuts the connection where it finds the code, which not
            // every protocol sends separately.
            End::Cut => failed(CUT, format!("the script cut the connection ({CUT})")),
        }
    }

    /// Replaces `{prompt}` by the user's message and `{answer}` by the reply to the last interrupt; empty if there is
    /// none.
    fn fill(&self, text: &str) -> String {
        if !text.contains('{') {
            return text.to_owned();
        }
        let prompt = self.input.latest_user_message().map(Message::text).unwrap_or_default();
        text.replace("{prompt}", &prompt).replace("{answer}", self.answer.as_deref().unwrap_or_default())
    }
}

/// Marks the first and the last piece of a step: with `append = false` the first one replaces the artifact, and with
/// `last = false` the last one leaves it open.
fn bounded(step: &Step, update: Update, is_first: bool, is_last: bool) -> Update {
    let artifact = step.artifact.as_ref();
    let is_other = is_first && artifact.is_some_and(|artifact| !artifact.append);
    let update = if is_other { update.replace() } else { update };
    if is_last && artifact.is_none_or(|artifact| artifact.last) { update.last() } else { update }
}

/// Why no further step is played: the run has ended, or waits for a reply to an interrupt of that sub-agent.
enum Stop {
    Ended(Box<SourceEvent>),
    Asked(Box<Interrupt>, aqueduct_core::Source),
}

/// Returns the terminal event of a run that did not fail.
fn finished(outcome: RunOutcome) -> SourceEvent {
    SourceEvent::Finished { outcome, result: None }
}
