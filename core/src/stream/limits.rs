//! The limits of a [`StreamContext`](super::StreamContext), each with its reason.

/// Limits of the open and remembered state of one run. Exceeding a limit of open state is an error of the source
/// ([`Error::LimitExceeded`](crate::Error::LimitExceeded)); remembered state is dropped oldest first, with the consequence
/// named at the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Lanes open at once. A thousand parallel sub-agents is far beyond any frontend; each costs about 1 KiB.
    pub open_lanes: usize,
    /// Nesting of lanes. Deeper than this is a loop of agents that call each other.
    pub lane_depth: usize,
    /// Text, thinking and tool use blocks open at once in one lane (tracks and parallel tool calls), including calls whose
    /// name is not known yet.
    pub open_blocks: usize,
    /// Steps open at once in one lane.
    pub open_steps: usize,
    /// Bytes held per block: its ids and names, and the arguments of a tool call whose name is not known yet. The text of
    /// a block is never held.
    pub bytes_per_block: usize,
    /// Ended blocks, answered tool calls and ended calls without result, remembered per lane. An aggregate that repeats an
    /// older block is shown again; a late result of an older call is emitted with a substitute call.
    pub remembered_blocks: usize,
    /// Closed lanes remembered. An aggregate that repeats a block of an older lane is shown again.
    pub remembered_lanes: usize,
    /// Interrupts open at once.
    pub interrupts: usize,
    /// Providers and models whose usage is summed.
    pub usage_accounts: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            open_lanes: 1024,
            lane_depth: 32,
            open_blocks: 256,
            open_steps: 256,
            bytes_per_block: 64 * 1024,
            remembered_blocks: 1024,
            remembered_lanes: 1024,
            interrupts: 256,
            usage_accounts: 64,
        }
    }
}
