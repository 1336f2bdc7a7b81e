//! A stream that is cut anywhere and resumed is the uncut stream: for every recorded trace, every place in it, on every
//! surface that can resume.
//!
//! The events of a trace are put into a log; a gateway over that log serves them on real sockets. The engine is a
//! parameter, so another engine needs one more line in each test.
//!
//! | test | what is cut |
//! |---|---|
//! | `sse` | the response, after every payload, in either dialect |
//! | `websocket`, `grpc` | the subscription or call on one connection, after every payload |
//! | `a2a` | a subscription to a task, after every event, in every binding |
//! | `live` | the connection itself, after every event of a run that goes on only after the cut |

pub(crate) mod a2a;
pub(crate) mod grpc;
pub(crate) mod live;
mod merged;
pub(crate) mod sse;
mod stage;
mod stalled;
mod traces;
pub(crate) mod websocket;
