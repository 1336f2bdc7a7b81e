//! The gateway on real sockets, with scripted upstreams.

mod a2a;
mod a2a_grpc;
mod a2a_server;
mod agui_cuts;
mod crossings;
mod faults;
mod grpc;
mod inspector;
mod kept;
mod left;
mod oidc;
mod owners;
mod principals;
mod probes;
mod proxied;
mod published;
mod replicas;
mod replies;
mod runs;
mod sockets;
pub(crate) mod support;
mod taken_up;
mod task_server;
mod tee;
mod threads;
mod walls;
