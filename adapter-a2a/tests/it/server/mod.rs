//! The server without sockets: methods, streams, refusals, limits.

mod callbacks;
mod grpc;
mod methods;
mod plain;
mod refusals;
mod streams;
mod support;
