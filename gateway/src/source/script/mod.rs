//! Scripted agents: a TOML file that defines the output of an agent, for demos, tests and frontend development.
//!
//! ```toml
//! description = "Looks something up."
//!
//! [[rule]]
//! match = { text = "rain" }     # found in the user's message; or message_id_prefix
//!
//! [[rule.step]]
//! tool = "forecast"
//! arguments = '{"city":"Oslo"}'
//! result = "rain"
//! agent = "meteorologist"       # a sub-agent; "a/b" is a sub-agent of a sub-agent
//! pace = "50ms"                 # between words and fragments
//!
//! [[step]]                      # if no rule fits
//! text = "You wrote: {prompt}"
//! ```
//!
//! | module | what |
//! |---|---|
//! | `keys` | every key, as `docs/script.md` lists them |
//! | `read` | parses a script; errors have line and key |
//! | `model` | a parsed script |
//! | `play` | converts steps into source events |
//!
//! Invariants: a script ends as a success, unless a step ends it otherwise; the id of an interrupt contains the
//! position of the next step, so that any replica can continue; a cancelled script emits nothing more.

mod keys;
mod model;
mod play;
mod read;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use aqueduct::remote::ThreadMemory;
use aqueduct_core::agent::AgentRequest;
use aqueduct_core::{
    Agent, InterruptId, InterruptReply, Message, MessageId, Principal, RunFailure, RunId, RunInput,
    RunOutcome, SourceStream, ThreadId,
};

use super::{EventSender, emit};
use crate::config::{ConfigError, joined};
pub use keys::reference;
pub use model::Script;
use play::{Played, Player};

/// The custom block that stands for a bare message. An A2A server responds with a message instead of a task.
pub(crate) const A2A_MESSAGE: &str = "a2a.message";
/// The code of a run whose connection a script cuts. A server of scripts closes the connection instead of sending it.
pub(crate) const CUT: &str = "script_cut";

/// The code for a message that no rule of the script matches.
const NO_RULE: &str = "no_rule";

/// Threads whose interrupt is remembered, for follow-ups that do not name it.
const REMEMBERED_THREADS: usize = 10_000;

impl Script {
    /// Parses a script that is part of the program.
    ///
    /// # Errors
    ///
    /// Returns an error with all mistakes, one per line.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        Self::read(Path::new("script"), text).map_err(|errors| joined(&errors))
    }

    /// Parses the text of the script at `path`, which is used only for places in messages.
    ///
    /// # Errors
    ///
    /// Returns all mistakes, each with its place and key.
    pub fn read(path: &Path, text: &str) -> Result<Self, Vec<ConfigError>> {
        read::read(path, text)
    }

    /// Reads a script from a file.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or with all mistakes, one per line.
    pub fn load(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("the script {} cannot be read", path.display()))?;
        Self::read(path, &text).map_err(|errors| joined(&errors))
    }

    /// Returns the first rule that matches, and its index.
    fn rule(&self, input: &RunInput) -> Option<(usize, &model::Rule)> {
        let message = input.latest_user_message();
        let text = message.map(Message::text).unwrap_or_default();
        let id = message.and_then(|message| message.id.as_ref()).map_or("", MessageId::as_str);
        self.rules.iter().enumerate().find(|(_, rule)| rule.matches.fits(&text, id))
    }
}

/// The position at which a script continues: the indexes of a rule and of one of its steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    rule: usize,
    step: usize,
}

impl Position {
    /// Encodes the position after an interrupt in its id.
    fn interrupt_id(self, run: &RunId) -> InterruptId {
        InterruptId::from(format!("{run}/ask/{}/{}", self.rule, self.step))
    }

    /// Parses the position in the id of an interrupt. Returns `None` for an id of another form; the position may lie
    /// outside of the script, if the script was changed since.
    fn of_interrupt(id: &InterruptId) -> Option<Self> {
        let (rest, step) = id.as_str().rsplit_once('/')?;
        let (rest, rule) = rest.rsplit_once('/')?;
        rest.ends_with("/ask").then_some(())?;
        Some(Self { rule: rule.parse().ok()?, step: step.parse().ok()? })
    }
}

/// A source that plays a script.
#[derive(Debug)]
pub(crate) struct ScriptSource(Arc<Stage>);

impl ScriptSource {
    pub(crate) fn new(script: Arc<Script>) -> Self {
        Self(Arc::new(Stage { script, waiting: ThreadMemory::new(REMEMBERED_THREADS) }))
    }
}

/// A script, and the positions at which threads wait.
#[derive(Debug)]
struct Stage {
    script: Arc<Script>,
    waiting: ThreadMemory<(Principal, ThreadId), Position>,
}

impl Stage {
    /// Returns the position at which the run begins, and the reply that continues it: after the interrupt that the run
    /// answers, or at the start of the matching rule. Returns `None` if no rule matches.
    ///
    /// A reply names its interrupt, which works at every replica. A message without a reply continues the thread's last
    /// interrupt if this replica remembers it: a chat client may answer with an ordinary message.
    fn begin(&self, principal: &Principal, input: &RunInput) -> Option<(Position, Option<String>)> {
        let waited = self.waiting.remove(&(principal.clone(), input.thread_id.detached()));
        if let Some(reply) = input.resume.first() {
            let named = Position::of_interrupt(&reply.id).filter(|at| self.script.rules.len() > at.rule);
            if let Some(position) = named.or(waited) {
                return Some((position, Some(answer_of(reply))));
            }
        }
        let prompt = || input.latest_user_message().map(Message::text).unwrap_or_default();
        if let Some(position) = waited {
            return Some((position, Some(prompt())));
        }
        let (rule, _) = self.script.rule(input)?;
        Some((Position { rule, step: 0 }, None))
    }

    /// Plays the script for one run, and sends its terminal event.
    async fn play(&self, principal: &Principal, input: &RunInput, out: &EventSender) {
        let begun = self
            .begin(principal, input)
            .and_then(|(position, answer)| Some((position, answer, self.script.rules.get(position.rule)?)));
        let Some((position, answer, rule)) = begun else {
            let message = "no rule of the script fits the message: add a rule without `match`";
            return out.fail(RunFailure::new(NO_RULE, message)).await;
        };
        let player = Player { input, out, rule: position.rule, answer };
        match player.play(rule, position.step).await {
            Played::Ended(end) => drop(out.send(*end).await),
            Played::Asked(position) => {
                self.waiting.insert((principal.clone(), input.thread_id.detached()), position);
                out.finish(RunOutcome::Interrupted).await;
            }
        }
    }
}

/// Returns the reply as text; structured replies as JSON.
fn answer_of(reply: &InterruptReply) -> String {
    match &reply.payload {
        None => String::new(),
        Some(value) => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}

impl Agent for ScriptSource {
    fn run(&self, request: AgentRequest) -> SourceStream {
        let stage = Arc::clone(&self.0);
        emit(|out| async move {
            tokio::select! {
                biased;
                () = request.cancel.cancelled() => out.finish(RunOutcome::Cancelled).await,
                () = stage.play(&request.principal, &request.input, &out) => {}
            }
        })
    }
}
