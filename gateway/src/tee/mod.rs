//! The supervisor tee: what sub-agents say while a supervisor calls them, inside the run that the supervisor serves.
//!
//! ```text
//! frontend ──AG-UI──► gateway ──run, with a token──► supervisor
//!    ▲                   │                               │ calls its sub-agents at `/a2a/{name}`, with the token
//!    │                   │  proxy ◄──────────────────────┘
//!    │                   ├────────── bytes as they are ─────────► sub-agent, with a token of its own lane
//!    │                   │◄───────── bytes as they are ──────────┘
//!    └── lanes ◄── tap ──┘ (a copy of each frame)
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`clue`], [`token`] | what a call carries that may lead to its run |
//! | [`relate`], [`index`] | which run a call belongs to, here or at another gateway |
//! | [`trail`] | what an agent is handed so that its own calls can be related |
//! | [`call`] | what a lane is told of its call |
//! | [`tap`] | one call's answer as events of a lane; no IO |
//! | [`lane`] | a tapped call: its events to the run, its task to be cancelled |
//! | [`remote`] | the same for a run that another gateway drives |
//! | [`run`] | what the tee keeps of a run that is driven here: an extension of the run |
//! | [`tapped`] | either of the two, for whoever carries the call |
//! | [`calls`] | which tool call of the supervisor a lane belongs to |
//!
//! Invariants: the supervisor gets the bytes that the sub-agent sent, whatever becomes of the copy; what a lane says
//! reaches the run before the supervisor gets it, so a run never ends before what led to its end; a lane is
//! intermediate work, it neither answers nor fails nor interrupts the run; an event that cannot be shown is counted.

pub(crate) mod call;
pub(crate) mod calls;
pub(crate) mod clue;
mod index;
pub(crate) mod lane;
pub(crate) mod relate;
pub(crate) mod remote;
pub(crate) mod run;
pub(crate) mod tap;
mod tapped;
mod token;
pub(crate) mod trail;

pub(crate) use relate::{Requester, Tee};
pub(crate) use run::TeeRun;
pub(crate) use tapped::Tapped;
pub(crate) use trail::Trail;
