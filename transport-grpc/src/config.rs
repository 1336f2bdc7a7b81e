//! Limits and timeouts, each with its reason. Nothing else in this crate holds a number that one could want to change.

#[cfg(feature = "client")]
pub use client::{ClientConfig, ClientLimits, ClientTimeouts};
#[cfg(feature = "server")]
pub use server::{Config, Limits, Timeouts};

#[cfg(feature = "server")]
mod server {
    use std::time::Duration;

    use crate::convert::JsonDepth;

    /// The settings of [`Services`](crate::Services).
    #[derive(Debug, Clone)]
    pub struct Config {
        /// How much.
        pub limits: Limits,
        /// How long.
        pub timeouts: Timeouts,
        /// Whether `grpc.health.v1.Health` answers. Load balancers and container platforms ask it.
        pub health: bool,
        /// Whether `grpc.reflection.v1.ServerReflection` (and its older `v1alpha`) tells what services there are.
        /// The .proto file is public, so there is nothing to hide; `grpcurl` needs it.
        pub reflection: bool,
    }

    impl Default for Config {
        fn default() -> Self {
            Self { limits: Limits::default(), timeouts: Timeouts::default(), health: true, reflection: true }
        }
    }

    /// How much a call can make [`Services`](crate::Services) hold. The limits of connections and of HTTP/2 are the
    /// server's.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Limits {
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
    }

    impl Default for Limits {
        fn default() -> Self {
            Self {
                request_bytes: 1024 * 1024,
                json_depth: JsonDepth(64),
                events_per_message: 64,
                message_bytes: 16 * 1024,
                merge_bytes: 0,
                window_payloads: 64,
            }
        }
    }

    /// How long [`Services`](crate::Services) wait for a peer.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Timeouts {
        /// For a whole request message, counted from the call's metadata; for `Publish` its first message.
        pub request: Duration,
        /// Without a message that the peer took, while there are messages for it. Such a reader is gone or will
        /// resume with `Watch`.
        pub write_stall: Duration,
        /// After this long without an event an empty message is sent, so that proxies do not take the stream for
        /// dead: HTTP/2 pings do not count there, and many cut at 60 s. None for no such messages.
        pub heartbeat: Option<Duration>,
        /// When a caller that was refused as busy or unavailable may come back: sent as `google.rpc.RetryInfo`.
        pub retry_after: Duration,
    }

    impl Default for Timeouts {
        fn default() -> Self {
            Self {
                request: Duration::from_secs(30),
                write_stall: Duration::from_secs(30),
                heartbeat: Some(Duration::from_secs(30)),
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
