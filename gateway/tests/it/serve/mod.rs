//! The gateway on real sockets, with scripted upstreams.

mod a2a;
mod a2a_server;
mod faults;
mod grpc;
mod runs;
mod sockets;
mod support;
mod walls;
