//! `aqueduct run`: an agent at the terminal.
//!
//! The run goes the same way as in the gateway (source, stream machine, log); only the watcher is a terminal. So what
//! is seen here is what a frontend gets.

mod screen;

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Write};
use std::time::Duration;

use anyhow::Context as _;
use aqueduct_adapter_a2a::call::card_request;
use aqueduct_adapter_a2a::card::{card_urls, parse};
use aqueduct_core::event::RunFinished;
use aqueduct_core::service::{Caller, EventStream, RunService as _};
use aqueduct_core::{BlockEvent, InterruptReply, RunId, RunInput, RunOutcome};
use aqueduct_transport_http::{Client, ClientConfig, ClientTimeouts};
use bytes::Bytes;
use futures_util::StreamExt as _;

use crate::cli::{RunArgs, UrlProtocol};
use crate::config::{self, A2aAddress, A2aVersion, Agent, AgentSource, Config, OnDisconnect};
use crate::convert::blocks;
use crate::exit;
use crate::serve::load_config;
use crate::service::{Gateway, GatewayService, now};
use screen::Screen;

/// The name of an agent that was given by its address.
const BY_URL: &str = "agent";

/// Runs the command.
pub fn command(
    args: &RunArgs,
    environment: impl IntoIterator<Item = (String, String)>,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    let environment = environment.into_iter().collect();
    let result = crate::runtime()
        .map_err(Into::into)
        .and_then(|runtime| runtime.block_on(talk(args, environment, out)));
    match result {
        Ok(code) => code,
        Err(error) => {
            writeln!(notes, "aqueduct run: {error:#}").ok();
            exit::USAGE
        }
    }
}

async fn talk(
    args: &RunArgs,
    environment: Vec<(String, String)>,
    out: &mut dyn Write,
) -> anyhow::Result<exit::Code> {
    let (mut config, name) = configuration(args, environment).await?;
    // Whoever runs a command has the configuration and its secrets: there is nobody to keep out.
    config.server.tokens.clear();
    let agent = config.agents.get_mut(&name);
    let agent = agent.with_context(|| format!("there is no agent {name} in {}", args.config.display()))?;
    agent.tokens.clear();
    agent.on_disconnect = OnDisconnect::Cancel;
    let service = GatewayService(Gateway::new(config)?);
    let is_terminal = std::io::stdout().is_terminal();
    let mut view = if args.json { View::Json } else { View::Screen(Screen::new(is_terminal)) };
    let thread = format!("cli-{}", now().0);
    let mut input = RunInput::prompt(thread.clone(), format!("{thread}-1"), &args.prompt);
    for turn in 2.. {
        let started = service.start(&Caller::default(), &name, input.clone()).await?;
        let end = watch(&service, &started.run_id, started.events, &mut view, out).await;
        let Some(BlockEvent::RunFinished(finished)) = end else { return Ok(exit::FAILED) };
        match finished.outcome {
            RunOutcome::Success => return Ok(exit::OK),
            RunOutcome::Interrupted => match answers(&finished, args.json)? {
                Some(replies) => {
                    input.run_id = RunId::from(format!("{thread}-{turn}"));
                    input.resume = replies;
                }
                None => return Ok(exit::OK),
            },
            _ => return Ok(exit::FAILED),
        }
    }
    Ok(exit::OK)
}

enum View {
    Json,
    Screen(Screen),
}

/// Shows the events of one run; Ctrl-C cancels it.
async fn watch(
    service: &GatewayService,
    run: &RunId,
    mut events: EventStream,
    view: &mut View,
    out: &mut dyn Write,
) -> Option<BlockEvent> {
    let mut last = None;
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(event) = event.map(|numbered| numbered.event) else { return last };
                let shown = match view {
                    View::Json => writeln!(out, "{}", blocks::to_json(&event)),
                    View::Screen(screen) => screen.show(&event, out),
                };
                // Nobody reads any more: the run is of no use.
                if shown.and_then(|()| out.flush()).is_err() {
                    service.cancel(&Caller::default(), run).await.ok();
                    return None;
                }
                last = Some(event);
            }
            Ok(()) = tokio::signal::ctrl_c() => {
                service.cancel(&Caller::default(), run).await.ok();
            }
        }
    }
}

/// Asks the questions at the terminal; none if nobody is there to answer.
fn answers(finished: &RunFinished, as_json: bool) -> anyhow::Result<Option<Vec<InterruptReply>>> {
    let stdin = std::io::stdin();
    if as_json || !stdin.is_terminal() {
        return Ok(None);
    }
    let mut replies = Vec::new();
    for pending in &finished.interrupts {
        let mut stderr = std::io::stderr();
        write!(stderr, "> ").and_then(|()| stderr.flush()).ok();
        let mut line = String::new();
        if stdin.lock().read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let payload = Some(serde_json::Value::from(line.trim()));
        replies.push(InterruptReply { id: pending.interrupt.id.clone(), resolved: true, payload });
    }
    Ok(Some(replies))
}

/// The configuration that has the agent, and its name there.
async fn configuration(
    args: &RunArgs,
    environment: Vec<(String, String)>,
) -> anyhow::Result<(Config, String)> {
    let url = &args.target;
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Ok((load_config(&args.config, environment)?, url.clone()));
    }
    let is_a2a = match args.protocol {
        UrlProtocol::A2a => true,
        UrlProtocol::Agui => false,
        UrlProtocol::Auto => has_card(url).await,
    };
    let source = if is_a2a {
        let address = A2aAddress::Url(url.clone());
        AgentSource::A2a { address, binding: None, version: A2aVersion::V1_0 }
    } else {
        AgentSource::Agui { url: url.clone() }
    };
    let agent = Agent { source, ..Agent::default() };
    Ok((config::with_agents(BTreeMap::from([(BY_URL.to_owned(), agent)])), BY_URL.to_owned()))
}

/// True if an agent card is found where cards are. Only the address itself is asked, not its host: an AG-UI agent may
/// live beside an A2A agent.
async fn has_card(url: &str) -> bool {
    let timeouts = ClientTimeouts { response: Duration::from_secs(5), ..ClientTimeouts::default() };
    let Ok(client) = Client::new(ClientConfig { timeouts, ..ClientConfig::default() }) else { return false };
    for card in card_urls(url).into_iter().take(2) {
        let wanted = card_request(card);
        let mut request = http::Request::get(&wanted.url);
        for (name, value) in &wanted.headers {
            request = request.header(*name, value);
        }
        let Ok(request) = request.body(Bytes::new()) else { return false };
        let Ok(response) = client.request(request).await else { return false };
        let text = String::from_utf8_lossy(response.body());
        if response.status().is_success() && parse(&text).is_ok_and(|card| !card.name.is_empty()) {
            return true;
        }
    }
    false
}
