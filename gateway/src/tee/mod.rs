//! The supervisor tee: shows the streams of sub-agents that a supervisor calls inside the run of the supervisor.
//!
//! ```text
//! frontend ──AG-UI──► gateway ──run, with a token──► supervisor
//!    ▲                   │                               │ calls its sub-agents at `/a2a/{name}`, with the token
//!    │                   │  proxy ◄──────────────────────┘
//!    │                   ├────────── bytes, unchanged ──────────► sub-agent, with a token of its own lane
//!    │                   │◄───────── bytes, unchanged ───────────┘
//!    └── lanes ◄── tap ──┘ (a copy of each frame)
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`relation`], [`token`] | relation keys: values of a call that may identify its run |
//! | [`relate`], [`index`] | the run that a call is related to, here or at another replica |
//! | [`run_context`] | values that an agent receives so that its own calls can be related |
//! | [`call`] | the description of a call for its lane |
//! | [`tap`] | decodes the response of one call into events of a lane; no IO |
//! | [`lane`] | the lane of a call: sends events to the run, cancels the task |
//! | [`remote`] | the same for a run that another replica drives |
//! | [`run`] | the state of the tee for a run that is driven here: an extension of the run |
//! | [`tapped`] | a local or remote lane, for the relay of the call |
//! | [`calls`] | attributes lanes to tool calls of the supervisor |
//!
//! Invariants: the supervisor receives the bytes that the sub-agent sent, whatever happens to the copy; the events of a
//! lane reach the run before the supervisor receives the bytes, so a run never ends before the events that led to its
//! end; a lane is intermediate work and neither answers, fails nor interrupts the run; an event that cannot be shown is
//! counted.

pub(crate) mod call;
pub(crate) mod calls;
mod index;
pub(crate) mod lane;
pub(crate) mod relate;
pub(crate) mod relation;
pub(crate) mod remote;
pub(crate) mod run;
pub(crate) mod run_context;
pub(crate) mod tap;
mod tapped;
mod token;

pub(crate) use relate::{Requester, Tee};
pub(crate) use run::TeeRun;
pub(crate) use run_context::RunContext;
pub(crate) use tap::Step;
pub(crate) use tapped::Tapped;
