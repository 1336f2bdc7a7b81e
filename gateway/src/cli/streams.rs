//! Options of the commands that read recorded or piped streams: `convert` and `verify`.
//!
//! Doc comments of fields and variants are help texts; see [`cli`](super).

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::CallerArgs;

/// Options of `convert`.
#[derive(Debug, Clone, Args)]
#[command(after_help = CONVERT_HELP)]
pub struct ConvertArgs {
    /// The file to read; standard input without it, or for `-`
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// The dialect of the input; detected without it. A wrong one is an error
    #[arg(long, value_enum, default_value_t = FromDialect::Auto)]
    pub from: FromDialect,
    /// The dialect of the output
    #[arg(long, value_enum)]
    pub to: ToDialect,
    /// Write server-sent events instead of JSON lines
    #[arg(long)]
    pub sse: bool,
    /// How sub-agents are shown in AG-UI [default: attributed in 1.0, tool in 0.0.59]
    #[arg(long, value_enum)]
    pub subagents: Option<SubagentView>,
    /// How intermediate text is shown in AG-UI
    #[arg(long, value_enum, default_value_t = TextView::Reasoning)]
    pub intermediate: TextView,
    /// How interrupts are shown in AG-UI [default: interrupt in 1.0, text in 0.0.59]
    #[arg(long, value_enum)]
    pub interrupts: Option<QuestionView>,
    /// The thread id to use, instead of the input's own or `thread`
    #[arg(long)]
    pub thread: Option<String>,
    /// The run id to use, instead of the input's own or `run-1`; later runs get `-2`, `-3`, … behind it
    #[arg(long)]
    pub run: Option<String>,
}

impl ConvertArgs {
    /// Returns the arguments of a conversion between two dialects with all other options unset.
    pub(crate) fn plain(from: FromDialect, to: ToDialect) -> Self {
        let intermediate = TextView::Reasoning;
        Self {
            file: None,
            from,
            to,
            sse: false,
            subagents: None,
            intermediate,
            interrupts: None,
            thread: None,
            run: None,
        }
    }
}

const CONVERT_HELP: &str = "\
Reads server-sent events, JSON lines, or what `record` wrote, and writes standard output. A stream that was cut or
failed comes out ended, and says so. Several runs in one input come out as several runs.

Examples:
  aqueduct convert rain.jsonl --to agui --sse
  curl -sN http://agent/… | aqueduct convert --from a2a --to agui
  aqueduct convert --from magentic --to agui --sse < workflow.jsonl

Exit codes:
  0  converted, whatever the outcome of the stream
  1  the input cannot be read (the message names line and column), or is not what `--from` says
  2  wrong arguments, or the file cannot be opened";

/// Input dialects of `convert`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[non_exhaustive]
pub enum FromDialect {
    /// Detected from the input
    Auto,
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
    /// As agents of their own
    Attributed,
    /// As part of the run
    Inline,
    /// As tool calls named after the agents
    Tool,
    /// Not at all
    Hidden,
}

/// How intermediate text is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TextView {
    /// As thinking
    Reasoning,
    /// As text
    Text,
    /// Not at all
    Hidden,
}

/// How interrupts are shown.
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
    /// A file with an AG-UI stream (server-sent events, JSON lines, or what `record` wrote), `-` for standard input, or the
    /// URL of an agent
    #[arg(value_name = "FILE|URL")]
    pub target: String,
    /// The prompt for the agent at a URL
    #[arg(long, default_value = "Hello")]
    pub prompt: String,
    /// The client whose rules apply
    #[arg(long, value_enum, default_value_t = ClientDialect::V1_0)]
    pub dialect: ClientDialect,
    /// Report only what a client rejects, not what it loses without noticing
    #[arg(long)]
    pub client: bool,
    /// How the report is written
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Write the report as JSON lines: `--format json`
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Credentials of the call to an agent at a URL.
    #[command(flatten)]
    pub caller: CallerArgs,
}

/// How findings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// For people: rule, position, what is wrong, what to do
    Text,
    /// One object per finding
    Json,
    /// SARIF 2.1.0, for code scanning
    Sarif,
    /// The XML of `JUnit`, for CI servers
    Junit,
}

/// Options of `diff`.
#[derive(Debug, Clone, Args)]
#[command(after_help = DIFF_HELP)]
pub struct DiffArgs {
    /// A recorded stream of any dialect; `-` for standard input
    pub left: String,
    /// The stream to compare it with
    pub right: String,
    /// The dialect of both; detected without it
    #[arg(long, value_enum, default_value_t = FromDialect::Auto)]
    pub from: FromDialect,
    /// Write differences as JSON lines
    #[arg(long)]
    pub json: bool,
}

const DIFF_HELP: &str = "\
Compares what two streams say: outcome, messages and who wrote them, tool calls and results, custom content, questions, usage.
Ids, times, and how the text was cut into events are no content.

Examples:
  aqueduct diff before.jsonl after.jsonl
  aqueduct diff recorded.sse - --json < other.sse

Exit codes:
  0  no difference
  1  they differ
  2  wrong arguments, or one of them cannot be read";

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
missing end. Each finding names the line and the event (counted from 0), the rule, what is wrong and what to do.

Examples:
  aqueduct verify recorded.sse
  aqueduct verify http://127.0.0.1:8787/agents/team --prompt \"Write about Rust\"
  aqueduct verify https://agent.example.org/agui --token env:TOKEN --format sarif > verify.sarif
  curl -sN http://agent/… | aqueduct verify - --dialect 0.0.59

Exit codes:
  0  nothing found
  1  something found
  2  wrong arguments, or the stream cannot be read";
