//! The transport over loopback sockets: what peers see, good and bad ones, and what is left when they are gone.

mod bad_peers;
mod client;
mod driver;
mod endpoint;
mod http2;
mod readers;
mod shutdown;
mod support;
mod tls;
