//! Scripted agents: a TOML file that says what an agent says, for demos, tests and frontend developers.
//!
//! ```toml
//! description = "Looks something up."
//!
//! [[step]]
//! text = "Let me look."
//! channel = "intermediate"
//!
//! [[step]]
//! tool = "search"
//! arguments = '{"query":"rust"}'
//! result = "3 results"
//! agent = "researcher"          # a sub-agent; "a/b" is a sub-agent of a sub-agent
//! pace = "50ms"                 # between words and fragments
//!
//! [[step]]
//! text = "Found: {prompt}"      # what the user said last
//! ```
//!
//! Each step does one thing: `text`, `thinking`, `tool`, `file`, `data`, `state`, `ask`, `fail`, `close` or `wait`.
//! Steps of one `together` number run side by side. Without `fail` or `ask` a script ends as a success.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use aqueduct_core::block::{ToolOutput, ToolResult};
use aqueduct_core::service::BoxFuture;
use aqueduct_core::{
    ContentBlock, Interrupt, LaneOutcome, RunFailure, RunInput, RunOutcome, Source, SourceEvent, ToolCallId,
    Update, wellknown,
};
use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Ask, EventSender, RunSource};

/// A scripted agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// What the agent is for.
    #[serde(default)]
    pub description: String,
    #[serde(default, rename = "step")]
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// The sub-agent that speaks.
    agent: Option<String>,
    #[serde(default)]
    channel: ChannelWord,
    /// Between words and fragments, in milliseconds or with a unit.
    pace: Option<String>,
    /// Steps with the same number, one after the other in the file, run side by side.
    together: Option<u32>,
    text: Option<String>,
    thinking: Option<String>,
    tool: Option<String>,
    #[serde(default)]
    arguments: String,
    result: Option<String>,
    #[serde(default)]
    error: bool,
    file: Option<Value>,
    data: Option<Value>,
    state: Option<Value>,
    ask: Option<String>,
    fail: Option<String>,
    close: Option<CloseWord>,
    wait: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ChannelWord {
    #[default]
    Answer,
    Intermediate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum CloseWord {
    Success,
    Failed,
    Cancelled,
}

impl Script {
    /// Reads a script.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let script: Self = toml::from_str(text)?;
        for (index, step) in script.steps.iter().enumerate() {
            step.check().with_context(|| format!("step {}", index + 1))?;
        }
        Ok(script)
    }

    /// Reads a script from a file.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }
}

impl Step {
    fn check(&self) -> anyhow::Result<()> {
        let actions = [
            self.text.is_some(),
            self.thinking.is_some(),
            self.tool.is_some(),
            self.file.is_some(),
            self.data.is_some(),
            self.state.is_some(),
            self.ask.is_some(),
            self.fail.is_some(),
            self.close.is_some(),
            self.wait.is_some(),
        ];
        let count = actions.iter().filter(|set| **set).count();
        anyhow::ensure!(
            count == 1,
            "expected exactly one of text, thinking, tool, file, data, state, ask, fail, close, wait, found {count}"
        );
        for time in [&self.pace, &self.wait].into_iter().flatten() {
            duration(time).with_context(|| format!("expected a duration (`500ms`, `2s`), found `{time}`"))?;
        }
        Ok(())
    }

    fn source(&self) -> Source {
        let path = self.agent.as_deref().unwrap_or_default();
        path.split('/').filter(|key| !key.is_empty()).fold(Source::root(), |at, key| at.child(key.to_owned()))
    }

    fn pace(&self) -> Duration {
        self.pace.as_deref().and_then(duration).unwrap_or(Duration::ZERO)
    }

    fn update(&self, block: ContentBlock) -> Update {
        let update = Update::new(block).from_source(&self.source());
        match self.channel {
            ChannelWord::Answer => update,
            ChannelWord::Intermediate => update.intermediate(),
        }
    }
}

fn duration(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let number = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        _ => None,
    }
}

/// Plays a script.
#[derive(Debug, Clone)]
pub(crate) struct ScriptSource(pub(crate) Arc<Script>);

impl RunSource for ScriptSource {
    fn run(&self, ask: Ask, out: EventSender) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let stop = ask.stop.clone();
            tokio::select! {
                biased;
                () = stop.triggered() => out.finish(RunOutcome::Cancelled).await,
                () = self.play(&ask, &out) => {}
            }
        })
    }
}

impl ScriptSource {
    async fn play(&self, ask: &Ask, out: &EventSender) {
        let player = Player { input: &ask.input, out };
        let mut steps = self.0.steps.as_slice();
        while let Some(first) = steps.first() {
            let side_by_side = steps
                .iter()
                .take_while(|step| first.together.is_some() && step.together == first.together)
                .count()
                .max(1);
            let (now, later) = steps.split_at(side_by_side);
            let outcomes = join_all(now.iter().map(|step| player.step(step))).await;
            if let Some(end) = outcomes.into_iter().flatten().next() {
                out.send(end).await;
                return;
            }
            steps = later;
        }
        out.finish(RunOutcome::Success).await;
    }
}

struct Player<'p> {
    input: &'p RunInput,
    out: &'p EventSender,
}

impl Player<'_> {
    /// Does one step; gives the end of the run, if it is one.
    async fn step(&self, step: &Step) -> Option<SourceEvent> {
        if let Some(text) = &step.text {
            self.words(step, text, ContentBlock::text).await;
        } else if let Some(text) = &step.thinking {
            self.words(step, text, ContentBlock::thinking).await;
        } else if let Some(name) = &step.tool {
            self.tool(step, name).await;
        } else if let Some(value) = &step.file {
            self.say(step, ContentBlock::custom(wellknown::FILE, value.clone())).await;
        } else if let Some(value) = &step.data {
            self.say(step, ContentBlock::custom(wellknown::DATA, value.clone())).await;
        } else if let Some(state) = &step.state {
            let event = SourceEvent::StateSnapshot { source: step.source(), state: state.clone() };
            self.out.send(event).await;
        } else if let Some(question) = &step.ask {
            return self.ask(step, question).await;
        } else if let Some(reason) = &step.fail {
            let failure = RunFailure::new(RunFailure::AGENT_FAILED, self.fill(reason));
            return Some(SourceEvent::Failed(failure));
        } else if let Some(how) = step.close {
            self.close(step, how).await;
        } else if let Some(time) = step.wait.as_deref().and_then(duration) {
            tokio::time::sleep(time).await;
        }
        None
    }

    async fn say(&self, step: &Step, block: ContentBlock) {
        self.out.send(step.update(block)).await;
    }

    /// Word by word, as a model would.
    async fn words(&self, step: &Step, text: &str, block: impl Fn(String) -> ContentBlock) {
        let text = self.fill(text);
        for words in text.split_inclusive(' ') {
            self.say(step, block(words.to_owned())).await;
            if !step.pace().is_zero() {
                tokio::time::sleep(step.pace()).await;
            }
        }
        let end = step.update(block(String::new())).last();
        self.out.send(end).await;
    }

    async fn tool(&self, step: &Step, name: &str) {
        let id = format!("{name}-{}", step.arguments.len());
        let arguments = self.fill(&step.arguments);
        let call = step.update(ContentBlock::tool_use(id.clone(), name.to_owned(), arguments)).last();
        self.out.send(call).await;
        let Some(result) = &step.result else { return };
        if !step.pace().is_zero() {
            tokio::time::sleep(step.pace()).await;
        }
        let output = ToolOutput::Text(self.fill(result).into());
        let result = ToolResult { id: Some(ToolCallId::from(id)), name: None, output, is_error: step.error };
        self.say(step, ContentBlock::ToolResult(result)).await;
    }

    /// A question ends the run, unless the run brings the answer.
    async fn ask(&self, step: &Step, question: &str) -> Option<SourceEvent> {
        if !self.input.resume.is_empty() {
            return None;
        }
        let mut interrupt = Interrupt::new(format!("{}-question", self.input.run_id), "input_required");
        interrupt.message = Some(self.fill(question).into());
        interrupt.response_schema = Some(json!({ "type": "string" }));
        self.out.send(SourceEvent::InterruptRequested { source: step.source(), interrupt }).await;
        Some(SourceEvent::Finished { outcome: RunOutcome::Interrupted, result: None })
    }

    async fn close(&self, step: &Step, how: CloseWord) {
        let outcome = match how {
            CloseWord::Success => LaneOutcome::Success(None),
            CloseWord::Cancelled => LaneOutcome::Cancelled,
            CloseWord::Failed => {
                LaneOutcome::Failed(RunFailure::new(RunFailure::AGENT_FAILED, "the sub-agent failed"))
            }
        };
        self.out.send(SourceEvent::LaneClosed { source: step.source(), outcome }).await;
    }

    fn fill(&self, text: &str) -> String {
        if !text.contains("{prompt}") && !text.contains("{answer}") {
            return text.to_owned();
        }
        let prompt = self.input.latest_user_message().map(aqueduct_core::Message::text).unwrap_or_default();
        let answer = self
            .input
            .resume
            .first()
            .and_then(|reply| reply.payload.as_ref())
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        text.replace("{prompt}", &prompt).replace("{answer}", &answer.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::Script;

    #[test]
    fn a_step_does_exactly_one_thing() {
        for (script, words) in [
            ("[[step]]\n", "found 0"),
            ("[[step]]\ntext = \"a\"\nfail = \"b\"\n", "found 2"),
            ("[[step]]\ntext = \"a\"\npace = \"soon\"\n", "`soon`"),
            ("[[step]]\ntext = \"a\"\nspeed = 1\n", "unknown field"),
        ] {
            let error = Script::parse(script).unwrap_err();
            assert!(format!("{error:#}").contains(words), "{script}: {error:#}");
        }
    }
}
