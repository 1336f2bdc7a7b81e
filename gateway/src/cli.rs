//! The commands and their options. What a command does is in the module of its name.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::serve::DEMO_PORT;
use crate::source::replay::Speed;

/// Carries any agent's stream to any agent frontend, intact.
#[derive(Debug, Parser)]
#[command(name = "aqueduct", version, propagate_version = true, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Put configured agents behind one address
    Serve(ServeArgs),
    /// Serve scripted agents, to look at
    Demo(DemoArgs),
    /// Talk to an agent from the terminal
    Run(RunArgs),
    /// Translate a recorded or piped stream from one dialect to another
    Convert(ConvertArgs),
    /// Check an AG-UI stream strictly
    Verify(VerifyArgs),
    /// Write what an agent sends to a file, with its timing
    Record(RecordArgs),
    /// Play a recorded stream, at the terminal or as an agent
    Replay(ReplayArgs),
    /// Serve a scripted agent over A2A and AG-UI
    Mock(MockArgs),
    /// Measure the whole path over sockets
    Bench(BenchArgs),
    /// Write a completion script for a shell
    Completions(CompletionsArgs),
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum ConfigCommand {
    /// Find what is wrong with a configuration, with file, line and key
    Check(ConfigArgs),
}

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  something is wrong: unreadable input, a violation, a broken configuration
  2  could not begin: wrong arguments, a file that cannot be opened";

/// Options of `serve`.
#[derive(Debug, Clone, Args)]
#[command(after_help = SERVE_HELP)]
pub struct ServeArgs {
    /// The configuration file
    #[arg(long, value_name = "PATH", default_value = "aqueduct.toml")]
    pub config: PathBuf,
    /// Listen here instead of where the configuration says; may be given several times
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Vec<SocketAddr>,
    /// Listen beyond loopback although some agent asks for no token
    #[arg(long)]
    pub allow_unauthenticated: bool,
}

const SERVE_HELP: &str = "\
Routes:
  POST /agents/{name}         run an agent: AG-UI, as server-sent events or protobuf
  GET  /agents                the agents that you may run
  GET  /ws /agents/{name}/ws  the same over WebSocket, and runs that a framework publishes
  GET  /runs/{run}/events     watch a run from the start, from ?after=N, or after Last-Event-ID
  POST /runs/{run}/cancel     stop a run
  GET  /inspector             a page for developers, if the configuration wants it
  GET  /healthz /readyz /metrics

Listens on loopback only, unless the configuration says otherwise. SIGTERM and Ctrl-C let open runs end first;
SIGHUP reads the configuration again.

Examples:
  aqueduct serve
  aqueduct serve --config /etc/aqueduct.toml --listen 127.0.0.1:9000

Exit codes:
  0  stopped after a signal
  1  the configuration is wrong, or an address cannot be listened on
  2  wrong arguments, or the configuration cannot be read";

/// Options of `demo`.
#[derive(Debug, Clone, Args)]
#[command(after_help = DEMO_HELP)]
pub struct DemoArgs {
    /// The port on 127.0.0.1; if it is taken, another one is used
    #[arg(long, default_value_t = DEMO_PORT)]
    pub port: u16,
}

const DEMO_HELP: &str = "\
Serves A2A agents on ports of their own, each playing a script, and a gateway in front of them: tool notices, thinking,
agents side by side, artifacts, a question, a failure. Prints where they are, what to open and what to type. Needs nothing
else.

Examples:
  aqueduct demo
  aqueduct demo --port 9000
  aqueduct run demo \"Write about Rust\"     (in another terminal)

Exit codes:
  0  stopped after Ctrl-C
  1  no port can be listened on
  2  wrong arguments";

/// Options of `run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = RUN_HELP)]
pub struct RunArgs {
    /// An agent of the configuration, or the URL of an agent
    #[arg(value_name = "AGENT|URL")]
    pub target: String,
    /// What to say to it
    pub prompt: String,
    /// What the URL speaks
    #[arg(long, value_enum, default_value_t = UrlProtocol::Auto)]
    pub protocol: UrlProtocol,
    /// The configuration file, for an agent by name
    #[arg(long, value_name = "PATH", default_value = "aqueduct.toml")]
    pub config: PathBuf,
    /// Write canonical events as JSON lines (docs/cli.md) instead of text
    #[arg(long)]
    pub json: bool,
}

/// What an agent at a URL speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum UrlProtocol {
    /// A2A if there is an agent card, else AG-UI
    Auto,
    /// A2A
    A2a,
    /// AG-UI
    Agui,
}

const RUN_HELP: &str = "\
Shows the answer as it comes: sub-agents by name, tool calls and their results, thinking dimmed. A question is asked, and
the next line of standard input is the answer. Ctrl-C stops the agent, not only the display.

Examples:
  aqueduct run weather \"Will it rain?\"
  aqueduct run demo \"Write about Rust\"     (while `aqueduct demo` runs)
  aqueduct run http://127.0.0.1:8787/agents/team \"Write about Rust\"
  aqueduct run https://agent.example.org \"Hello\" --protocol a2a --json | jq .

Exit codes:
  0  the run succeeded, or waits for an answer that cannot be given here
  1  the run failed or was cancelled
  2  wrong arguments, or no such agent";

/// Options of `record`.
#[derive(Debug, Clone, Args)]
#[command(after_help = RECORD_HELP)]
pub struct RecordArgs {
    /// An agent of the configuration, or the URL of an agent
    #[arg(value_name = "AGENT|URL")]
    pub target: String,
    /// What to say to it
    pub prompt: String,
    /// The file to write; standard output without it
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What the URL speaks
    #[arg(long, value_enum, default_value_t = UrlProtocol::Auto)]
    pub protocol: UrlProtocol,
    /// The configuration file, for an agent by name
    #[arg(long, value_name = "PATH", default_value = "aqueduct.toml")]
    pub config: PathBuf,
}

const RECORD_HELP: &str = "\
Asks once and writes every frame of the answer as it came, with the milliseconds since the request. Of an agent that
speaks neither A2A nor AG-UI the AG-UI events are written that the gateway makes of it. Ctrl-C ends the recording; an A2A
agent works on.

Examples:
  aqueduct record http://127.0.0.1:9999 \"Will it rain?\" -o rain.jsonl
  aqueduct record weather \"Will it rain?\" --config /etc/aqueduct.toml -o rain.jsonl

Exit codes:
  0  recorded, whatever the agent said
  1  the agent did not answer, or the file cannot be written
  2  wrong arguments, or no such agent";

/// Options of `replay`.
#[derive(Debug, Clone, Args)]
#[command(after_help = REPLAY_HELP)]
pub struct ReplayArgs {
    /// A file that `record` wrote
    pub file: PathBuf,
    /// Serve it as the agent `replay` at this address, instead of showing it here
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// How fast: a factor, or `max`
    #[arg(long, default_value = "1")]
    pub speed: Speed,
    /// Write canonical events as JSON lines (docs/cli.md) instead of text
    #[arg(long)]
    pub json: bool,
}

const REPLAY_HELP: &str = "\
The frames come again when they came, and go through the gateway as if they came from the agent. In a configuration, a
recording is an agent as `replay = { file = \"rain.jsonl\" }`.

Examples:
  aqueduct replay rain.jsonl
  aqueduct replay rain.jsonl --listen 127.0.0.1:8787 --speed 10

Exit codes:
  0  the recorded run succeeded, or waits for an answer; served until a signal
  1  the recorded run failed or was cancelled; the address cannot be listened on
  2  wrong arguments, or the file is no recording";

/// Options of `mock`.
#[derive(Debug, Clone, Args)]
#[command(after_help = MOCK_HELP)]
pub struct MockArgs {
    /// What the agent says (docs/script.md)
    pub script: PathBuf,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8788")]
    pub listen: SocketAddr,
    /// The name of the agent; that of the file without it
    #[arg(long)]
    pub name: Option<String>,
    /// Call A2A clients back at any address, those of this machine and its network among them: for tests
    #[arg(long)]
    pub allow_loopback_push: bool,
}

const MOCK_HELP: &str = "\
Plays a script as an A2A server at `/` (JSON-RPC, HTTP+JSON and gRPC on one port, 1.0 and 0.3, the card at
/.well-known/agent-card.json) and as an AG-UI agent at /agents/NAME.

Examples:
  aqueduct mock scripts/demo-tools.toml
  aqueduct mock scripts/tck.toml --listen 127.0.0.1:9999 --allow-loopback-push

Exit codes:
  0  stopped after a signal
  1  the address cannot be listened on
  2  wrong arguments, or the script is wrong (the message names line and key)";

/// Options of `bench`.
#[derive(Debug, Clone, Args)]
#[command(after_help = BENCH_HELP)]
pub struct BenchArgs {
    /// Chunks of the one unpaced stream
    #[arg(long, default_value_t = 20_000)]
    pub chunks: u64,
    /// Paced streams at once, each with 50 chunks per second
    #[arg(long, default_value_t = 100)]
    pub streams: usize,
    /// How long paced streams last
    #[arg(long, default_value_t = 5)]
    pub seconds: u64,
    /// Streams that say nothing; each takes four open files here
    #[arg(long, default_value_t = 200)]
    pub idle: usize,
    /// Write figures as JSON lines
    #[arg(long)]
    pub json: bool,
}

const BENCH_HELP: &str = "\
An A2A upstream, the gateway and its AG-UI clients, over TCP on loopback, all in this process. The figures compare one
build with another on one machine. Measure a release build.

Examples:
  aqueduct bench
  ulimit -n 50000; aqueduct bench --idle 10000 --json

Exit codes:
  0  measured
  1  a stream broke, or could not be opened
  2  wrong arguments";

/// Options of `completions`.
#[derive(Debug, Clone, Args)]
#[command(after_help = COMPLETIONS_HELP)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

const COMPLETIONS_HELP: &str = "\
Examples:
  aqueduct completions bash > ~/.local/share/bash-completion/completions/aqueduct
  aqueduct completions zsh > ~/.zfunc/_aqueduct
  aqueduct completions fish > ~/.config/fish/completions/aqueduct.fish

Exit codes:
  0  written
  2  wrong arguments";

/// Options of `convert`.
#[derive(Debug, Clone, Args)]
#[command(after_help = CONVERT_HELP)]
pub struct ConvertArgs {
    /// The dialect of the input
    #[arg(long, value_enum)]
    pub from: FromDialect,
    /// The dialect of the output
    #[arg(long, value_enum)]
    pub to: ToDialect,
    /// Write server-sent events instead of JSON lines
    #[arg(long)]
    pub sse: bool,
    /// How sub-agents are shown in AG-UI [default: attributed in 1.0, inline in 0.0.59]
    #[arg(long, value_enum)]
    pub subagents: Option<SubagentView>,
    /// How the work on the way to the answer is shown in AG-UI
    #[arg(long, value_enum, default_value_t = TextView::Reasoning)]
    pub intermediate: TextView,
    /// How questions to a human are shown in AG-UI [default: interrupt in 1.0, text in 0.0.59]
    #[arg(long, value_enum)]
    pub interrupts: Option<QuestionView>,
    /// The thread id to use, instead of the input's own or `thread`
    #[arg(long)]
    pub thread: Option<String>,
    /// The run id to use, instead of the input's own or `run-1`; later runs get `-2`, `-3`, … behind it
    #[arg(long)]
    pub run: Option<String>,
}

const CONVERT_HELP: &str = "\
Reads standard input, server-sent events or JSON lines, and writes standard output. A stream that was cut or
failed comes out ended, and says so. Several runs in one input come out as several runs.

Examples:
  curl -sN http://agent/… | aqueduct convert --from a2a --to agui
  aqueduct convert --from magentic --to agui --sse < workflow.jsonl
  aqueduct convert --from agui --to blocks < recorded.sse

Exit codes:
  0  converted, whatever the outcome of the stream
  1  the input cannot be read (the message names line and column)
  2  wrong arguments";

/// Input dialects of `convert`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum FromDialect {
    /// A2A 1.0 (JSON-RPC or HTTP+JSON)
    A2a,
    /// A2A 0.3 (JSON-RPC or HTTP+JSON)
    #[value(name = "a2a-0.3")]
    A2a03,
    /// AG-UI, any version
    Agui,
    /// Microsoft Agent Framework: workflow events, agent updates, older Magentic classes
    Magentic,
}

/// Output dialects of `convert`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum ToDialect {
    /// AG-UI 1.0
    Agui,
    /// AG-UI as 0.0.59 reads it
    #[value(name = "agui-0.0.59")]
    Agui0059,
    /// A2A 1.0
    A2a,
    /// The canonical events, as documented in docs/cli.md
    Blocks,
}

/// How sub-agents are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SubagentView {
    /// With a life of their own
    Attributed,
    /// As part of the run
    Inline,
    /// Not at all
    Hidden,
}

/// How the work on the way to the answer is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TextView {
    /// As thinking
    Reasoning,
    /// As text
    Text,
    /// Not at all
    Hidden,
}

/// How questions to a human are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QuestionView {
    /// As the outcome of the run
    Interrupt,
    /// As a message
    Text,
}

/// Options of `verify`.
#[derive(Debug, Clone, Args)]
#[command(after_help = VERIFY_HELP)]
pub struct VerifyArgs {
    /// A file with an AG-UI stream (server-sent events or JSON lines), `-` for standard input, or the URL of an agent
    #[arg(value_name = "FILE|URL")]
    pub target: String,
    /// What to say to the agent at a URL
    #[arg(long, default_value = "Hello")]
    pub prompt: String,
    /// Which client to stand in for
    #[arg(long, value_enum, default_value_t = ClientDialect::V1_0)]
    pub dialect: ClientDialect,
    /// Report only what a client rejects, not what it loses without noticing
    #[arg(long)]
    pub client: bool,
    /// Write the report as JSON lines
    #[arg(long)]
    pub json: bool,
}

/// AG-UI clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClientDialect {
    /// @ag-ui/client 1.0
    #[value(name = "1.0")]
    V1_0,
    /// @ag-ui/client 0.0.59
    #[value(name = "0.0.59")]
    V0_0_59,
}

const VERIFY_HELP: &str = "\
Checks what the official client checks, and what it misses: lost content, shared ids, results without a call, a
missing end. Each finding names the event (counted from 0), the rule, what is wrong and what to do.

Examples:
  aqueduct verify recorded.sse
  aqueduct verify http://127.0.0.1:8787/agents/team --prompt \"Write about Rust\"
  curl -sN http://agent/… | aqueduct verify - --dialect 0.0.59

Exit codes:
  0  nothing found
  1  something found
  2  wrong arguments, or the stream cannot be read";

/// Options of `config check`.
#[derive(Debug, Clone, Args)]
#[command(after_help = CONFIG_HELP)]
pub struct ConfigArgs {
    /// The configuration file
    #[arg(long, value_name = "PATH", default_value = "aqueduct.toml")]
    pub config: PathBuf,
}

const CONFIG_HELP: &str = "\
Reads the file and the environment (AQUEDUCT_…) as `serve` would, and reports everything that is wrong at once.
Every key is documented in docs/configuration.md.

Examples:
  aqueduct config check
  AQUEDUCT_LOG__LEVEL=debug aqueduct config check --config /etc/aqueduct.toml

Exit codes:
  0  nothing is wrong
  1  something is wrong
  2  the file cannot be opened";
