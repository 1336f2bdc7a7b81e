//! [`Planted`]: faults that a test puts into a world, each of which the checker must find.

/// A fault that is put into a world on purpose, to show that the checker finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Planted {
    /// An owner that was taken over can still append.
    SkipFence,
    /// The agent of a run that has ended receives no cancel.
    DropGoodbye,
    /// The first event of a new owner gets the number of the last one of the old owner.
    ReuseNumber,
    /// A reply is acknowledged and thrown away.
    LoseReply,
    /// An append whose acknowledgement was lost is stored once more when it is tried again.
    AppendTwice,
    /// On Redis, events are stored although the log has lost those before them.
    AcceptGap,
    /// Every caller is the same principal.
    ShareRuns,
    /// A watcher that comes back over server-sent events is taken for one that has seen one event more.
    ResumeLate,
    /// The first request of a watcher that comes back over server-sent events panics. The watcher comes once more.
    PanicOnce,
}
