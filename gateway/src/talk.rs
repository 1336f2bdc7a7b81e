//! `aqueduct run`: an agent at the terminal.
//!
//! The run goes the same way as in the gateway (source, stream machine, log); only the watcher is a terminal. So what
//! is seen here is what a frontend gets.
//!
//! ```text
//! prompt ──► run ──► shown ──► success, failure: over
//!             ▲        └────► questions ── answers from standard input ──┐
//!             └──────────────────────────────────────────────────────────┘
//! ```
//!
//! Ctrl-C cancels the run at its agent; a second one leaves at once.

mod interrupts;
mod screen;
mod target;

use std::io::{IsTerminal as _, Write};

use anyhow::Context as _;
use aqueduct_core::canonical;
use aqueduct_core::event::RunFinished;
use aqueduct_core::service::{Caller, EventStream, RunService as _};
use aqueduct_core::{BlockEvent, InterruptReply, RunId, RunInput, RunMerger, RunOutcome};
use futures_util::StreamExt as _;
use tokio::time::Instant;

use crate::cli::{OutputForm, RunArgs};
use crate::config::{Config, OnDisconnect};
use crate::exit;
use crate::service::{Gateway, GatewayService, now};
pub(crate) use interrupts::Interrupts;
use screen::Screen;
pub(crate) use target::{one_agent, resolve};

/// Runs the command.
pub fn command(
    args: &RunArgs,
    environment: impl IntoIterator<Item = (String, String)>,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    let environment = environment.into_iter().collect();
    let talk = async {
        let (config, name) = resolve(&args.target, args.protocol, &args.config, environment).await?;
        converse(config, &name, &args.prompt, args.form, out).await
    };
    match block_on(talk) {
        Ok(code) => code,
        Err(error) => {
            writeln!(notes, "aqueduct run: {error:#}").ok();
            exit::USAGE
        }
    }
}

/// Waits for `work`, but not for a thread that still reads from the terminal.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = crate::runtime()?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

/// Talks to an agent until it has nothing more to say, and nothing more to ask.
pub(crate) async fn converse(
    mut config: Config,
    name: &str,
    prompt: &str,
    form: OutputForm,
    out: &mut dyn Write,
) -> anyhow::Result<exit::Code> {
    // Whoever runs a command has the configuration and its secrets: there is nobody to keep out.
    config.server.tokens.clear();
    let agent = config.agents.get_mut(name).with_context(|| format!("there is no agent {name}"))?;
    agent.tokens.clear();
    agent.on_disconnect = OnDisconnect::Cancel;
    let service = GatewayService(Gateway::new(config)?);
    let mut view = View::new(form);
    let mut interrupts = Interrupts::new()?;
    let thread = format!("cli-{}", now().0);
    let mut input = RunInput::prompt(thread.clone(), format!("{thread}-1"), prompt);
    for turn in 2.. {
        let started = service.start(&Caller::default(), name, input.clone()).await?;
        let end = watch(&service, &started.run_id, started.events, &mut view, &mut interrupts, out).await;
        let Some(BlockEvent::RunFinished(finished)) = end else { return Ok(exit::FAILED) };
        match finished.outcome {
            RunOutcome::Success => return Ok(exit::OK),
            RunOutcome::Interrupted if !matches!(view, View::Screen(_)) => return Ok(exit::OK),
            RunOutcome::Interrupted => match answers(&finished, &mut interrupts).await? {
                Answers::Given(replies) => {
                    input.run_id = RunId::from(format!("{thread}-{turn}"));
                    input.resume = replies;
                }
                Answers::None => return Ok(exit::OK),
                Answers::Stopped => return Ok(exit::FAILED),
            },
            _ => return Ok(exit::FAILED),
        }
    }
    Ok(exit::OK)
}

enum View {
    Events,
    Value(Box<RunMerger>),
    Screen(Box<Screen>),
}

impl View {
    fn new(form: OutputForm) -> Self {
        match form {
            OutputForm { json: true, .. } => Self::Value(Box::default()),
            OutputForm { events: true, .. } => Self::Events,
            _ => Self::Screen(Box::new(Screen::new(std::io::stdout().is_terminal()))),
        }
    }

    fn show(&mut self, event: &BlockEvent, out: &mut dyn Write) -> std::io::Result<()> {
        match self {
            Self::Events => writeln!(out, "{}", canonical::to_json(event)),
            Self::Value(merger) => {
                merger.handle_event(event).map_err(std::io::Error::other)?;
                if !merger.is_ended() {
                    return Ok(());
                }
                writeln!(out, "{}", std::mem::take(&mut **merger).finish().to_json())
            }
            Self::Screen(screen) => screen.show(event, Instant::now(), out),
        }?;
        out.flush()
    }

    /// Shows what waits for the speaker to pause, once it has paused.
    async fn pause(&mut self, out: &mut dyn Write) -> std::io::Result<()> {
        let Self::Screen(screen) = self else { return std::future::pending().await };
        let Some(due) = screen.due() else { return std::future::pending().await };
        tokio::time::sleep_until(due).await;
        screen.handle_pause(Instant::now(), out)?;
        out.flush()
    }
}

/// Shows the events of one run; Ctrl-C cancels it.
async fn watch(
    service: &GatewayService,
    run: &RunId,
    mut events: EventStream,
    view: &mut View,
    interrupts: &mut Interrupts,
    out: &mut dyn Write,
) -> Option<BlockEvent> {
    let mut last = None;
    let mut is_stopped = false;
    loop {
        let shown = tokio::select! {
            event = events.next() => {
                let Some(event) = event.map(|numbered| numbered.event) else {
                    // Ctrl-C while the run ended with a question: whoever left is not asked any more.
                    return last.filter(|end| !(is_stopped && asks(end)));
                };
                let shown = view.show(&event, out);
                last = Some(event);
                shown
            }
            shown = view.pause(out) => shown,
            () = interrupts.next() => {
                if is_stopped {
                    return None;
                }
                is_stopped = true;
                service.cancel(&Caller::default(), run).await.ok();
                Ok(())
            }
        };
        // Nobody reads any more: the run is of no use.
        if shown.is_err() {
            service.cancel(&Caller::default(), run).await.ok();
            return None;
        }
    }
}

/// True for the end of a run that waits for an answer.
fn asks(end: &BlockEvent) -> bool {
    matches!(end, BlockEvent::RunFinished(finished) if finished.outcome == RunOutcome::Interrupted)
}

enum Answers {
    Given(Vec<InterruptReply>),
    /// Nobody is there to answer.
    None,
    /// Ctrl-C.
    Stopped,
}

/// Asks for the answers, one line each.
async fn answers(finished: &RunFinished, interrupts: &mut Interrupts) -> anyhow::Result<Answers> {
    let mut replies = Vec::new();
    for pending in &finished.interrupts {
        if std::io::stdin().is_terminal() {
            let mut stderr = std::io::stderr();
            write!(stderr, "> ").and_then(|()| stderr.flush()).ok();
        }
        let line = tokio::select! {
            line = tokio::task::spawn_blocking(read_line) => line??,
            () = interrupts.next() => return Ok(Answers::Stopped),
        };
        let Some(line) = line else { return Ok(Answers::None) };
        let payload = Some(serde_json::Value::from(line));
        replies.push(InterruptReply { id: pending.interrupt.id.clone(), resolved: true, payload });
    }
    Ok(Answers::Given(replies))
}

/// A line of standard input; none at its end.
fn read_line() -> std::io::Result<Option<String>> {
    let mut line = String::new();
    let length = std::io::stdin().read_line(&mut line)?;
    Ok((length > 0).then(|| line.trim().to_owned()))
}
