//! The server without sockets: methods, streams, refusals, limits.

mod callbacks;
mod methods;
mod refusals;
mod streams;
mod support;
