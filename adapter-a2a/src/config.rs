//! Settings of decoder, client and converters, each with its reason. All have a default that loses nothing.

use std::time::Duration;

use aqueduct_core::{ByteString, IntermediateView, RunInfo, Source};

use crate::recognise::Recognisers;
use crate::version::Version;
use crate::wire::Dialect;

/// How a task's events are read.
#[derive(Debug, Clone)]
pub struct DecodeConfig {
    /// The agent: the root, or the child of whoever called it.
    pub source: Source,
    /// What the end of the task ends.
    pub ending: Ending,
    /// How the peer spells JSON. Wrong only costs the wrapping of data parts in 0.3 over REST.
    pub dialect: Dialect,
    /// Who recognises tool notices, plans and final results in what is only words.
    pub recognisers: Recognisers,
    /// How a question to the user is told.
    pub interrupts: InterruptView,
    /// What `auth-required` means for the stream.
    pub auth_required: AuthRequired,
    /// How the work of agents behind the agent is told.
    pub sub_agents: SubAgents,
    /// How status texts and messages stream.
    pub stream: StreamShape,
    /// What becomes of a status text that may be the answer.
    pub unclear: Unclear,
    /// The channel of a `completed` message that differs from the answer ("Done.", beside artifacts). Without any
    /// other answer such a message *is* the answer.
    pub closing_remark: ClosingRemark,
    /// If a completed task has shown nothing but status texts, its last one is told again as the answer. Older
    /// agents answer in a `working` status and complete without a word; a frontend that folds intermediate text
    /// away would show nothing.
    pub promote_last_status: bool,
    /// If a chunk that appends to an artifact repeats all of it, it is taken for a restatement and adds nothing.
    /// Microsoft Agent Framework sends the whole message again after its chunks, as one more chunk.
    pub drop_restated_chunks: bool,
    /// Reads the [marks](crate::mark) of Aqueduct's own server, which restore the stream as it was.
    pub marks: Marks,
    /// The message that this stream answers. History up to it belongs to earlier turns.
    pub sent_message_id: Option<String>,
    /// True if that message went to a task that existed before: what its first snapshot holds is known already.
    pub follow_up: bool,
    /// Tools that a frontend offers, by name. A task that waits for nothing but their results has called them: the turn
    /// ends well, and the next one brings the results.
    pub frontend_tools: Vec<ByteString>,
    /// How much is remembered.
    pub limits: DecodeLimits,
}

impl Default for DecodeConfig {
    fn default() -> Self {
        Self {
            source: Source::root(),
            ending: Ending::Run,
            dialect: Dialect::V1,
            recognisers: Recognisers::default(),
            interrupts: InterruptView::Interrupt,
            auth_required: AuthRequired::EndsTurn,
            sub_agents: SubAgents::Inline,
            stream: StreamShape::Auto,
            unclear: Unclear::Hold,
            closing_remark: ClosingRemark::Intermediate,
            promote_last_status: true,
            drop_restated_chunks: true,
            marks: Marks::Read,
            sent_message_id: None,
            follow_up: false,
            frontend_tools: Vec::new(),
            limits: DecodeLimits::default(),
        }
    }
}

impl DecodeConfig {
    /// For an agent that the run is about.
    pub fn root() -> Self {
        Self::default()
    }

    /// For a sub-agent: its end closes its lane, and the run goes on.
    pub fn lane(source: Source) -> Self {
        Self { source, ending: Ending::Lane, ..Self::default() }
    }
}

/// What the texts of `working` statuses, and messages on the stream of a task, are to each other and to the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StreamShape {
    /// As the framework's marks or the texts themselves show, reconciled with the artifact or the final status.
    #[default]
    Auto,
    /// Each status text is a notice: a text of its own on the way to the answer.
    Notices,
    /// Each text is the next piece of the answer. A text that repeats all of them adds nothing.
    Fragments,
    /// Each text is the answer so far.
    Cumulative,
    /// Each text is the next piece of the answer, whatever it repeats.
    Deltas,
    /// Each text is a whole message of the answer.
    Answer,
}

/// What becomes of a status text that may be the answer, or a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unclear {
    /// It is held until what follows decides ([`Decoder::release_held`](crate::Decoder::release_held) ends the wait).
    #[default]
    Hold,
    /// It is shown at once, as part of the answer: for readers that make no difference between the answer and the way
    /// to it.
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

/// What the marks of Aqueduct's own server are taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// What they say.
    Read,
    /// Metadata like any other.
    Ignore,
}

/// How `input-required` and `auth-required` are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterruptView {
    /// As interrupts: the run waits, and the answer resumes the same task.
    Interrupt,
    /// As text of the answer, after which the turn is over; for frontends that know no interrupts.
    Text,
}

/// What `auth-required` means for the stream. (The specification says both, §3.1.2 and §7.6.1.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthRequired {
    /// The turn is over, as with `input-required`.
    EndsTurn,
    /// The agent goes on by itself once the user has authorised it elsewhere; the turn is over when the stream is.
    KeepsStream,
}

/// How artifacts are told that an agent passes on from agents of its own (recognisers say whose they are).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SubAgents {
    /// As its own, with the name in their metadata. Supervisors pass on as the answer what they do not rewrite.
    Inline,
    /// In a lane for each.
    Lanes,
}

/// The channel of a `completed` message beside another answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosingRemark {
    /// Words on the way.
    Intermediate,
    /// Part of the answer.
    Answer,
}

/// How much one task may make the decoder remember.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Artifacts remembered. Agents make two per tool call, so ten thousand is a task of hours; each costs about
    /// 200 bytes. Past it, the oldest is forgotten, and a snapshot that repeats it shows it again.
    pub artifacts: usize,
    /// Artifacts whose text is held open for more. An agent that makes a new one for every chunk and never says
    /// `lastChunk` would otherwise run into the limit of open blocks (256). Past it, the one that was silent the
    /// longest is ended; more of it would be a new block.
    pub open_artifacts: usize,
    /// Status messages remembered, for the same reason and with the same consequence; each costs about 40 bytes.
    pub messages: usize,
    /// Bytes of the answer's words that are kept to find restatements of parts of it. Longer answers are still
    /// recognised as a whole.
    pub compared_text: usize,
    /// Tool notices waiting for their end. Past it, the oldest is taken for never ended.
    pub open_calls: usize,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self {
            artifacts: 10_000,
            open_artifacts: 64,
            messages: 50_000,
            compared_text: 64 * 1024,
            open_calls: 1_000,
        }
    }
}

/// How a client keeps hold of its task.
#[derive(Debug, Clone)]
pub struct ClientConfig {
    /// How the task's events are read.
    pub decode: DecodeConfig,
    /// True to take the answer as a stream; false for agents whose card says they cannot.
    pub streaming: bool,
    /// The version that requests are sent in, where the same address may speak the other one (JSON-RPC): an agent that
    /// knows none of its methods is asked once in the other version. `None` keeps to the endpoint's version.
    pub version: Option<Version>,
    /// How a lost stream is found again.
    pub retry: Retry,
    /// How long a status text is held that may be the answer, if nothing follows that decides. Agents that tell the
    /// answer twice do so at once; a notice that shows this much later is still live.
    pub hold: Duration,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            decode: DecodeConfig::default(),
            streaming: true,
            version: None,
            retry: Retry::default(),
            hold: Duration::from_millis(250),
        }
    }
}

/// How often, and after which pauses, a lost stream is looked for. Pauses are given as data: whoever drives the
/// client waits, and may add jitter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Attempts in a row that bring nothing new, before the task is given up. Five attempts with the pauses below
    /// outlast a restart of the agent (7.5 s) and not the patience of a reader.
    pub attempts: u32,
    /// Streams of one turn that are taken up again, whatever they bring; then the task is looked at only. A server whose
    /// streams tell all from the beginning and end would be asked for ever: what it replaces looks like news. Watchers that
    /// fall behind the official Rust server need a stream for every 32 chunks.
    pub streams: u32,
    /// The pause before the second attempt; the first is made at once. It doubles each time.
    pub base: Duration,
    /// The longest pause.
    pub cap: Duration,
    /// The pause between two looks at a task that works and cannot be streamed.
    pub poll_interval: Duration,
    /// Such looks in a row that show nothing new, before the task is given up. With the interval: half an hour.
    pub polls: u32,
    /// The same for a task that the agent says is not there to be watched (-32001), although it is there to be looked
    /// at: some servers say so of a task that nobody runs, some of one that runs elsewhere. With the interval: a minute.
    pub unwatchable_polls: u32,
    /// The same if the stream ended with an error, and for a question that was answered and is still asked: the task
    /// should say so itself, but servers are known that leave it `working` for ever. With the interval: ten seconds.
    pub reported_polls: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 5,
            streams: 1000,
            base: Duration::from_millis(500),
            cap: Duration::from_secs(10),
            poll_interval: Duration::from_secs(2),
            polls: 900,
            unwatchable_polls: 30,
            reported_polls: 5,
        }
    }
}

impl Retry {
    /// The pause before an attempt; the first is number 0.
    pub fn pause(&self, attempt: u32) -> Duration {
        let Some(doublings) = attempt.checked_sub(1) else { return Duration::ZERO };
        self.base.saturating_mul(2_u32.saturating_pow(doublings)).min(self.cap)
    }
}

/// When thoughts and words on the way become status messages, which nothing can be appended to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Notes {
    /// Line by line, so that people can read each message.
    #[default]
    Lines,
    /// At once, fragment by fragment, for readers who put them together again, as Aqueduct's own client does.
    Fragments,
}

impl Notes {
    /// A line that grows beyond so many bytes leaves in pieces: nobody waits longer than for a paragraph.
    pub const HELD: usize = 1024;
}

/// How a run is shown as an A2A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The task. Every item carries it, and most events do not know their run, so it is given here.
    pub task_id: ByteString,
    /// The conversation.
    pub context_id: ByteString,
    /// How intermediate text is shown. As text by default, in `working` statuses.
    pub intermediate: IntermediateView,
    /// True to show thoughts, in `working` statuses whose parts say `thought`.
    pub thinking: bool,
    /// When intermediate text and thoughts leave.
    pub notes: Notes,
    /// True to tell lanes, steps, state and usage, as `working` statuses. Without them, blocks still say whose
    /// they are.
    pub signals: bool,
}

impl Settings {
    /// For a task of that id in that conversation: everything is shown.
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

    /// The task has the run's id, the conversation that of the thread.
    pub fn of_run(run: &RunInfo) -> Self {
        Self::new(run.run_id.as_bytes().clone(), run.thread_id.as_bytes().clone())
    }
}
