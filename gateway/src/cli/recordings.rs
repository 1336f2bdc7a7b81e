//! Options of `record` and `replay`.
//!
//! Doc comments of fields and variants are help texts; see [`cli`](super).

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::ReachArgs;
use crate::source::replay::Speed;

/// Options of `record`.
#[derive(Debug, Clone, Args)]
#[command(after_help = RECORD_HELP)]
pub struct RecordArgs {
    /// An agent of the configuration, or the URL of an agent
    #[arg(value_name = "AGENT|URL")]
    pub target: String,
    /// The prompt
    pub prompt: String,
    /// The file to write; standard output without it
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Protocol, configuration and credentials of the call.
    #[command(flatten)]
    pub reach: ReachArgs,
}

const RECORD_HELP: &str = "\
Asks once and writes every frame of the answer as it came, with the milliseconds since the request. Of an agent that
speaks neither A2A nor AG-UI the AG-UI events are written that the gateway makes of it. Ctrl-C stops the agent, whose last
events are recorded; a second one leaves. `replay`, `convert`, `verify`, `diff` and the inspector read the file.

Examples:
  aqueduct record http://127.0.0.1:9999 \"Will it rain?\" -o rain.jsonl
  aqueduct record https://agent.example.org \"Hello\" --token env:TOKEN -o hello.jsonl
  aqueduct record weather \"Will it rain?\" --config /etc/aqueduct.toml -o rain.jsonl

Exit codes:
  0  recorded, whatever the agent sent
  1  the agent did not answer, or the file cannot be written
  2  wrong arguments, or no such agent";

/// Options of `replay`.
#[derive(Debug, Clone, Args)]
#[command(after_help = REPLAY_HELP)]
pub struct ReplayArgs {
    /// A file that `record` wrote, or a stream as server-sent events or JSON lines
    pub file: PathBuf,
    /// Serve it as the agent `replay` at this address, instead of showing it here
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// The speed: a factor, or `max`
    #[arg(long, default_value = "1")]
    pub speed: Speed,
    /// The output format of the run.
    #[command(flatten)]
    pub form: super::OutputForm,
}

const REPLAY_HELP: &str = "\
The frames come again when they came, and go through the gateway as if they came from the agent. In a configuration, a
recording is an agent as `replay = { file = \"rain.jsonl\" }`.

Examples:
  aqueduct replay rain.jsonl
  aqueduct replay trace.sse --speed max          (saved by the inspector)
  aqueduct replay rain.jsonl --listen 127.0.0.1:8787 --speed 10

Exit codes:
  0  the recorded run succeeded, or waits for an answer; served until a signal
  1  the recorded run failed or was cancelled; the address cannot be listened on
  2  wrong arguments, or the file is no recording";
