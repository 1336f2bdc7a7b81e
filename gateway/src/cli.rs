//! The commands and their options. What a command does is in the module of its name.
//!
//! Doc comments of the types below are the help texts of the program: clap prints them with `--help`, and the
//! manual pages and shell completions contain them. They are written for users, without a period at the end of
//! the first sentence. The constants `*_HELP` are printed after the options; they contain examples and exit codes.

mod log;
mod reach;
mod recordings;
mod streams;
mod tools;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::serve::DEMO_PORT;

pub use log::{LogArgs, LogCommand};
pub use reach::{CallerArgs, ReachArgs, UrlProtocol};
pub use recordings::{RecordArgs, ReplayArgs};
pub use streams::{
    ClientDialect, ConvertArgs, DiffArgs, FromDialect, QuestionView, ReportFormat, SubagentView, TextView,
    ToDialect, VerifyArgs,
};
pub use tools::{BenchArgs, CompletionsArgs, DoctorArgs, HealthArgs, ManArgs, MockArgs};

/// Carries any agent's stream to any agent frontend, intact.
#[derive(Debug, Parser)]
#[command(name = "aqueduct", version, propagate_version = true, arg_required_else_help = true, after_help = EXIT_CODES)]
pub struct Cli {
    /// The selected command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum Command {
    /// Put configured agents behind one address
    Serve(ServeArgs),
    /// Serve scripted agents as a demo
    Demo(DemoArgs),
    /// Talk to an agent from the terminal
    Run(RunArgs),
    /// Translate a recorded or piped stream from one dialect to another
    Convert(ConvertArgs),
    /// Check an AG-UI stream strictly
    Verify(VerifyArgs),
    /// Compare two recorded streams by content
    Diff(DiffArgs),
    /// Examine an agent: its protocol, what would not work, and the configuration for it
    Doctor(DoctorArgs),
    /// Ask a running gateway whether it is ready
    Health(HealthArgs),
    /// Write what an agent sends to a file, with its timing
    Record(RecordArgs),
    /// Replay a recorded stream, at the terminal or as an agent
    Replay(ReplayArgs),
    /// Serve a scripted agent over A2A and AG-UI
    Mock(MockArgs),
    /// Measure the whole path over sockets
    Bench(BenchArgs),
    /// Write a completion script for a shell
    Completions(CompletionsArgs),
    /// Write manual pages
    Man(ManArgs),
    /// Write a configuration to begin with
    Init(InitArgs),
    /// Check, print or describe the configuration
    #[command(subcommand, after_help = CONFIG_HELP)]
    Config(ConfigCommand),
    /// Check or repair a run log on disk
    #[command(subcommand, after_help = LOG_HELP)]
    Log(LogCommand),
}

/// The subcommands of `config`.
#[derive(Debug, Subcommand)]
#[non_exhaustive]
pub enum ConfigCommand {
    /// Report errors of a configuration, with file, line and key
    #[command(after_help = CHECK_HELP)]
    Check(ConfigArgs),
    /// Show the configuration as the gateway uses it, with all defaults; secrets by their names
    #[command(after_help = PRINT_HELP)]
    Print(ConfigArgs),
    /// Write the JSON Schema of the configuration, for editors
    #[command(after_help = SCHEMA_HELP)]
    Schema,
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
    /// The address to listen on instead of those of the configuration; may be given several times
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Vec<SocketAddr>,
    /// Listen beyond loopback although an agent requires no token
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
    /// The prompt. Without it, a chat: every line of standard input is a prompt
    pub prompt: Option<String>,
    /// Continue with a chat after the prompt
    #[arg(short = 'i', long)]
    pub chat: bool,
    /// The thread of the runs; a new one without it
    #[arg(long, value_name = "ID")]
    pub thread: Option<String>,
    /// Protocol, configuration and credentials of the call.
    #[command(flatten)]
    pub reach: ReachArgs,
    /// The output format of the run.
    #[command(flatten)]
    pub form: OutputForm,
}

/// The machine-readable output formats of a run.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[group(multiple = false)]
pub struct OutputForm {
    /// Write the run as one JSON value at its end (docs/cli.md) instead of text
    #[arg(long)]
    pub json: bool,
    /// Write canonical events as JSON lines (docs/cli.md) instead of text
    #[arg(long)]
    pub events: bool,
}

const RUN_HELP: &str = "\
Shows the answer as it comes: sub-agents by name, tool calls and their results, thinking dimmed, Markdown rendered. Without a
prompt it is a chat: lines are prompts of one thread, arrows bring earlier ones back, /help lists what else can be typed.

A question is answered by the next line: words, JSON, or one line per field if it asks for an object. Ctrl-C stops the run at
the agent; a second one, or one at the prompt, leaves. Colours and line editing are for terminals; NO_COLOR and TERM=dumb
are respected, and lines are as wide as the terminal.

Examples:
  aqueduct run demo                          (a chat, while `aqueduct demo` runs)
  aqueduct run weather \"Will it rain?\"
  aqueduct run http://127.0.0.1:8787/agents/team \"Write about Rust\" --chat
  aqueduct run https://agent.example.org \"Hello\" --token env:TOKEN --ca ca.pem -H 'X-Team: blue'
  aqueduct run https://agent.example.org \"Hello\" --protocol a2a --json | jq .text

Exit codes:
  0  the run succeeded, or waits for an answer that cannot be given here; a chat was left
  1  the run failed or was cancelled
  2  wrong arguments, or no such agent";

/// Options of `config check` and `config print`.
#[derive(Debug, Clone, Args)]
pub struct ConfigArgs {
    /// The configuration file
    #[arg(long, value_name = "PATH", default_value = "aqueduct.toml")]
    pub config: PathBuf,
}

const CONFIG_HELP: &str = "\
Examples:
  aqueduct config check
  aqueduct config print --config /etc/aqueduct.toml
  aqueduct config schema > aqueduct.schema.json";

const LOG_HELP: &str = "\
Examples:
  aqueduct log check /var/lib/aqueduct/runs
  aqueduct log repair /var/lib/aqueduct/runs";

const PRINT_HELP: &str = "\
Reads the file and the environment (AQUEDUCT_…) as `serve` would. What is printed is a configuration again, and means the same.

Examples:
  aqueduct config print
  AQUEDUCT_LOG__LEVEL=debug aqueduct config print --config /etc/aqueduct.toml

Exit codes:
  0  printed
  1  something is wrong with the configuration
  2  the file cannot be opened";

const SCHEMA_HELP: &str = "\
With `#:schema ./aqueduct.schema.json` as the first line of the configuration, editors that know TOML complete and check it.

Examples:
  aqueduct config schema > aqueduct.schema.json

Exit codes:
  0  written
  2  wrong arguments";

const CHECK_HELP: &str = "\
Reads the file and the environment (AQUEDUCT_…) as `serve` would, and reports everything that is wrong at once.
Every key is documented in docs/configuration.md.

Examples:
  aqueduct config check
  AQUEDUCT_LOG__LEVEL=debug aqueduct config check --config /etc/aqueduct.toml

Exit codes:
  0  nothing is wrong
  1  something is wrong
  2  the file cannot be opened";

/// Options of `init`.
#[derive(Debug, Clone, Args)]
#[command(after_help = INIT_HELP)]
pub struct InitArgs {
    /// The configuration file to write
    #[arg(long, value_name = "PATH", default_value = "aqueduct.toml")]
    pub config: PathBuf,
    /// An A2A agent by its address
    #[arg(long, value_name = "URL", conflicts_with = "agui")]
    pub a2a: Option<String>,
    /// An AG-UI agent by its address
    #[arg(long, value_name = "URL")]
    pub agui: Option<String>,
    /// The name of the agent here
    #[arg(long)]
    pub name: Option<String>,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Overwrite the file if it exists
    #[arg(long)]
    pub force: bool,
}

const INIT_HELP: &str = "\
Prompts for missing options, if it is run at a terminal.

Examples:
  aqueduct init
  aqueduct init --a2a https://weather.example.org --name weather

Exit codes:
  0  the file was written
  2  wrong arguments, or the file exists or cannot be written";
