//! Options of `mock`, `bench` and `completions`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

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
