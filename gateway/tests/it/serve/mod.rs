//! The gateway on real sockets, with scripted upstreams.

mod a2a;
mod faults;
mod grpc;
mod inspector;
mod replies;
mod runs;
mod sockets;
pub(crate) mod support;
mod tee;
mod walls;
