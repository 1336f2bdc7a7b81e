//! Options of the commands that read recorded or piped streams: `convert` and `verify`.

use clap::{Args, ValueEnum};

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
    /// Each run as one value: the merged response, as documented in docs/cli.md
    Response,
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
