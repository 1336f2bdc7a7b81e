//! Settings of decoder, client and converters, each with its reason. No default loses content.

use std::time::Duration;

use aqueduct_core::{ByteString, IntermediateView, RunInfo, Source};

use crate::recognise::Recognisers;
use crate::version::Version;
use crate::wire::Dialect;

aqueduct_core::with_defaults! {
    /// How the events of a task are decoded.
    #[derive(Debug, Clone)]
    pub struct DecodeConfig {
        /// The source of the agent: the root, or a child of its caller.
        pub source: Source = Source::root(),
        /// What the end of the task ends.
        pub ending: Ending = Ending::Run,
        /// The JSON dialect of the peer. A wrong value only affects the wrapping of data parts in 0.3 over REST.
        pub dialect: Dialect = Dialect::V1,
        /// Recognisers of tool notices, plans and final results in plain text.
        pub recognisers: Recognisers,
        /// The form of interrupts.
        pub interrupts: InterruptView = InterruptView::Interrupt,
        /// What `auth-required` means for the stream.
        pub auth_required: AuthRequired = AuthRequired::EndsTurn,
        /// The form of artifacts of agents behind the agent.
        pub sub_agents: SubAgents = SubAgents::Inline,
        /// The shape in which status texts and messages stream.
        pub stream: StreamShape = StreamShape::Auto,
        /// The treatment of a status text that may be the answer.
        pub unclear: Unclear = Unclear::Hold,
        /// The channel of a `completed` message that differs from the answer ("Done.", beside artifacts). Without any other
        /// answer such a message *is* the answer.
        pub closing_remark: ClosingRemark = ClosingRemark::Intermediate,
        /// Set to emit the last status text of a completed task again as the answer, if the task has shown nothing but
        /// status texts. Older agents answer in a `working` status and complete without a message; a frontend that hides
        /// intermediate text would show nothing.
        pub promote_last_status: bool = true,
        /// Set to suppress a chunk that appends to an artifact and repeats all of it. Microsoft Agent Framework sends the
        /// complete message again after its chunks, as one more chunk.
        pub drop_restated_chunks: bool = true,
        /// Whether the [marks](crate::mark) of Aqueduct's own server are decoded, which restore the original stream.
        pub marks: Marks = Marks::Read,
        /// The id of the message that this stream answers. History up to it belongs to earlier turns.
        pub sent_message_id: Option<String> = None,
        /// Set if that message was sent to an existing task: the content of its first snapshot is then known already.
        pub follow_up: bool = false,
        /// Names of the tools that a frontend offers. A task that waits only for their results has called them: the turn
        /// ends as a success, and the next one contains the results.
        pub frontend_tools: Vec<ByteString> = Vec::new(),
        /// Limits of the decoder's memory.
        pub limits: DecodeLimits,
    }
}

impl DecodeConfig {
    /// Returns settings for the agent of a run.
    pub fn root() -> Self {
        Self::default()
    }

    /// Returns settings for a sub-agent: its end closes its lane, and the run continues.
    pub fn lane(source: Source) -> Self {
        Self { source, ending: Ending::Lane, ..Self::default() }
    }
}

/// How the texts of `working` statuses, and messages on the stream of a task, relate to each other and to the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StreamShape {
    /// Detected from the marks of the framework or the texts, reconciled with the artifact or the final status.
    #[default]
    Auto,
    /// Each status text is a notice: a separate intermediate text.
    Notices,
    /// Each text is the next fragment of the answer. A text that repeats all of them adds nothing.
    Fragments,
    /// Each text is the answer so far.
    Cumulative,
    /// Each text is the next fragment of the answer, whatever it repeats.
    Deltas,
    /// Each text is a complete message of the answer.
    Answer,
}

/// The treatment of a status text that may be the answer or a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unclear {
    /// Held until the next events decide ([`Decoder::release_held`](crate::Decoder::release_held) ends the wait).
    #[default]
    Hold,
    /// Shown at once, as part of the answer: for readers that do not distinguish the answer from intermediate text.
    Show,
}

/// What the end of a task ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The run.
    Run,
    /// The agent's lane.
    Lane,
}

/// The treatment of the marks of Aqueduct's own server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// Decoded.
    Read,
    /// Kept as metadata like any other.
    Ignore,
}

/// The form of `input-required` and `auth-required`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptView {
    /// Interrupts: the run waits, and the reply resumes the same task.
    Interrupt,
    /// Text of the answer, after which the turn ends; for frontends without interrupts.
    Text,
}

/// What `auth-required` means for the stream. (The specification has both, §3.1.2 and §7.6.1.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthRequired {
    /// The turn ends, as with `input-required`.
    EndsTurn,
    /// The agent continues by itself once the user has authorised it elsewhere; the turn ends with the stream.
    KeepsStream,
}

/// The form of artifacts that an agent forwards from its own sub-agents (recognisers determine the sub-agent).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubAgents {
    /// As the agent's own, with the name of the sub-agent in the metadata. Supervisors forward as the answer what they
    /// do not rewrite.
    Inline,
    /// In a lane per sub-agent.
    Lanes,
}

/// The channel of a `completed` message beside another answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosingRemark {
    /// Intermediate text.
    Intermediate,
    /// Part of the answer.
    Answer,
}

aqueduct_core::with_defaults! {
    /// Limits of what one task may make the decoder remember.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct DecodeLimits {
        /// Artifacts that are remembered. Agents create two per tool call, so ten thousand is a task of hours; each costs
        /// about 200 bytes. Beyond the limit the oldest is dropped, and a snapshot that repeats it shows it again.
        pub artifacts: usize = 10_000,
        /// Artifacts whose text is held open for more. An agent that creates an artifact for every chunk and never sets
        /// `lastChunk` would otherwise reach the limit of open blocks (256). Beyond the limit the least recently used one
        /// is ended; more of it becomes a new block.
        pub open_artifacts: usize = 64,
        /// Status messages that are remembered, for the same reason and with the same consequence; each costs about 40
        /// bytes.
        pub messages: usize = 50_000,
        /// Bytes of the answer that are kept to find restatements of parts of it. Longer answers are still recognised as a
        /// whole.
        pub compared_text: usize = 64 * 1024,
        /// Tool notices that wait for their end. Beyond the limit the oldest is treated as never ended.
        pub open_calls: usize = 1_000,
    }

    /// How a client follows its task.
    #[derive(Debug, Clone)]
    pub struct ClientConfig {
        /// How the events of the task are decoded.
        pub decode: DecodeConfig,
        /// Set to request a stream; unset for agents whose card does not support streaming.
        pub streaming: bool = true,
        /// The version of requests, where the same address may support the other one (JSON-RPC): an agent without the
        /// method gets the request once in the other version. `None` always uses the endpoint's version.
        pub version: Option<Version> = None,
        /// How a lost stream is recovered.
        pub retry: Retry,
        /// How long a status text is held that may be the answer, if nothing decides before. Agents that send the answer
        /// twice do so at once; a notice that is shown this much later is still timely.
        pub hold: Duration = Duration::from_millis(250),
    }

    /// The limits and pauses of recovery. Pauses are returned as data: the driver of the client waits, and may add jitter.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Retry {
        /// Consecutive attempts without new content before the client gives up. Five attempts with the pauses below outlast
        /// a restart of the agent (7.5 s) and are short enough for a waiting reader.
        pub attempts: u32 = 5,
        /// Subscriptions of one turn, whatever they bring; then the task is only polled. A server whose streams repeat
        /// everything and end would be subscribed to without end, because its replacements look like new content. Watchers
        /// that fall behind the official Rust server need a subscription for every 32 chunks.
        pub streams: u32 = 1000,
        /// The pause before the second attempt; the first is immediate. The pause doubles each time.
        pub base: Duration = Duration::from_millis(500),
        /// The longest pause.
        pub cap: Duration = Duration::from_secs(10),
        /// The pause between two reads of a task that works and cannot be streamed.
        pub poll_interval: Duration = Duration::from_secs(2),
        /// Consecutive reads without new content before the client gives up. With the interval: half an hour.
        pub polls: u32 = 900,
        /// As `polls`, for a task that the agent reports as not subscribable (-32001) although it can be read: some servers
        /// do so for a task that is not executed, some for one that is executed elsewhere. With the interval: a minute.
        pub unwatchable_polls: u32 = 30,
        /// As `polls`, after a stream that ended with an error, and for an interrupt that was answered and is still
        /// pending: the task should report that itself, but some servers leave it `working` without end. With the interval:
        /// ten seconds.
        pub reported_polls: u32 = 5,
    }
}

impl Retry {
    /// Returns the pause before an attempt; the first is number 0. With the defaults: 0, 0.5, 1, 2, 4, 8, 10, 10,
    /// … seconds.
    pub fn pause(&self, attempt: u32) -> Duration {
        let Some(doublings) = attempt.checked_sub(1) else { return Duration::ZERO };
        self.base.saturating_mul(2_u32.saturating_pow(doublings)).min(self.cap)
    }
}

/// When thinking and intermediate text become status messages, which cannot be appended to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Notes {
    /// Line by line, so that each message is readable.
    #[default]
    Lines,
    /// At once, fragment by fragment, for readers that join them again, as Aqueduct's own client does.
    Fragments,
}

impl Notes {
    /// A line longer than this many bytes is sent in pieces, so that no reader waits for more than a paragraph.
    pub const HELD: usize = 1024;
}

/// How a run is encoded as an A2A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The id of the task. Every item contains it, and most events do not know their run.
    pub task_id: ByteString,
    /// The id of the context.
    pub context_id: ByteString,
    /// How intermediate text is shown. As text by default, in `working` statuses.
    pub intermediate: IntermediateView,
    /// Set to show thinking, in `working` statuses whose parts have the metadata `thought`.
    pub thinking: bool,
    /// When intermediate text and thinking are sent.
    pub notes: Notes,
    /// Set to send lanes, steps, state and usage, as `working` statuses. Blocks name their lane in either case.
    pub signals: bool,
}

impl Settings {
    /// Returns settings for a task with these ids that show everything.
    pub fn new(task_id: impl Into<ByteString>, context_id: impl Into<ByteString>) -> Self {
        Self {
            task_id: task_id.into(),
            context_id: context_id.into(),
            intermediate: IntermediateView::Text,
            thinking: true,
            notes: Notes::Lines,
            signals: true,
        }
    }

    /// Returns settings for a run: the task has the id of the run, the context that of the thread.
    pub fn of_run(run: &RunInfo) -> Self {
        Self::new(run.run_id.as_bytes().clone(), run.thread_id.as_bytes().clone())
    }
}
