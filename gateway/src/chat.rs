//! `aqueduct run`: runs an agent at the terminal, for one prompt or as a chat.
//!
//! The run takes the same path as in the gateway (source, stream machine, log); only the watcher is a terminal. The
//! output therefore shows what a frontend receives.
//!
//! ```text
//! prompt ──► run ──► shown ──► success, failure: over, or the next line of a chat ──► prompt
//!             ▲        └────► interrupts ── replies from standard input ─┐
//!             └──────────────────────────────────────────────────────────┘
//! ```
//!
//! Ctrl-C cancels the run at its agent; a second Ctrl-C exits at once. At the prompt of a chat, Ctrl-C exits.

mod answer;
pub(crate) mod interrupts;
mod lines;
mod markdown;
mod replies;
mod screen;
mod style;
mod target;
mod view;

use std::io::Write;
use std::sync::Arc;

use anyhow::Context as _;
use aqueduct_core::service::{Caller, EventStream, RunService as _};
use aqueduct_core::{
    BlockEvent, Channel, ContentBlock, Message, Role, RunId, RunInput, RunMerger, RunOutcome,
};
use futures_util::StreamExt as _;

use crate::cli::{OutputForm, RunArgs};
use crate::config::{Config, OnDisconnect};
use crate::exit;
use crate::progress::Progress;
use crate::service::{Gateway, now};
pub(crate) use interrupts::Interrupts;
use lines::{Line, Lines};
use replies::Answers;
pub(crate) use target::{a2a, caller, client, dress, find_card, one_agent, resolve};
use view::View;

/// Runs `aqueduct run`.
///
/// A prompt without `--chat` is sent once; otherwise prompts are read until the input ends. The exit code is
/// that of the run; of a piped chat, that of its last run that did not succeed. Errors outside a run (no such
/// agent, a refused run, unreadable input) return `exit::USAGE`.
pub fn command(
    args: &RunArgs,
    environment: impl IntoIterator<Item = (String, String)>,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    let environment = environment.into_iter().collect();
    let session = async {
        let found = resolve(&args.target, &args.reach, environment);
        let (config, name) = Progress::new().during("looking for the agent", found).await?;
        let mut session = ChatSession::new(config, &name, args.form)?;
        session.caller = caller(&args.reach.caller);
        session.thread = args.thread.clone().unwrap_or(session.thread);
        match &args.prompt {
            Some(prompt) if !args.chat => session.say(prompt, out).await.map(End::code),
            prompt => session.chat(prompt.as_deref(), out).await,
        }
    };
    block_on(session).unwrap_or_else(|error| exit::USAGE.report(notes, "run", &error))
}

/// Waits for `work`, but not for a thread that still reads from the terminal. A thread blocked in `read` cannot
/// be cancelled, and waiting for it would need one more line from the user.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = crate::runtime()?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

/// Sends one prompt to an agent and answers its interrupts, until the run ends without one. `aqueduct replay`
/// shows recordings with it.
pub(crate) async fn converse(
    config: Config,
    name: &str,
    prompt: &str,
    form: OutputForm,
    out: &mut dyn Write,
) -> anyhow::Result<exit::Code> {
    ChatSession::new(config, name, form)?.say(prompt, out).await.map(End::code)
}

/// The commands of a chat.
const HELP: &str = "\
/new     begin a new thread
/thread  print the thread, to continue it later with --thread
/quit    leave, as Ctrl-D and Ctrl-C do
Anything else is sent to the agent.";

/// A conversation with one agent: a gateway inside this process, and the state between two prompts.
struct ChatSession {
    gateway: Arc<Gateway>,
    agent: String,
    caller: Caller,
    /// The thread of all runs: `--thread`, or `cli-` and the time of the start.
    thread: String,
    /// The number of runs so far, which makes run ids unique in the thread.
    turn: usize,
    /// The messages of the thread so far: an AG-UI agent receives all of them.
    history: Vec<Message>,
    view: View,
    lines: Lines,
    interrupts: Interrupts,
}

/// The result of a prompt, after all its interrupts were answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The run succeeded.
    Done,
    /// The agent waits for a reply that cannot be entered here.
    Waiting,
    /// The run failed, was cancelled, or its log was lost.
    Failed,
    /// Ctrl-C, twice or at an interrupt.
    Left,
}

impl End {
    /// Returns the exit code of a command whose last prompt ended like this.
    fn code(self) -> exit::Code {
        match self {
            Self::Done | Self::Waiting => exit::OK,
            Self::Failed | Self::Left => exit::FAILED,
        }
    }
}

impl ChatSession {
    /// Creates the gateway of the session.
    ///
    /// # Errors
    ///
    /// There is no agent of that name, or the configuration cannot be started (a certificate, a script or a log
    /// that is missing).
    fn new(mut config: Config, name: &str, form: OutputForm) -> anyhow::Result<Self> {
        let agent = config.agents.get_mut(name).with_context(|| {
            format!("there is no agent {name}: name one of the configuration, or give a URL")
        })?;
        // The terminal is the only watcher: a run without it would go on unseen.
        agent.on_disconnect = OnDisconnect::Cancel;
        Ok(Self {
            gateway: Gateway::new(config)?,
            agent: name.to_owned(),
            caller: Caller::default(),
            thread: format!("cli-{}", now().0),
            turn: 0,
            history: Vec::new(),
            view: View::new(form),
            lines: Lines::new(),
            interrupts: Interrupts::new()?,
        })
    }

    /// Reads prompts line by line, until the input ends or Ctrl-C. `first` is the prompt of the command line,
    /// if there is one.
    async fn chat(&mut self, first: Option<&str>, out: &mut dyn Write) -> anyhow::Result<exit::Code> {
        let mut code = exit::OK;
        let mut next = first.map(str::to_owned);
        if self.lines.is_terminal() && next.is_none() {
            writeln!(out, "A chat with {}: /help lists commands, Ctrl-D leaves.", self.agent)?;
        }
        loop {
            let line = match next.take() {
                Some(prompt) => Line::Text(prompt),
                None => self.lines.next("> ", true, &mut self.interrupts).await?,
            };
            match line {
                Line::End | Line::Stopped => return Ok(code),
                Line::Text(line) if line.is_empty() => {}
                Line::Text(line) if line.starts_with('/') => {
                    if !self.command(&line, out)? {
                        return Ok(code);
                    }
                }
                Line::Text(prompt) => {
                    let end = self.say(&prompt, out).await?;
                    // In a pipe the exit code reports a failed run; at a terminal the user has seen it.
                    if end.code() != exit::OK && !self.lines.is_terminal() {
                        code = end.code();
                    }
                    if end == End::Left {
                        return Ok(end.code());
                    }
                }
            }
        }
    }

    /// Executes a command of the chat. Returns `false` to exit. Lines that begin with `/` are never sent to the
    /// agent; an unknown command prints the help.
    fn command(&mut self, line: &str, out: &mut dyn Write) -> std::io::Result<bool> {
        match line {
            "/quit" | "/exit" | "/q" => return Ok(false),
            "/new" => {
                (self.thread, self.turn) = (format!("cli-{}", now().0), 0);
                self.history.clear();
                writeln!(out, "a new thread: {}", self.thread)?;
            }
            "/thread" => writeln!(out, "{}", self.thread)?,
            _ => writeln!(out, "{HELP}")?,
        }
        Ok(true)
    }

    /// Sends a prompt, and answers the interrupts of the agent: each set of replies is the input of a further
    /// run.
    ///
    /// With `--json` and `--events` nothing is prompted for, and an interrupt ends the command as waiting.
    ///
    /// # Errors
    ///
    /// The run is refused, or standard input cannot be read. A run that starts and fails is `End::Failed`.
    async fn say(&mut self, prompt: &str, out: &mut dyn Write) -> anyhow::Result<End> {
        let mut spoken = Message::new(Role::User);
        spoken.contents.push(ContentBlock::text(prompt.to_owned()));
        self.history.push(spoken);
        let mut input = RunInput::prompt(self.thread.clone(), String::new(), prompt);
        input.messages.clone_from(&self.history);
        loop {
            self.turn += 1;
            input.run_id = RunId::from(format!("{}-{}", self.thread, self.turn));
            if self.turn > 1 || !self.thread.starts_with("cli-") {
                // A thread of an earlier command already has runs with the plain numbers.
                input.run_id = RunId::from(format!("{}-{}-{}", self.thread, now().0, self.turn));
            }
            let started = self.gateway.runs().start(&self.caller, &self.agent, input.clone()).await?;
            let end = self.watch(&started.run_id, started.events, out).await;
            let finished = match end {
                Watched::Left => return Ok(End::Left),
                Watched::Ended(Some(BlockEvent::RunFinished(finished))) => finished,
                Watched::Ended(_) => return Ok(End::Failed),
            };
            match finished.outcome {
                RunOutcome::Success => return Ok(End::Done),
                RunOutcome::Interrupted if !matches!(self.view, View::Screen(_)) => return Ok(End::Waiting),
                RunOutcome::Interrupted => match self.answers(&finished, out).await? {
                    Answers::Given(replies) => input.resume = replies,
                    Answers::None => return Ok(End::Waiting),
                    Answers::Stopped => return Ok(End::Left),
                },
                _ => return Ok(End::Failed),
            }
        }
    }

    /// Shows the events of one run until its terminal event.
    ///
    /// The first Ctrl-C cancels the run at its agent and the events until its end are shown; the second one
    /// stops watching. The select is biased in the order Ctrl-C, events, pause, progress, so that an agent that
    /// streams without pause cannot delay a Ctrl-C. All branches are cancel-safe.
    async fn watch(&mut self, run: &RunId, mut events: EventStream, out: &mut dyn Write) -> Watched {
        let mut last = None;
        let mut is_stopped = false;
        let mut merger = Some(RunMerger::default());
        let mut progress = Progress::new();
        loop {
            let shown = tokio::select! {
                biased;
                () = self.interrupts.next() => {
                    progress.clear();
                    if is_stopped {
                        return Watched::Left;
                    }
                    is_stopped = true;
                    self.gateway.runs().cancel(&self.caller, run).await.ok();
                    Ok(())
                }
                event = events.next() => {
                    progress.clear();
                    let Some(event) = event.map(|numbered| numbered.event) else {
                        self.remember(merger);
                        // Ctrl-C arrived while the run ended with an interrupt: the user is not prompted again.
                        return match last {
                            Some(end) if is_stopped && asks(&end) => Watched::Left,
                            last => Watched::Ended(last),
                        };
                    };
                    // An event that the merger refuses costs the history of this run, not the run.
                    if merger.as_mut().is_some_and(|merger| merger.handle_event(&event).is_err()) {
                        merger = None;
                    }
                    let shown = self.view.show(&event, out);
                    last = Some(event);
                    progress = Progress::new();
                    shown
                }
                shown = self.view.pause(out) => shown,
                () = tokio::time::sleep(TICK), if self.view.is_quiet() => {
                    progress.tell(if is_stopped { "stopping the agent" } else { "waiting for the agent" });
                    Ok(())
                }
            };
            // The output has no reader any more, so the run is cancelled.
            if shown.is_err() {
                self.gateway.runs().cancel(&self.caller, run).await.ok();
                return Watched::Left;
            }
        }
    }

    /// Appends the agent's answer to the history for the next prompt. Messages on the intermediate channel and
    /// messages of the user, which an agent may repeat, are left out. A run without a terminal event leaves
    /// nothing.
    fn remember(&mut self, merger: Option<RunMerger>) {
        let Some(merger) = merger.filter(RunMerger::is_ended) else { return };
        let answers = merger.finish().response.messages.into_iter();
        self.history.extend(
            answers.filter(|message| message.channel == Channel::Answer && message.role != Role::User),
        );
    }
}

/// The interval of progress updates while no event arrives.
const TICK: std::time::Duration = std::time::Duration::from_millis(200);

/// How watching a run ended.
///
/// Not to be confused with the end of the run: a run that is left may still work until its cancel arrives.
enum Watched {
    /// With the terminal event; `None` if the log was lost.
    Ended(Option<BlockEvent>),
    /// Ctrl-C twice, Ctrl-C at an interrupt, or an output without a reader.
    Left,
}

/// Returns `true` for the end of a run that waits for a reply.
fn asks(end: &BlockEvent) -> bool {
    matches!(end, BlockEvent::RunFinished(finished) if finished.outcome == RunOutcome::Interrupted)
}
