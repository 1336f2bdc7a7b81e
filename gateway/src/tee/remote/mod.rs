//! Lanes of a run that another replica drives.
//!
//! ```text
//!            carrier: forwards the call                               owner: drives the run
//!   call ──► a side run in the shared log, and a message to the owner ──► does the key identify an agent of the run?
//!        ◄──────────────── granted, with the token of the lane ◄───────── a lane, fed from the side run
//!   response ──► pieces, unchanged ──► side run ────────────────────────► tap ──► run
//!   (after that) the supervisor receives it
//!        ◄──────────────── cancel (the run was cancelled), or over ◄───── end of the run
//! ```
//!
//! The owner decodes the response exactly like one that it forwards itself, so one replica may send a task and another
//! may read it. The carrier appends a piece before the supervisor receives it, and the owner reads its side runs
//! ([`RemoteCalls::catch_up`]) before further events of the supervisor; so the response is shown before anything that
//! the supervisor derives from it.
//!
//! A carrier that dies lets the lease of its side run lapse; the replica that ends the side run ends the lane, as
//! failed. If the owner does not respond, or refuses, there is no lane, and the call is forwarded all the same.

mod carry;
mod follow;
mod words;

pub(crate) use carry::RemoteLane;
pub(crate) use follow::{RemoteCalls, take_message};
