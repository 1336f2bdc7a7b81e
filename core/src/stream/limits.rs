//! The limits of a [`StreamContext`](super::StreamContext), each with its reason.

/// How much one run may hold open or remembered. Passing a limit is an error of the source
/// ([`StreamError::LimitExceeded`](super::StreamError::LimitExceeded)); what is only *remembered* is forgotten
/// oldest first instead, with the consequence named here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Lanes open at once. A thousand parallel sub-agents is far beyond any frontend; each costs about 1 KiB.
    pub open_lanes: usize,
    /// Nesting of lanes. Deeper than this is a loop of agents that call each other.
    pub lane_depth: usize,
    /// Text, thinking and tool use blocks open at once in one lane (tracks and parallel tool calls), and calls held back
    /// because their name is not known yet.
    pub open_blocks: usize,
    /// Steps open at once in one lane.
    pub open_steps: usize,
    /// Bytes held per block: its ids and names, and the arguments of a tool call whose name is not known yet.
    /// The text of a block is never held.
    pub bytes_per_block: usize,
    /// Ended blocks and answered tool calls remembered per lane, and calls that ended without an answer. An aggregate
    /// that repeats a block older than that is shown again; a late answer to such a call gets a call filled in.
    pub remembered_blocks: usize,
    /// Closed lanes remembered. An aggregate that repeats a block of a lane older than that is shown again.
    pub remembered_lanes: usize,
    /// Interrupts pending at once.
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
