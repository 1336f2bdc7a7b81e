//! Options of `mock`, `bench`, `doctor`, `health`, `completions` and `man`.
//!
//! Doc comments of fields and variants are help texts; see [`cli`](super).

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::{CallerArgs, UrlProtocol};

/// Options of `mock`.
#[derive(Debug, Clone, Args)]
#[command(after_help = MOCK_HELP)]
pub struct MockArgs {
    /// The script of the agent (docs/script.md)
    pub script: PathBuf,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8788")]
    pub listen: SocketAddr,
    /// The name of the agent; that of the file without it
    #[arg(long)]
    pub name: Option<String>,
    /// Send A2A push notifications to any address, including this machine and its network: for tests
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
    /// Silent streams; each needs four open files here
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

/// Options of `health`.
#[derive(Debug, Clone, Args)]
#[command(after_help = HEALTH_HELP)]
pub struct HealthArgs {
    /// The probe to ask; `/healthz` instead of `/readyz` asks whether the process works at all
    #[arg(default_value = "http://127.0.0.1:8080/readyz")]
    pub url: String,
    /// Certificates (PEM) of the authorities to trust instead of the public ones
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

const HEALTH_HELP: &str = "\
Asks a running gateway whether it is ready, for health checks in places without curl, such as its container image.

Examples:
  aqueduct health
  aqueduct health http://127.0.0.1:9090/healthz
  aqueduct health https://gateway.example.org/readyz --ca ca.pem

Exit codes:
  0  ready
  1  not ready, with the reason; or no gateway answers in 5 seconds
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

/// Options of `doctor`.
#[derive(Debug, Clone, Args)]
#[command(after_help = DOCTOR_HELP)]
pub struct DoctorArgs {
    /// The URL of an agent
    pub url: String,
    /// The protocol of the agent at the URL
    #[arg(long, value_enum, default_value_t = UrlProtocol::Auto)]
    pub protocol: UrlProtocol,
    /// The prompt, to see how the agent streams
    #[arg(long, default_value = "Hello")]
    pub prompt: String,
    /// Send no prompt to the agent
    #[arg(long)]
    pub no_run: bool,
    /// The name of the agent in the configuration that is written; from its card without it
    #[arg(long)]
    pub name: Option<String>,
    /// Credentials of the call.
    #[command(flatten)]
    pub caller: CallerArgs,
}

const DOCTOR_HELP: &str = "\
Reads the card, says which versions and bindings there are and which one the gateway would use, asks the agent once and tells
how it streams, whether it wants credentials, and what would not work. Ends with the lines of configuration for the agent.

Examples:
  aqueduct doctor http://127.0.0.1:9999
  aqueduct doctor https://agent.example.org --token env:TOKEN --no-run

Exit codes:
  0  the agent works
  1  something would not work
  2  wrong arguments";

/// Options of `man`.
#[derive(Debug, Clone, Args)]
#[command(after_help = MAN_HELP)]
pub struct ManArgs {
    /// The folder to write `aqueduct.1`, `aqueduct-serve.1` … to; the page of the program goes to standard output without it
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const MAN_HELP: &str = "\
Examples:
  aqueduct man | man -l -
  aqueduct man --out ~/.local/share/man/man1

Exit codes:
  0  written
  1  the folder cannot be written
  2  wrong arguments";
