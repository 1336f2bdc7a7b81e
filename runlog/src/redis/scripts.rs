//! The scripts that change a run, each atomic on the server. They use commands of Redis 6.2 only.
//!
//! Every script may be executed twice for one call, because a caller whose connection broke cannot
//! know whether the command or its answer was lost. Each detects the repetition: `open` and
//! `take_over` by a nonce, `append` by the numbers of its events, `annotate` by an equal value,
//! `control` by a nonce before the message; the others have the same effect twice.
//!
//! All keys of one call belong to one run and share a hash tag, so that a cluster executes the call
//! on one node. `append` is the exception: it takes several runs, but not on a cluster
//! (`group.rs`).
//!
//! The answer of a script is a list with a word first (`ok`, `fenced`, `closed`, …), which
//! `reply.rs` decodes.

use ::redis::Script;

/// The scripts with their hashes, computed once: a call sends the hash, and loads the script only
/// if the server does not know it.
#[derive(Debug)]
pub(super) struct Scripts {
    /// Creates the hash of a run with epoch 1.
    pub(super) open: Script,
    /// Increments the epoch of a lapsed lease, adds the fence to the stream, and publishes the epoch.
    pub(super) take_over: Script,
    /// Extends a lease. Reports if less than half of the expiry of the keys is left.
    pub(super) renew: Script,
    /// Checks epoch, numbers and limits of one or several runs, adds the events, and publishes them.
    pub(super) append: Script,
    /// Reads events after a number, skipping the fences.
    pub(super) read: Script,
    /// Adds a message to the owner, within the limit, and publishes their number.
    pub(super) control: Script,
    /// Reads the messages after a number, if the lease is still held.
    pub(super) controls: Script,
    /// Removes events below a number; the last one stays.
    pub(super) trim: Script,
    /// Stores the latest time until which a watcher of any replica was reported.
    pub(super) watched: Script,
    /// Stores a note in the hash of the run, within the limit in bytes.
    pub(super) annotate: Script,
    /// Removes a member of a list whose score is below a limit.
    pub(super) unlist: Script,
    /// Claims, extends or releases a key.
    pub(super) claim: Script,
    /// Records a heartbeat by the clock of the server, and returns silent replicas.
    pub(super) beat: Script,
}

impl Default for Scripts {
    fn default() -> Self {
        Self {
            open: Script::new(include_str!("scripts/open.lua")),
            take_over: Script::new(include_str!("scripts/take_over.lua")),
            renew: Script::new(include_str!("scripts/renew.lua")),
            append: Script::new(include_str!("scripts/append.lua")),
            read: Script::new(include_str!("scripts/read.lua")),
            control: Script::new(include_str!("scripts/control.lua")),
            controls: Script::new(include_str!("scripts/controls.lua")),
            trim: Script::new(include_str!("scripts/trim.lua")),
            watched: Script::new(include_str!("scripts/watched.lua")),
            annotate: Script::new(include_str!("scripts/annotate.lua")),
            unlist: Script::new(include_str!("scripts/unlist.lua")),
            claim: Script::new(include_str!("scripts/claim.lua")),
            beat: Script::new(include_str!("scripts/beat.lua")),
        }
    }
}
