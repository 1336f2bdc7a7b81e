//! Limits and timeouts, each with its reason. No other module of this crate has an adjustable number.

use std::time::Duration;

#[cfg(feature = "server")]
pub use server::{Limits, ServerConfig, StreamOptions, Timeouts};

#[cfg(feature = "client")]
pub use client::{ClientConfig, ClientLimits, ClientTimeouts};

/// The versions of HTTP that a client or a server uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpVersions {
    /// A client uses HTTP/1.1 over plain text, and over TLS the version that the upstream prefers. A server uses both on one
    /// port.
    #[default]
    Negotiated,
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 only, over plain text with prior knowledge. A server answers other protocols with 505.
    Http2,
}

#[cfg(feature = "server")]
mod server {
    use super::{Duration, HttpVersions};

    /// The configuration of a [`Server`](crate::Server).
    #[derive(Debug, Clone, Default)]
    pub struct ServerConfig {
        /// Limits of size and number.
        pub limits: Limits,
        /// Limits of time.
        pub timeouts: Timeouts,
        /// The versions of HTTP.
        pub versions: HttpVersions,
        /// The certificates; without them the server uses plain text.
        #[cfg(feature = "tls")]
        pub tls: Option<crate::tls::ServerTls>,
    }

    impl ServerConfig {
        /// Returns the configuration of a port for HTTP/2 alone, as gRPC uses it: small receive windows, because a
        /// publisher that runs ahead fills them, and a send buffer that takes two messages of events.
        pub fn http2_only() -> Self {
            let limits =
                Limits { stream_send_bytes: 32 * 1024, stream_receive_bytes: 64 * 1024, ..Limits::default() };
            Self { limits, versions: HttpVersions::Http2, ..Self::default() }
        }
    }

    aqueduct_core::with_defaults! {
        /// Limits of the memory that peers can occupy in a [`Server`](crate::Server).
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Limits {
            /// Connections open at once. At the limit the server stops accepting and new ones wait in the kernel's queue,
            /// so a flood costs no memory here. Keep it below the limit of open files.
            pub connections: usize = 16_384,
            /// Bytes of a request's head. Also the write buffer of an HTTP/1.1 connection, which is why it is small: a
            /// reader that stalls costs at most this and one chunk of [`StreamOptions::chunk_bytes`]. At least 8 KiB.
            pub header_bytes: usize = 16 * 1024,
            /// Bytes of a request's body, unless a route sets its own limit. Long histories fit.
            pub body_bytes: usize = 1024 * 1024,
            /// The kernel's send buffer per connection (`SO_SNDBUF`; Linux doubles it). Left alone it grows to megabytes
            /// for a reader that stalls: measured 1.44 MB without and 54 KB with 32 KiB.
            pub send_buffer_bytes: usize = 32 * 1024,
            /// HTTP/2 streams open at once in a connection. Browsers and proxies open no more.
            pub streams_per_connection: u32 = 100,
            /// HTTP/2 bytes waiting to be sent per stream: the counterpart of the write buffer of HTTP/1.1.
            pub stream_send_bytes: usize = 16 * 1024,
            /// HTTP/2 bytes that a peer may send per stream before the service has read them. At least 64 KiB, otherwise
            /// the first flight of HTTP/2 is split.
            pub stream_receive_bytes: u32 = 1024 * 1024,
            /// The same for all streams of a connection together.
            pub connection_receive_bytes: u32 = 1024 * 1024,
            /// HTTP/2 streams that a peer reset before they were handled, after which the connection is closed (rapid
            /// reset).
            pub pending_resets: usize = 20,
            /// HTTP/2 streams that the server reset because of a peer's errors, after which the connection is closed.
            pub error_resets: usize = 64,
        }

        /// Limits of the time that a [`Server`](crate::Server) waits for a peer.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Timeouts {
            /// From the first byte of a request to the end of its head, and for the first request of a connection. A head
            /// is sent at once, so a slow one is an attack.
            pub header: Duration = Duration::from_secs(10),
            /// For the whole body of a request, counted from its head.
            pub body: Duration = Duration::from_secs(30),
            /// Between requests of a connection. Longer than proxies keep their own side open, so that they do not send a
            /// request on a closing connection.
            pub idle: Duration = Duration::from_secs(75),
            /// Without progress of a write while bytes wait. Such a reader is gone or will resume.
            pub write_stall: Duration = Duration::from_secs(30),
            /// For a TLS handshake, and for the preface on a port of HTTP/2 alone.
            pub handshake: Duration = Duration::from_secs(10),
            /// Between HTTP/2 pings, which detect peers that vanished.
            pub ping: Duration = Duration::from_secs(20),
            /// For the answer to a ping.
            pub pong: Duration = Duration::from_secs(20),
            /// For open streams to end by themselves after the start of a shutdown. Container platforms kill after 30 s.
            pub drain: Duration = Duration::from_secs(20),
            /// For connections to close after `drain`, once streams were asked to end ([`Stopping`](crate::Stopping));
            /// then they are cut. Also for the rest of a request body that no route reads, after its response (HTTP/2).
            pub close: Duration = Duration::from_secs(2),
        }

        /// How a stream of events is written.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct StreamOptions {
            /// Events that are ready at the same time are sent in one chunk of about this many bytes. The cost of paced
            /// traffic is system calls and wake-ups, so fewer and larger writes are cheaper; above 16 KiB there is no
            /// further gain.
            pub chunk_bytes: usize = 16 * 1024,
            /// Bytes of text up to which deltas of one block are merged while they wait for a slow reader: one with more
            /// than a chunk waiting. No byte is lost, and ids stay exact. 0 disables it, for readers that count events; 4
            /// KiB is much for a network and little for a human.
            pub merge_bytes: usize = 0,
            /// After this time without an event a comment is sent, so that proxies keep the stream open. Many close it
            /// after 30 or 60 s. `None` for no comments. Binary streams have none.
            pub keep_alive: Option<Duration> = Some(Duration::from_secs(15)),
            /// Writes `id: <run>.<number>.<k>` with each payload, and an event at the start that makes even an empty stream
            /// resumable. Off for readers that cannot resume. See [`EventPosition`](crate::EventPosition).
            pub ids: bool = false,
            /// The time after which a reader that lost the stream reconnects; sent at the start if ids are on.
            pub retry: Duration = Duration::from_secs(1),
        }
    }

    impl StreamOptions {
        /// Returns the options of one request: `merge=false` in its query keeps every event apart, for readers that count
        /// them.
        #[must_use]
        pub fn for_query(&self, query: Option<&str>) -> Self {
            let is_apart = query.is_some_and(|query| query.split('&').any(|pair| pair == "merge=false"));
            Self { merge_bytes: if is_apart { 0 } else { self.merge_bytes }, ..self.clone() }
        }
    }
}

#[cfg(feature = "client")]
mod client {
    use super::{Duration, HttpVersions};
    use crate::sse::DecodeLimits;

    /// The configuration of a [`Client`](crate::Client).
    #[derive(Debug, Clone, Default)]
    pub struct ClientConfig {
        /// Limits of size and number.
        pub limits: ClientLimits,
        /// Limits of time.
        pub timeouts: ClientTimeouts,
        /// The versions of HTTP.
        pub versions: HttpVersions,
        /// The address to connect to, instead of the result of name resolution: for a caller that has checked the address and
        /// must not be redirected to another. Certificates are still checked for the name.
        pub pinned: Option<std::net::IpAddr>,
        /// Watches every call: limits, retries of connects, measurements.
        pub watch: Option<std::sync::Arc<dyn crate::CallWatch>>,
        /// Opens connections in place of sockets and TLS.
        pub dial: Option<std::sync::Arc<dyn crate::Dial>>,
        /// The trusted authorities, and the identity of the client.
        #[cfg(feature = "tls")]
        pub tls: crate::tls::ClientTls,
    }

    aqueduct_core::with_defaults! {
        /// Limits of the memory that an upstream can occupy in a [`Client`](crate::Client).
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct ClientLimits {
            /// Bytes of a response that is read whole: JSON answers, cards, errors.
            pub body_bytes: usize = 10 * 1024 * 1024,
            /// Bytes of a response's head, and of the read buffer of an HTTP/1.1 connection. At least 8 KiB.
            pub header_bytes: usize = 64 * 1024,
            /// Lines and events of an event stream.
            pub events: DecodeLimits,
            /// Idle connections kept per upstream.
            pub idle_connections: usize = 32,
        }

        /// Limits of the time that a [`Client`](crate::Client) waits for an upstream.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct ClientTimeouts {
            /// For the address lookup, the connection and the TLS handshake together. A healthy network answers in
            /// milliseconds; two lost packets take 3 s.
            pub connect: Duration = Duration::from_secs(5),
            /// From the request to the head of the response, including the connection. A blocking call to an agent
            /// returns when the agent has finished, hence minutes.
            pub response: Duration = Duration::from_secs(300),
            /// Without a byte of a stream. Agents may be silent for minutes, and not all send keep-alives.
            pub idle: Duration = Duration::from_secs(300),
            /// For the whole body of a response that is read whole, after its head.
            pub body: Duration = Duration::from_secs(30),
            /// The time for which an unused connection is kept.
            pub keep: Duration = Duration::from_secs(60),
        }
    }
}
