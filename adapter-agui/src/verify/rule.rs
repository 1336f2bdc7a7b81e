//! The rules by name, and [`Violation`].

use std::fmt;

/// The consequence of a violation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The client does not notice, and content is lost, wrong or left open.
    Unnoticed,
    /// A client of the dialect rejects the stream.
    Rejected,
}

/// The violations that are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Level {
    /// Only those after which a client rejects the stream.
    Client,
    /// All violations.
    #[default]
    Strict,
}

/// A violated rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The index of the event. For the end of the stream: the number of events.
    pub index: usize,
    /// The type of the event; empty for the end of the stream and for a frame that is not an event.
    pub event: String,
    /// The violated rule.
    pub rule: Rule,
    /// The consequence.
    pub severity: Severity,
    /// A description of the violation.
    pub what: String,
}

impl Violation {
    /// Returns the remedy.
    pub fn fix(&self) -> &'static str {
        self.rule.fix()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Rejected => "rejected",
            Severity::Unnoticed => "unnoticed",
        };
        write!(f, "event {}", self.index)?;
        if !self.event.is_empty() {
            write!(f, " ({})", self.event)?;
        }
        write!(f, ": {} [{}, {severity}]; {}", self.what, self.rule.id(), self.fix())
    }
}

macro_rules! rules {
    ($( $(#[$doc:meta])* $name:ident = $id:literal, $fix:literal ; )+) => {
        /// The rules of the verifier.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Rule { $( $(#[$doc])* $name, )+ }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[ $( Self::$name, )+ ];

            /// Returns the stable name of the rule.
            pub fn id(self) -> &'static str {
                match self { $( Self::$name => $id, )+ }
            }

            /// Returns the remedy for a violation.
            pub fn fix(self) -> &'static str {
                match self { $( Self::$name => $fix, )+ }
            }
        }
    };
}

rules! {
    /// A stream begins with `RUN_STARTED` (or `RUN_ERROR`).
    FirstEvent = "first-event", "send RUN_STARTED before anything else";
    /// Nothing but a new run follows `RUN_ERROR`.
    AfterError = "after-error", "send it before RUN_ERROR, or not at all";
    /// Nothing but a new run or `RUN_ERROR` follows `RUN_FINISHED`.
    AfterFinish = "after-finish", "send it before RUN_FINISHED, or start a new run";
    /// One run at a time.
    RunActive = "run-active", "end the run with RUN_FINISHED or RUN_ERROR first";
    /// A text message starts once.
    TextOpenTwice = "text-open-twice", "send TEXT_MESSAGE_END first, or use another id";
    /// Text goes into an open message.
    TextNotOpen = "text-not-open", "send TEXT_MESSAGE_START with that id first";
    /// A tool call starts once.
    ToolOpenTwice = "tool-open-twice", "send TOOL_CALL_END first, or use another id";
    /// Arguments go into an open call.
    ToolNotOpen = "tool-not-open", "send TOOL_CALL_START with that id first";
    /// A reasoning span or message starts once.
    ReasoningOpenTwice = "reasoning-open-twice", "end it first, or use another id";
    /// Reasoning goes into an open span or message.
    ReasoningNotOpen = "reasoning-not-open", "start it with that id first";
    /// A step starts once per agent.
    StepOpenTwice = "step-open-twice", "send STEP_FINISHED first, or use another name";
    /// A step ends after it started.
    StepNotOpen = "step-not-open", "send STEP_STARTED with that name first";
    /// The agent that started a step also finishes it.
    StepWrongOwner = "step-wrong-owner", "use the subagentRunId that STEP_STARTED had";
    /// A sub-agent starts once.
    SubagentOpenTwice = "subagent-open-twice", "send SUBAGENT_FINISHED first, or use another id";
    /// A sub-agent's id names one invocation.
    SubagentReused = "subagent-reused", "use a new subagentRunId for each invocation";
    /// A sub-agent's parent has started.
    SubagentUnknownParent = "subagent-unknown-parent", "start the parent first, or leave parentSubagentRunId out";
    /// A sub-agent ends after it started.
    SubagentNotOpen = "subagent-not-open", "send SUBAGENT_STARTED with that id first";
    /// An event that continues or ends something has the tag of the opening event, or none.
    OwnerMismatch = "owner-mismatch", "use the subagentRunId of the opening event, or none";
    /// A tool call belongs to the agent of its message.
    ParentOwnerMismatch = "parent-owner-mismatch", "use the subagentRunId of the parent message";
    /// A run that finishes has closed everything.
    OpenAtFinish = "open-at-finish", "end everything before RUN_FINISHED";
    /// Chunks are unambiguous and consistent.
    Chunk = "chunk", "give the first chunk its id and name, and repeat them unchanged or not at all";
    /// An event matches the schema of the protocol.
    Schema = "schema", "send what the protocol says";
    /// Absent members are omitted.
    NullOptional = "null-optional", "leave the member out instead of sending null";
    /// An event type is known.
    UnknownEvent = "unknown-event", "send it as CUSTOM or RAW";
    /// A member is known.
    UnknownField = "unknown-field", "put it into metadata";
    /// A kind of outcome, message, part, source or operation is known.
    UnknownVariant = "unknown-variant", "send a kind that the protocol has";
    /// Events and members belong to the peer's dialect.
    NotInDialect = "not-in-dialect", "declare protocolVersion, or send what 0.0.59 has";
    /// An event type is not retired.
    RetiredEvent = "retired-event", "send REASONING_* instead of THINKING_*, media parts instead of binary";
    /// A patch is one of RFC 6902.
    BadPatch = "bad-patch", "send operations of RFC 6902 with JSON pointers";
    /// A frame holds one JSON object.
    NotJson = "not-json", "send one JSON object per frame, and nothing else";
    /// A stream is UTF-8.
    InvalidUtf8 = "invalid-utf8", "encode text as UTF-8, and split it at characters before it is encoded";
    /// Frames are separated by LF LF.
    CrlfFraming = "crlf-framing", "end lines with LF alone";
    /// A frame is at most 10 MiB.
    FrameTooLarge = "frame-too-large", "send less per event";
    /// A stream contains the end of its run.
    MissingTerminal = "missing-terminal", "end every run with RUN_FINISHED or RUN_ERROR";
    /// A message has content.
    LostContent = "lost-content", "send the content, or no message";
    /// A run that fails has closed everything.
    OpenAtError = "open-at-error", "end everything before RUN_ERROR";
    /// An id names one thing in a thread.
    IdReused = "id-reused", "use an id once in a thread, over all runs and kinds";
    /// A tool result belongs to a call.
    ResultWithoutCall = "result-without-call", "send TOOL_CALL_START and TOOL_CALL_END for it first";
    /// A tool call belongs to an assistant's message.
    ParentNotAssistant = "parent-not-assistant", "name the text message in parentMessageId, or leave it out";
    /// A change of an activity follows its snapshot.
    ActivityWithoutSnapshot = "activity-without-snapshot", "send ACTIVITY_SNAPSHOT with that id first";
    /// A run ends under the ids it started with.
    RunMismatch = "run-mismatch", "repeat the threadId and runId of RUN_STARTED";
    /// Restated messages keep what is still open.
    SnapshotDropsOpen = "snapshot-drops-open", "restate open messages as well, or end them first";
    /// An interrupt's id names one question.
    InterruptReused = "interrupt-reused", "use a new id for each interrupt of a thread";
    /// Pending calls were made.
    PendingUnknown = "pending-unknown", "name only calls of this run";
}

/// Collects violations at the current event.
#[derive(Debug)]
pub(super) struct Report {
    level: Level,
    pub(super) index: usize,
    pub(super) event: String,
    violations: Vec<Violation>,
}

impl Report {
    pub(super) fn new(level: Level) -> Self {
        Self { level, index: 0, event: String::new(), violations: Vec::new() }
    }

    pub(super) fn rejected(&mut self, rule: Rule, what: impl Into<String>) {
        self.add(rule, Severity::Rejected, what);
    }

    pub(super) fn unnoticed(&mut self, rule: Rule, what: impl Into<String>) {
        self.add(rule, Severity::Unnoticed, what);
    }

    pub(super) fn add(&mut self, rule: Rule, severity: Severity, what: impl Into<String>) {
        let (index, event) = (self.index, self.event.clone());
        self.add_at(index, event, rule, severity, what);
    }

    pub(super) fn add_at(
        &mut self,
        index: usize,
        event: String,
        rule: Rule,
        severity: Severity,
        what: impl Into<String>,
    ) {
        if self.level == Level::Strict || severity == Severity::Rejected {
            self.violations.push(Violation { index, event, rule, severity, what: what.into() });
        }
    }

    pub(super) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    pub(super) fn take(&mut self) -> Vec<Violation> {
        std::mem::take(&mut self.violations)
    }
}
