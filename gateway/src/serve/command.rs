//! The commands `serve` and `demo`.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use aqueduct_transport_http::Shutdown;

use super::Listening;
use crate::cli::{DemoArgs, ServeArgs};
use crate::config::{self, Agent, AgentSource, Config};
use crate::service::Gateway;
use crate::source::script::Script;
use crate::{exit, telemetry};

/// Runs `aqueduct serve`.
pub fn serve(
    args: &ServeArgs,
    environment: impl IntoIterator<Item = (String, String)>,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    let text = match std::fs::read_to_string(&args.config) {
        Ok(text) => text,
        Err(error) => {
            writeln!(notes, "aqueduct serve: {} cannot be read: {error}", args.config.display()).ok();
            return exit::USAGE;
        }
    };
    let mut environment: Vec<(String, String)> = environment.into_iter().collect();
    // Arguments win over the environment, and are checked like it.
    if !args.listen.is_empty() {
        let list: Vec<String> = args.listen.iter().map(ToString::to_string).collect();
        environment.push(("AQUEDUCT_SERVER__LISTEN".to_owned(), list.join(",")));
    }
    if args.allow_unauthenticated {
        environment.push(("AQUEDUCT_SERVER__ALLOW_UNAUTHENTICATED".to_owned(), "true".to_owned()));
    }
    match config::load(&args.config, &text, environment) {
        Ok(config) => finish("serve", run(config, out), notes),
        Err(errors) => {
            for error in &errors {
                writeln!(notes, "{error}").ok();
            }
            exit::FAILED
        }
    }
}

/// Serves a configuration that a command made.
pub(crate) fn run_config(
    command: &str,
    config: Config,
    out: &mut dyn Write,
    notes: &mut dyn Write,
) -> exit::Code {
    finish(command, run(config, out), notes)
}

fn finish(command: &str, result: anyhow::Result<()>, notes: &mut dyn Write) -> exit::Code {
    match result {
        Ok(()) => exit::OK,
        Err(error) => {
            writeln!(notes, "aqueduct {command}: {error:#}").ok();
            exit::FAILED
        }
    }
}

fn run(config: Config, out: &mut dyn Write) -> anyhow::Result<()> {
    telemetry::start(&config.log);
    let scheme = if config.server.tls.is_some() { "https" } else { "http" };
    let names: Vec<String> = config.agents.keys().cloned().collect();
    crate::runtime()?.block_on(async {
        let gateway = Gateway::new(config)?;
        let listening = Listening::bind(gateway).await?;
        for address in listening.addresses()? {
            for name in &names {
                writeln!(out, "{scheme}://{address}/agents/{name}").ok();
            }
        }
        out.flush().ok();
        stop_on_signal(listening.shutdown())?;
        listening.serve().await;
        Ok(())
    })
}

/// SIGTERM and Ctrl-C turn the switch.
fn stop_on_signal(shutdown: Shutdown) -> anyhow::Result<()> {
    #[cfg(unix)]
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
        .context("SIGTERM cannot be waited for")?;
    tokio::spawn(async move {
        #[cfg(unix)]
        tokio::select! {
            _ = terminate.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        #[cfg(not(unix))]
        tokio::signal::ctrl_c().await.ok();
        shutdown.trigger();
    });
    Ok(())
}

/// The agents of the demo: name, script, and what to expect.
pub(crate) const DEMO: [(&str, &str, &str); 5] = [
    ("tools", include_str!("../../../scripts/demo-tools.toml"), "a tool call, its result, an answer"),
    ("thinking", include_str!("../../../scripts/demo-thinking.toml"), "thinking, apart from the answer"),
    ("team", include_str!("../../../scripts/demo-team.toml"), "two sub-agents side by side, then a summary"),
    (
        "question",
        include_str!("../../../scripts/demo-question.toml"),
        "a question to you, and a run that waits",
    ),
    (
        "failure",
        include_str!("../../../scripts/demo-failure.toml"),
        "a sub-agent that fails half-way, and says so",
    ),
];

/// Runs `aqueduct demo`.
pub fn demo(args: &DemoArgs, out: &mut dyn Write, notes: &mut dyn Write) -> exit::Code {
    finish("demo", run_demo(args, out, notes), notes)
}

/// A gateway with the agents of the demo.
pub fn demo_gateway(listen: SocketAddr) -> anyhow::Result<Arc<Gateway>> {
    let mut agents = BTreeMap::new();
    for (name, text, about) in DEMO {
        let script = Script::parse(text).with_context(|| format!("the script of {name}"))?;
        let source = AgentSource::Embedded { script: Arc::new(script) };
        agents.insert(name.to_owned(), Agent { description: about.to_owned(), source, ..Agent::default() });
    }
    let mut config = config::with_agents(agents);
    config.server.listen = vec![listen];
    config.inspector.enabled = true;
    "warn".clone_into(&mut config.log.level);
    Gateway::new(config)
}

fn run_demo(args: &DemoArgs, out: &mut dyn Write, notes: &mut dyn Write) -> anyhow::Result<()> {
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    crate::runtime()?.block_on(async {
        let gateway = demo_gateway(wanted)?;
        telemetry::start(&gateway.config().log);
        let listening = match Listening::bind(gateway).await {
            Ok(listening) => listening,
            Err(error) => {
                writeln!(notes, "{error}; using another port").ok();
                Listening::bind(demo_gateway(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?).await?
            }
        };
        let address = *listening.addresses()?.first().context("no address")?;
        greet(address, out).ok();
        stop_on_signal(listening.shutdown())?;
        listening.serve().await;
        Ok(())
    })
}

fn greet(address: SocketAddr, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "Scripted agents, as AG-UI:\n")?;
    for (name, _, about) in DEMO {
        writeln!(out, "http://{address}/agents/{name}")?;
        writeln!(out, "    {about}")?;
    }
    writeln!(out, "\nSee them live in a browser:\n")?;
    writeln!(out, "    http://{address}/inspector\n")?;
    writeln!(out, "or in another terminal:\n")?;
    writeln!(out, "    aqueduct run http://{address}/agents/team \"Write about Rust\"\n")?;
    writeln!(out, "or as the bytes that a frontend gets:\n")?;
    let input = concat!(
        r#"{"threadId":"t1","runId":"'$(date +%s%N)'","protocolVersion":"1.0","state":{},"messages":"#,
        r#"[{"id":"m1","role":"user","content":"Write about Rust"}],"tools":[],"context":[],"forwardedProps":{}}"#
    );
    writeln!(out, "    curl -N http://{address}/agents/team -H 'Content-Type: application/json' \\")?;
    writeln!(out, "      -d '{input}'\n")?;
    writeln!(
        out,
        "Any AG-UI client can use these addresses, CopilotKit's HttpAgent for one. Ctrl-C stops the demo."
    )?;
    out.flush()
}

/// Reads a configuration for a command that uses one agent of it.
pub(crate) fn load_config(
    path: &Path,
    environment: impl IntoIterator<Item = (String, String)>,
) -> anyhow::Result<Config> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    config::load(path, &text, environment).map_err(|errors| {
        let words: Vec<String> = errors.iter().map(ToString::to_string).collect();
        anyhow::anyhow!(words.join("\n"))
    })
}
