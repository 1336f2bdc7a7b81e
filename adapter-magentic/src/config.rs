//! The settings of a decoder, and its limits.

/// Settings of a [`Decoder`](crate::Decoder). The defaults suit a forwarder that writes the documented lines.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Config {
    /// The meaning of the end of the input if no line reported the end of the run.
    pub end_of_input: EndOfInput,
    /// The scope of line numbers.
    pub numbering: Numbering,
    /// The limits of held state.
    pub limits: Limits,
}

/// The meaning of the end of the input if no line reported the end of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EndOfInput {
    /// The input was cut: the run failed.
    #[default]
    Cut,
    /// The run has finished. Only for bare `AgentResponseUpdate` lines, which have no end marker, from a source that is
    /// known to report failures.
    Finished,
}

/// The scope of line numbers (`seq`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numbering {
    /// All lines of a conversation. A forwarder that reconnects may repeat any of them, also after the end of a run: they are
    /// dropped.
    #[default]
    Conversation,
    /// The lines of one run: a new run starts at 0 again. For recordings that are read one after the other; a repeated line 0
    /// after the end of a run would start it again.
    Run,
}

aqueduct_core::with_defaults! {
    /// Limits of a decoder's state. Remembered state is dropped oldest first, with the consequence named at the field.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Limits {
        /// Bytes of one line. An `executor_completed` line repeats the whole conversation, so lines grow with it;
        /// 16 MiB is a long conversation with inline images.
        pub line_bytes: usize = 16 << 20,
        /// Lines held because an earlier one has not arrived yet. A forwarder that reconnects repeats the lines in
        /// flight, which are far fewer; beyond the limit the missing lines are reported as lost.
        pub held_lines: usize = 64,
        /// Bytes of the held lines, which are not copied but keep their buffers alive.
        pub held_bytes: usize = 32 << 20,
        /// Text of one turn of an agent of the older packages, held for the comparison with the event that ends it. A
        /// longer turn is still emitted; only a difference at its end is not detected.
        pub turn_bytes: usize = 1 << 20,
        /// Messages remembered per run, to detect repetitions by an aggregator. A repetition of an older message is emitted
        /// again.
        pub remembered_messages: usize = 4096,
        /// Executors and authors per run. Beyond it an author shares the lane of its executor, and an executor that of
        /// the run.
        pub sources: usize = 1024,
        /// Requests that wait for a reply, over all runs of the conversation. Beyond it the oldest can no longer be
        /// replied to.
        pub pending_requests: usize = 256,
    }
}
