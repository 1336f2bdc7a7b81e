//! Limits and timeouts, each with its reason. Nothing else in this crate holds a number that one could want to change.

#[cfg(feature = "client")]
pub use client::{ClientConfig, ClientLimits, ClientTimeouts};
#[cfg(feature = "server")]
pub use server::{Limits, ServerConfig, Timeouts};

#[cfg(feature = "server")]
mod server {
    use std::time::Duration;

    use crate::convert::JsonDepth;

    /// Everything a [`Server`](crate::Server) can be told.
    #[derive(Debug, Clone)]
    pub struct ServerConfig {
        /// How much.
        pub limits: Limits,
        /// How long.
        pub timeouts: Timeouts,
        /// Whether `grpc.health.v1.Health` answers. Load balancers and container platforms ask it.
        pub health: bool,
        /// Whether `grpc.reflection.v1.ServerReflection` (and its older `v1alpha`) tells what services there are.
        /// The .proto file is public, so there is nothing to hide; `grpcurl` needs it.
        pub reflection: bool,
        /// Certificates; without them the server speaks plain text.
        #[cfg(feature = "tls")]
        pub tls: Option<crate::tls::ServerTls>,
    }

    impl Default for ServerConfig {
        fn default() -> Self {
            Self {
                limits: Limits::default(),
                timeouts: Timeouts::default(),
                health: true,
                reflection: true,
                #[cfg(feature = "tls")]
                tls: None,
            }
        }
    }

    /// How much a peer can make a [`Server`](crate::Server) hold.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Limits {
        /// Connections open at once. At the limit the server stops accepting and new ones wait in the kernel's queue,
        /// so a flood costs no memory here. Keep it below the limit of open files.
        pub connections: usize,
        /// Calls open at once in a connection. A client that needs more opens another connection; a flood would not.
        pub streams_per_connection: u32,
        /// Bytes of a call's metadata. Tokens fit; a bomb of headers does not.
        pub header_bytes: u32,
        /// Bytes of one request message, a history or a payload. Told to the peer as `OUT_OF_RANGE` when passed.
        pub request_bytes: usize,
        /// Levels of JSON in a request: deeper text costs stack in whoever reads it next.
        pub json_depth: JsonDepth,
        /// Events that are ready at the same moment go out in one message, up to this many. Paced traffic is system
        /// calls and wake-ups, so fewer and larger messages win; beyond this nothing more is gained.
        pub events_per_message: usize,
        /// About how many bytes of events go out in one message. A single larger event goes alone. Clients refuse
        /// messages above 4 MiB unless told otherwise.
        pub message_bytes: usize,
        /// Bytes of text that deltas of one block are merged into while they wait for a reader that is behind: one for
        /// whom more waits than a message holds. No byte is lost, and the number is that of the last. 0 for never,
        /// which readers need that count events; 4 KiB is much for a network and little for an eye.
        pub merge_bytes: usize,
        /// Payloads that a publisher may have on the way without acknowledgement: enough to cover a round trip of
        /// 100 ms at 600 payloads a second.
        pub window_payloads: u32,
        /// Bytes that wait to be sent per call. With one message more it is all that a reader that stalls costs.
        pub stream_send_bytes: usize,
        /// Bytes that a peer may send per call before the service has read them: what a publisher that runs ahead
        /// costs. At least 64 KiB, or HTTP/2's first flight is cut in two.
        pub stream_receive_bytes: u32,
        /// The same for all calls of a connection together.
        pub connection_receive_bytes: u32,
        /// The kernel's send buffer per connection (`SO_SNDBUF`; Linux doubles it). Left alone it grows to megabytes for
        /// a reader that stalls: measured 1.44 MB without and 54 KB with 32 KiB.
        pub send_buffer_bytes: usize,
        /// Calls that a peer reset before they were handled, after which it is cut off (rapid reset).
        pub pending_resets: usize,
        /// Calls that the server had to reset because of a peer's errors, after which it is cut off.
        pub error_resets: usize,
    }

    impl Default for Limits {
        fn default() -> Self {
            Self {
                connections: 16_384,
                streams_per_connection: 100,
                header_bytes: 16 * 1024,
                request_bytes: 1024 * 1024,
                json_depth: JsonDepth(64),
                events_per_message: 64,
                message_bytes: 16 * 1024,
                merge_bytes: 0,
                window_payloads: 64,
                stream_send_bytes: 32 * 1024,
                stream_receive_bytes: 64 * 1024,
                connection_receive_bytes: 1024 * 1024,
                send_buffer_bytes: 32 * 1024,
                pending_resets: 20,
                error_resets: 64,
            }
        }
    }

    /// How long a [`Server`](crate::Server) waits for a peer.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Timeouts {
        /// For the TLS handshake and the first bytes of HTTP/2, each. They come in one go; whoever needs longer holds
        /// the connection on purpose.
        pub handshake: Duration,
        /// For a whole request message, counted from the call's metadata; for `Publish` its first message.
        pub request: Duration,
        /// Without a message that the peer took, while there are messages for it. Such a reader is gone or will
        /// resume with `Watch`.
        pub write_stall: Duration,
        /// After this long without an event an empty message is sent, so that proxies do not take the stream for
        /// dead: HTTP/2 pings do not count there, and many cut at 60 s. None for no such messages.
        pub heartbeat: Option<Duration>,
        /// Between HTTP/2 pings, which find peers that vanished without a word, and keep address translators awake.
        pub ping: Duration,
        /// For the answer to a ping.
        pub pong: Duration,
        /// For open calls to end by themselves after a shutdown was asked for. Then streams end with `UNAVAILABLE`
        /// and can be resumed elsewhere. Container platforms kill after 30 s.
        pub drain: Duration,
        /// For connections to close after that; then they are cut.
        pub close: Duration,
        /// When a caller that was refused as busy or unavailable may come back: sent as `google.rpc.RetryInfo`.
        pub retry_after: Duration,
    }

    impl Default for Timeouts {
        fn default() -> Self {
            Self {
                handshake: Duration::from_secs(10),
                request: Duration::from_secs(30),
                write_stall: Duration::from_secs(30),
                heartbeat: Some(Duration::from_secs(30)),
                ping: Duration::from_secs(20),
                pong: Duration::from_secs(20),
                drain: Duration::from_secs(20),
                close: Duration::from_secs(2),
                retry_after: Duration::from_secs(1),
            }
        }
    }
}

#[cfg(feature = "client")]
mod client {
    use std::time::Duration;

    /// Everything a [`Client`](crate::Client) can be told.
    #[derive(Debug, Clone, Default)]
    pub struct ClientConfig {
        /// How much.
        pub limits: ClientLimits,
        /// How long.
        pub timeouts: ClientTimeouts,
        /// The bearer token sent with every call. Not shown in logs.
        pub token: Option<crate::client::Token>,
        /// Whom to trust and who we are, for addresses that start with `https`.
        #[cfg(feature = "tls")]
        pub tls: crate::tls::ClientTls,
    }

    /// How much a service can make a [`Client`](crate::Client) hold.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ClientLimits {
        /// Bytes of one message. A tool result can be large; the usual 4 MiB of gRPC would cut the stream.
        pub message_bytes: usize,
        /// Bytes that may wait unread per call. Small, so that back-pressure reaches the service soon.
        pub stream_receive_bytes: u32,
        /// The same for all calls of the connection together.
        pub connection_receive_bytes: u32,
        /// Payloads that a [`Publisher`](crate::Publisher) keeps for resending, if the service would allow more.
        pub window_payloads: u32,
    }

    impl Default for ClientLimits {
        fn default() -> Self {
            Self {
                message_bytes: 16 * 1024 * 1024,
                stream_receive_bytes: 64 * 1024,
                connection_receive_bytes: 1024 * 1024,
                window_payloads: 1024,
            }
        }
    }

    /// How long a [`Client`](crate::Client) waits for a service.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ClientTimeouts {
        /// For the connection, TLS included. A healthy network answers in milliseconds; two lost packets take 3 s.
        pub connect: Duration,
        /// For the answer to `ListAgents` and `Cancel`; also told to the service as the call's deadline.
        pub call: Duration,
        /// For a stream to open; a stream that is open has no deadline.
        pub open: Duration,
        /// Between HTTP/2 pings, which find a service that vanished without a word.
        pub ping: Duration,
        /// For the answer to a ping.
        pub pong: Duration,
    }

    impl Default for ClientTimeouts {
        fn default() -> Self {
            Self {
                connect: Duration::from_secs(5),
                call: Duration::from_secs(30),
                open: Duration::from_secs(60),
                ping: Duration::from_secs(20),
                pong: Duration::from_secs(20),
            }
        }
    }
}
