//! Limits and timeouts, each with its reason. No other module of this crate has an adjustable number.

#[cfg(feature = "client")]
pub use client::{ClientConfig, ClientLimits, ClientTimeouts};
#[cfg(feature = "server")]
pub use server::{Config, Limits, Timeouts};

#[cfg(feature = "server")]
mod server {
    use std::time::Duration;

    use crate::convert::JsonDepth;

    aqueduct_core::with_defaults! {
        /// The settings of [`Services`](crate::Services).
        #[derive(Debug, Clone)]
        pub struct Config {
            /// Limits of size and number.
            pub limits: Limits,
            /// Limits of time.
            pub timeouts: Timeouts,
            /// Set if `grpc.health.v1.Health` is mounted. Load balancers and container platforms use it.
            pub health: bool = true,
            /// Set if `grpc.reflection.v1.ServerReflection` (and its older `v1alpha`) is mounted. The .proto file is
            /// public, and `grpcurl` needs it.
            pub reflection: bool = true,
        }

        /// Limits of the memory that a call can occupy in [`Services`](crate::Services). The limits of connections and of
        /// HTTP/2 belong to the server.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Limits {
            /// Bytes of one request message, a history or a payload. Exceeding it is answered with `OUT_OF_RANGE`.
            pub request_bytes: usize = 1024 * 1024,
            /// Nesting of JSON in a request: a deeper text would exhaust the stack of the next parser.
            pub json_depth: JsonDepth = JsonDepth(64),
            /// Events that are ready at the same time are sent in one message, up to this number. The cost of paced
            /// traffic is system calls and wake-ups, so fewer and larger messages are cheaper; beyond this there is no
            /// further gain.
            pub events_per_message: usize = 64,
            /// The approximate bytes of events in one message. A single larger event is sent alone. Clients reject
            /// messages above 4 MiB by default.
            pub message_bytes: usize = 16 * 1024,
            /// Bytes of text up to which deltas of one block are merged while they wait for a slow reader: one with more
            /// than a message waiting. No byte is lost, and the number is that of the last. 0 disables it, for readers
            /// that count events; 4 KiB is much for a network and little for a human.
            pub merge_bytes: usize = 0,
            /// Unacknowledged payloads of a publisher: enough to cover a round trip of 100 ms at 600 payloads a second.
            pub window_payloads: u32 = 64,
        }

        /// Limits of the time that [`Services`](crate::Services) wait for a peer.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Timeouts {
            /// For a whole request message, counted from the call's metadata; for `Publish` its first message.
            pub request: Duration = Duration::from_secs(30),
            /// Without a message that the peer accepted while messages wait. Such a reader is gone or will resume with
            /// `Watch`.
            pub write_stall: Duration = Duration::from_secs(30),
            /// After this time without an event an empty message is sent, so that proxies keep the stream open: they do
            /// not count HTTP/2 pings, and many close after 60 s. `None` for no such messages.
            pub heartbeat: Option<Duration> = Some(Duration::from_secs(30)),
            /// The time after which a caller that was refused as busy or unavailable may retry: sent as
            /// `google.rpc.RetryInfo`.
            pub retry_after: Duration = Duration::from_secs(1),
        }
    }
}

#[cfg(feature = "client")]
mod client {
    use std::time::Duration;

    /// The configuration of a [`Client`](crate::Client).
    #[derive(Debug, Clone, Default)]
    pub struct ClientConfig {
        /// Limits of size and number.
        pub limits: ClientLimits,
        /// Limits of time.
        pub timeouts: ClientTimeouts,
        /// The bearer token of every call. Omitted from logs.
        pub token: Option<crate::client::Token>,
        /// The trusted authorities and the identity of the client, for addresses that start with `https`.
        #[cfg(feature = "tls")]
        pub tls: crate::tls::ClientTls,
    }

    aqueduct_core::with_defaults! {
        /// Limits of the memory that a service can occupy in a [`Client`](crate::Client).
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct ClientLimits {
            /// Bytes of one message. A tool result can be large; gRPC's default of 4 MiB would end the stream.
            pub message_bytes: usize = 16 * 1024 * 1024,
            /// Unread bytes per call. Small, so that back-pressure reaches the service soon.
            pub stream_receive_bytes: u32 = 64 * 1024,
            /// Unread bytes of all calls of the connection together.
            pub connection_receive_bytes: u32 = 1024 * 1024,
            /// Payloads that a [`Publisher`](crate::Publisher) keeps for resending, even if the service allows more.
            pub window_payloads: u32 = 1024,
        }

        /// Limits of the time that a [`Client`](crate::Client) waits for a service.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct ClientTimeouts {
            /// For the connection including TLS. A healthy network answers in milliseconds; two lost packets take 3 s.
            pub connect: Duration = Duration::from_secs(5),
            /// For the answer to `ListAgents` and `Cancel`; also sent to the service as the call's deadline.
            pub call: Duration = Duration::from_secs(30),
            /// For a stream to open; an open stream has no deadline.
            pub open: Duration = Duration::from_secs(60),
            /// Between HTTP/2 pings, which detect a service that vanished.
            pub ping: Duration = Duration::from_secs(20),
            /// For the answer to a ping.
            pub pong: Duration = Duration::from_secs(20),
        }
    }
}
