//! Limits and timeouts, each with its reason. Nothing else in this crate holds a number that one could want to change.

use std::time::Duration;

#[cfg(feature = "server")]
pub use server::{Limits, ServerConfig, StreamOptions, Timeouts};

#[cfg(feature = "client")]
pub use client::{ClientConfig, ClientLimits, ClientTimeouts};

/// The versions of HTTP that a client or a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HttpVersions {
    /// A client speaks HTTP/1.1 over plain text, and over TLS the version that the upstream prefers. A server speaks
    /// both on one port.
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

    /// Everything a [`Server`](crate::Server) can be told.
    #[derive(Debug, Clone, Default)]
    pub struct ServerConfig {
        /// How much.
        pub limits: Limits,
        /// How long.
        pub timeouts: Timeouts,
        /// The versions of HTTP.
        pub versions: HttpVersions,
        /// Certificates; without them the server speaks plain text.
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

    /// How much a peer can make a [`Server`](crate::Server) hold.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Limits {
        /// Connections open at once. At the limit the server stops accepting and new ones wait in the kernel's queue,
        /// so a flood costs no memory here. Keep it below the limit of open files.
        pub connections: usize,
        /// Bytes of a request's head. Also the write buffer of an HTTP/1.1 connection, which is why it is small: a
        /// reader that stalls costs at most this and one chunk of [`StreamOptions::chunk_bytes`]. At least 8 KiB.
        pub header_bytes: usize,
        /// Bytes of a request's body, unless a route sets its own. Long histories fit; a bomb does not.
        pub body_bytes: usize,
        /// The kernel's send buffer per connection (`SO_SNDBUF`; Linux doubles it). Left alone it grows to megabytes for
        /// a reader that stalls: measured 1.44 MB without and 54 KB with 32 KiB.
        pub send_buffer_bytes: usize,
        /// HTTP/2 streams open at once in a connection: browsers and proxies open no more, a flood would.
        pub streams_per_connection: u32,
        /// HTTP/2 bytes waiting to be sent per stream: the counterpart of the write buffer of HTTP/1.1.
        pub stream_send_bytes: usize,
        /// HTTP/2 bytes that a peer may send per stream before the service has read them. At least 64 KiB, or the first
        /// flight of HTTP/2 is cut in two.
        pub stream_receive_bytes: u32,
        /// The same for all streams of a connection together.
        pub connection_receive_bytes: u32,
        /// HTTP/2 streams that a peer reset before they were handled, after which it is cut off (rapid reset).
        pub pending_resets: usize,
        /// HTTP/2 streams that the server had to reset because of a peer's errors, after which it is cut off.
        pub error_resets: usize,
    }

    impl Default for Limits {
        fn default() -> Self {
            Self {
                connections: 16_384,
                header_bytes: 16 * 1024,
                body_bytes: 1024 * 1024,
                send_buffer_bytes: 32 * 1024,
                streams_per_connection: 100,
                stream_send_bytes: 16 * 1024,
                stream_receive_bytes: 1024 * 1024,
                connection_receive_bytes: 1024 * 1024,
                pending_resets: 20,
                error_resets: 64,
            }
        }
    }

    /// How long a [`Server`](crate::Server) waits for a peer.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Timeouts {
        /// From the first byte of a request to the end of its head, and for the first request of a connection.
        /// A head is sent in one go; whoever needs longer holds the connection on purpose.
        pub header: Duration,
        /// For the whole body of a request, counted from its head.
        pub body: Duration,
        /// Between requests of a connection. Longer than what proxies keep their own side open for, so that they
        /// do not run into a closing connection.
        pub idle: Duration,
        /// Without a byte that the peer took, while there are bytes for it. Such a reader is gone or will resume.
        pub write_stall: Duration,
        /// For a TLS handshake, and for the preface on a port of HTTP/2 alone.
        pub handshake: Duration,
        /// Between HTTP/2 pings, which find peers that vanished without a word.
        pub ping: Duration,
        /// For the answer to a ping.
        pub pong: Duration,
        /// For open streams to end by themselves after a shutdown was asked for. Container platforms kill after 30 s.
        pub drain: Duration,
        /// For connections to close after that, once streams were asked to end ([`Stopping`](crate::Stopping)); then they
        /// are cut. Also for the rest of a request body that no route reads, after its answer (HTTP/2).
        pub close: Duration,
    }

    impl Default for Timeouts {
        fn default() -> Self {
            Self {
                header: Duration::from_secs(10),
                body: Duration::from_secs(30),
                idle: Duration::from_secs(75),
                write_stall: Duration::from_secs(30),
                handshake: Duration::from_secs(10),
                ping: Duration::from_secs(20),
                pong: Duration::from_secs(20),
                drain: Duration::from_secs(20),
                close: Duration::from_secs(2),
            }
        }
    }

    /// How a stream of events is written.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct StreamOptions {
        /// Events that are ready at the same moment go out in one chunk of about this many bytes. Paced traffic is
        /// system calls and wake-ups, so fewer and larger writes win; above 16 KiB nothing more is gained.
        pub chunk_bytes: usize,
        /// Bytes of text that deltas of one block are merged into while they wait for a reader that is behind: one for
        /// whom more waits than a chunk holds. No byte is lost, and ids stay exact. 0 for never, which
        /// readers need that count events; 4 KiB is much for a network and little for an eye.
        pub merge_bytes: usize,
        /// After this long without an event a comment is sent, so that proxies do not take the stream for dead. Many
        /// cut at 30 or 60 s. None for no comments. Binary streams have none.
        pub keep_alive: Option<Duration>,
        /// Writes `id: <run>.<number>.<k>` with each payload, and an event at the start that makes even an empty
        /// stream resumable. Off for readers that cannot come back. See [`EventPosition`](crate::EventPosition).
        pub ids: bool,
        /// When a reader that lost the stream comes back; told at the start, if ids are on.
        pub retry: Duration,
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

    impl Default for StreamOptions {
        fn default() -> Self {
            Self {
                chunk_bytes: 16 * 1024,
                merge_bytes: 0,
                keep_alive: Some(Duration::from_secs(15)),
                ids: false,
                retry: Duration::from_secs(1),
            }
        }
    }
}

#[cfg(feature = "client")]
mod client {
    use super::{Duration, HttpVersions};
    use crate::sse::DecodeLimits;

    /// Everything a [`Client`](crate::Client) can be told.
    #[derive(Debug, Clone, Default)]
    pub struct ClientConfig {
        /// How much.
        pub limits: ClientLimits,
        /// How long.
        pub timeouts: ClientTimeouts,
        /// Which versions of HTTP are spoken.
        pub versions: HttpVersions,
        /// The address to connect to, whatever the name in a URL leads to: for a caller who has looked at the address
        /// and must not be led elsewhere. Certificates are still checked for the name.
        pub pinned: Option<std::net::IpAddr>,
        /// Watches every call: limits, retries of connects, measures. None for none of them.
        pub watch: Option<std::sync::Arc<dyn crate::CallWatch>>,
        /// Whom to trust and who we are.
        #[cfg(feature = "tls")]
        pub tls: crate::tls::ClientTls,
    }

    /// How much an upstream can make a [`Client`](crate::Client) hold.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ClientLimits {
        /// Bytes of a response that is read whole: answers, cards, errors.
        pub body_bytes: usize,
        /// Bytes of a response's head, and of the read buffer of an HTTP/1.1 connection. At least 8 KiB.
        pub header_bytes: usize,
        /// Lines and events of an event stream.
        pub events: DecodeLimits,
        /// Idle connections kept per upstream.
        pub idle_connections: usize,
    }

    impl Default for ClientLimits {
        fn default() -> Self {
            Self {
                body_bytes: 10 * 1024 * 1024,
                header_bytes: 64 * 1024,
                events: DecodeLimits::default(),
                idle_connections: 32,
            }
        }
    }

    /// How long a [`Client`](crate::Client) waits for an upstream.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ClientTimeouts {
        /// For the connection: its address, the connection itself and the TLS handshake together. A healthy network answers
        /// in milliseconds; two lost packets take 3 s.
        pub connect: Duration,
        /// From the request to the head of the response, connecting and handshake included. A blocking call to an
        /// agent answers when the agent is done, hence minutes.
        pub response: Duration,
        /// Without a byte of a stream. Agents may think for minutes, and not all send keep-alives.
        pub idle: Duration,
        /// For the whole body of a response that is read whole, after its head.
        pub body: Duration,
        /// How long an unused connection is kept.
        pub keep: Duration,
    }

    impl Default for ClientTimeouts {
        fn default() -> Self {
            Self {
                connect: Duration::from_secs(5),
                response: Duration::from_secs(300),
                idle: Duration::from_secs(300),
                body: Duration::from_secs(30),
                keep: Duration::from_secs(60),
            }
        }
    }
}
