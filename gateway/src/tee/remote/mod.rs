//! Lanes of a run that another gateway drives.
//!
//! ```text
//!            carrier: has the call                                    owner: drives the run
//!   call ──► a side run in the shared log, and a message to the owner ──► does the clue lead to an agent of the run?
//!        ◄──────────────── granted, with the token of the lane ◄───────── a lane, fed from the side run
//!   answer ──► pieces, as they came ──► side run ───────────────────────► tap ──► run
//!   (after that) the supervisor gets it
//!        ◄──────────────── cancel (the run was stopped), or over ◄─────── end of the run
//! ```
//!
//! The owner reads the answer exactly as it reads one that it carries itself, so a task may be sent by one gateway and
//! looked at by another. What a carrier appended before the supervisor had it is shown before anything that the
//! supervisor says next: the owner looks at its side runs first ([`RemoteCalls::catch_up`]).
//!
//! A carrier that dies lets the lease of its side run lapse; whoever ends the run ends the lane, as failed. An owner that
//! does not answer, or refuses, has no lane: the call passes all the same.

mod carry;
mod follow;
mod words;

pub(crate) use carry::RemoteLane;
pub(crate) use follow::{RemoteCalls, take_message};
