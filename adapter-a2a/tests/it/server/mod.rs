//! The server without sockets: methods, streams, refusals, limits.

mod callbacks;
mod grpc;
mod methods;
mod refusals;
mod streams;
mod support;
