//! The settings of a decoder, and its limits.

/// Settings. The defaults fit a forwarder that writes the documented lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// What the end of the input means if no line said how the run ended.
    pub end_of_input: EndOfInput,
    /// What the numbers of lines count.
    pub numbering: Numbering,
    /// What is bounded.
    pub limits: Limits,
}

/// What the end of the input means if no line said how the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndOfInput {
    /// The input was cut: the run failed.
    #[default]
    Cut,
    /// The run is over. Only for bare `AgentResponseUpdate` lines, which have no end mark of their own, from a
    /// source that is known to fail loudly.
    Finished,
}

/// What the numbers of lines (`seq`) count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numbering {
    /// All lines of a conversation. A forwarder that reconnects may send any of them again, also after the end of
    /// a run: they are dropped.
    #[default]
    Conversation,
    /// The lines of one run: a new run starts at 0 again. For recordings that are read one after the other; a line
    /// 0 that is sent again after the end of a run would start it anew.
    Run,
}

/// How much a decoder may hold. What is only remembered is forgotten oldest first, with the consequence named here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one line. An `executor_completed` line repeats the whole conversation, so lines grow with it;
    /// 16 MiB is a long conversation with inline images.
    pub line_bytes: usize,
    /// Lines held back because an earlier one has not arrived yet. A reconnecting forwarder re-sends what was in
    /// flight, which is far less; past it the missing lines are told as lost.
    pub held_lines: usize,
    /// Bytes of the lines held back, which are not copied but keep their buffers alive.
    pub held_bytes: usize,
    /// Text of one turn of an agent of the older packages, which is held to be compared with the event that ends
    /// it. A longer turn is told all the same; only what its end says differently is then not noticed.
    pub turn_bytes: usize,
    /// Messages remembered per run, to know what an aggregator repeats. One that repeats an older message is
    /// shown again.
    pub remembered_messages: usize,
    /// Executors and authors per run. Past it an author speaks in the lane of its executor, and an executor in
    /// the lane of the run.
    pub sources: usize,
    /// Requests that wait for a reply, over all runs of the conversation. Past it the oldest can no longer be
    /// answered.
    pub pending_requests: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes: 16 << 20,
            held_lines: 64,
            held_bytes: 32 << 20,
            turn_bytes: 1 << 20,
            remembered_messages: 4096,
            sources: 1024,
            pending_requests: 256,
        }
    }
}
