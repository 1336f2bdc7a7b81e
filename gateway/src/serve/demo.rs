//! `aqueduct demo`: scripted A2A agents on sockets of their own, and a gateway in front of them.
//!
//! ```text
//! frontend ── AG-UI ──► gateway :8787 ── A2A ──► mock :…  (one per script)
//! ```
//!
//! The demo therefore shows what a gateway does with real A2A agents. Everything runs in this process, on loopback.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context as _;
use aqueduct_core::CancelToken;

use super::Listening;
use super::command::stop_on_signal;
use crate::cli::DemoArgs;
use crate::config::{self, Agent, AgentSource, LogLevel};
use crate::service::Gateway;
use crate::source::script::Script;
use crate::{chat, exit, mock, telemetry};

/// The port of the demo, unless it is in use.
pub const DEMO_PORT: u16 = 8787;

/// The A2A agents: name, script, description.
///
/// Each shows one kind of content. The scripts are part of the binary, so the demo needs no files.
const AGENTS: [(&str, &str, &str); 8] = [
    ("tools", include_str!("../../scripts/demo-tools.toml"), "tool notices, a tool call, an answer"),
    ("thinking", include_str!("../../scripts/demo-thinking.toml"), "thinking, apart from the answer"),
    ("team", include_str!("../../scripts/demo-team.toml"), "two sub-agents side by side, then a summary"),
    (
        "artifacts",
        include_str!("../../scripts/demo-artifacts.toml"),
        "two artifacts that grow at once, a file, a table",
    ),
    (
        "question",
        include_str!("../../scripts/demo-question.toml"),
        "a question to you, and a run that goes on with your answer",
    ),
    (
        "failure",
        include_str!("../../scripts/demo-failure.toml"),
        "a sub-agent that fails half-way, and says so",
    ),
    (
        "researcher",
        include_str!("../../scripts/demo-researcher.toml"),
        "half of `demo`: notices, an artifact",
    ),
    ("writer", include_str!("../../scripts/demo-writer.toml"), "half of `demo`: thinking, an answer"),
];

/// The agent that fans out to several of them: its name, the members, its description.
const BOTH: (&str, [&str; 2], &str) =
    ("demo", ["researcher", "writer"], "two A2A agents asked at once, each in a lane of its own");

/// The A2A agents of a demo, which serve until this value is dropped. Each token shuts one of their servers down.
#[derive(Debug)]
pub struct DemoAgents(Vec<CancelToken>);

impl Drop for DemoAgents {
    /// Starts the shutdown of each agent; the servers end in their own tasks.
    fn drop(&mut self) {
        self.0.iter().for_each(CancelToken::cancel);
    }
}

/// Starts the agents on free ports and returns the gateway in front of them, which is not bound to `listen` yet. Must
/// be called inside a runtime.
///
/// # Errors
///
/// Returns an error if a script is invalid or no port is free.
pub async fn demo_gateway(listen: SocketAddr) -> anyhow::Result<(Arc<Gateway>, DemoAgents)> {
    let mut running = DemoAgents(Vec::new());
    let mut agents = BTreeMap::new();
    let mut add = |name: &str, about: &str, source: AgentSource| {
        let agent = Agent { description: about.to_owned(), source, ..Agent::default() };
        agents.insert(name.to_owned(), agent);
    };
    for (name, text, about) in AGENTS {
        let script = Script::parse(text).with_context(|| format!("the script of {name}"))?;
        let (address, switch) = start(Arc::new(script), name).await?;
        running.0.push(switch);
        // Proxied, so that the demo also shows the A2A cards and calls of the agents through the gateway.
        add(name, about, chat::a2a(&format!("http://{address}")));
    }
    let (name, both, about) = BOTH;
    add(name, about, AgentSource::FanOut { agents: both.map(str::to_owned).to_vec() });
    let mut config = config::with_agents(agents);
    // A demo is for one person on one machine: no tokens, and the inspector is on.
    config.server.listen = vec![listen];
    config.inspector.enabled = true;
    // Pages on this machine may use the demo from any port, such as that of a frontend's development server.
    config.server.cors = true;
    config.log.level = LogLevel::Warn;
    Ok((Gateway::new(config)?, running))
}

/// Serves a script over A2A on a free port, by a gateway of its own in this process. Returns its address and the token
/// that stops it.
async fn start(script: Arc<Script>, name: &str) -> anyhow::Result<(SocketAddr, CancelToken)> {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let gateway = Gateway::new(mock::configuration(script, name, free))?;
    let listening = Listening::bind(gateway).await?.playing(name);
    let address = *listening.addresses()?.first().context("no address")?;
    let switch = listening.shutdown();
    tokio::spawn(listening.serve());
    Ok((address, switch))
}

/// Runs `aqueduct demo`.
pub fn demo(args: &DemoArgs, out: &mut dyn Write, notes: &mut dyn Write) -> exit::Code {
    exit::finish("demo", run(args, out, notes), notes)
}

/// Serves the demo until a signal stops it. A port in use is replaced by a free one: a demo should start with one
/// command.
fn run(args: &DemoArgs, out: &mut dyn Write, notes: &mut dyn Write) -> anyhow::Result<()> {
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    crate::runtime()?.block_on(async {
        let (gateway, mut agents) = demo_gateway(wanted).await?;
        telemetry::start(&gateway.config().log);
        let listening = match Listening::bind(gateway).await {
            Ok(listening) => listening,
            Err(error) => {
                writeln!(notes, "{error}; using another port").ok();
                let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                // The address is part of the configuration, so the gateway is built again; the first agents stop when
                // they are dropped.
                let (gateway, others) = demo_gateway(free).await?;
                agents = others;
                Listening::bind(gateway).await?
            }
        };
        let address = *listening.addresses()?.first().context("no address")?;
        stop_on_signal(&listening)?;
        greet(address, out).ok();
        listening.serve().await;
        drop(agents);
        Ok(())
    })
}

/// Writes what can be tried, as commands that can be copied, with the address and the name of this program filled in.
fn greet(address: SocketAddr, out: &mut dyn Write) -> std::io::Result<()> {
    let program = program();
    let gateway = format!("http://{address}");
    writeln!(out, "A2A agents that play scripts, behind a gateway that shows them as AG-UI.\n")?;
    writeln!(out, "See a team at work, in a browser:\n\n    {gateway}/inspector\n")?;
    writeln!(
        out,
        "or in another terminal:\n\n    {program} run {gateway}/agents/team \"Write about Rust\"\n"
    )?;
    writeln!(out, "Then try:\n")?;
    for (what, command) in [
        ("a chat", format!("{program} run {gateway}/agents/question")),
        ("a failure", format!("{program} run {gateway}/agents/failure \"Go\"")),
        ("what an agent speaks", format!("{program} doctor {gateway}/a2a/team")),
        (
            "a recording, checked",
            format!(
                "{program} record {gateway}/agents/team \"Go\" --protocol agui -o team.jsonl && {program} verify team.jsonl"
            ),
        ),
        (
            "the bytes of a frontend",
            format!("curl -N {gateway}/agents/team -H 'Content-Type: application/json' -d '{INPUT}'"),
        ),
    ] {
        writeln!(out, "  {what}:\n    {command}")?;
    }
    writeln!(out, "\nThe agents, for any AG-UI client (CopilotKit's HttpAgent for one):\n")?;
    let (name, _, about) = BOTH;
    let all = [(name, about)].into_iter().chain(AGENTS.map(|(name, _, about)| (name, about)));
    for (name, about) in all {
        writeln!(out, "{gateway}/agents/{name}")?;
        writeln!(out, "    {about}")?;
    }
    writeln!(out, "\nCtrl-C stops the demo.")?;
    out.flush()
}

/// The input of a run for `curl`. The shell inserts the time as the run id, because a run id can be used only once.
const INPUT: &str = concat!(
    r#"{"threadId":"t1","runId":"'$(date +%s%N)'","protocolVersion":"1.0","state":{},"messages":"#,
    r#"[{"id":"m1","role":"user","content":"Write about Rust"}],"tools":[],"context":[],"forwardedProps":{}}"#
);

/// Returns the command that starts this program in a shell: the name that it was started with if that has no folder (a
/// shell found it, or a launcher names itself), its own name if it is on the path, else its full path, quoted for a
/// shell.
fn program() -> String {
    let called = std::env::args_os().next().and_then(|name| name.into_string().ok());
    if let Some(name) = called.filter(|name| !name.is_empty() && !name.contains(['/', '\\'])) {
        return name;
    }
    let Ok(own) = std::env::current_exe().and_then(std::fs::canonicalize) else {
        return "aqueduct".to_owned();
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let first =
        std::env::split_paths(&path).map(|folder| folder.join("aqueduct")).find(|file| file.is_file());
    if first.and_then(|file| std::fs::canonicalize(file).ok()).is_some_and(|file| file == own) {
        return "aqueduct".to_owned();
    }
    let own = own.to_string_lossy().into_owned();
    let is_plain = own.chars().all(|c| c.is_alphanumeric() || "/._-+".contains(c));
    if is_plain { own } else { format!("'{}'", own.replace('\'', "'\\''")) }
}
