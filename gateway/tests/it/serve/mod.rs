//! The gateway on real sockets, with scripted upstreams.

mod a2a;
mod faults;
mod runs;
mod support;
mod walls;
