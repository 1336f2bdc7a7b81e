//! Limits and timeouts of connections, each with its reason. Those of sockets and request heads belong to the server.
//!
//! The module reads neither files nor environment variables: a program sets the fields.

use std::time::Duration;

use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// The settings of an [`Endpoint`](crate::Endpoint).
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Limits of the memory of one connection.
    pub limits: Limits,
    /// Limits of the waits of one connection.
    pub timeouts: Timeouts,
    /// Closes connections without token in time, even if the service would admit them. If `false`, only connections whose caller
    /// the service does not admit without a token are closed ([`RunService::admit`]).
    ///
    /// [`RunService::admit`]: aqueduct_core::service::RunService::admit
    pub token_required: bool,
}

aqueduct_core::with_defaults! {
    /// Limits of one connection. Exceeding a limit closes the connection or refuses the request with a code, never
    /// silently.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Limits {
        /// Payload bytes of one incoming frame. Many client libraries never split a message, so it equals the message
        /// limit. The length in a frame's header only reserves address space; memory is used as bytes arrive.
        pub frame_bytes: usize = 1024 * 1024,
        /// Bytes of one incoming message in all its frames. A run input with a long history fits.
        pub message_bytes: usize = 1024 * 1024,
        /// Bytes that a connection may send before its token is checked, where it needs one: an `auth` message fits, and
        /// many connections without a token hold little.
        pub token_bytes: usize = 16 * 1024,
        /// Messages and control frames per second, with bursts of as many. A connection above it is not read for a while,
        /// which its peer notices as back-pressure. Sixteen publishers of 600 payloads a second fit.
        pub frames: usize = 10_000,
        /// Nesting of JSON in an incoming message, checked before it is parsed: deeper text costs stack in the parser
        /// that reads it next.
        pub json_depth: usize = 64,
        /// Runs watched at once on one socket. Each costs a stream of the service and an encoder.
        pub runs: usize = 64,
        /// Runs published at once on one socket. Each may hold [`window_bytes`](Self::window_bytes).
        pub publishers: usize = 16,
        /// Requests in progress at once on one socket. More are refused as `busy`.
        pub requests: usize = 64,
        /// Replies that wait for the socket. Beyond it the socket is not read until the peer reads.
        pub replies: usize = 256,
        /// Unacknowledged payloads of one publisher. Enough to cover a round trip of 100 ms at 600 payloads a second.
        pub window_payloads: usize = 64,
        /// Bytes of unacknowledged payloads. A larger single payload is accepted if no other is unacknowledged.
        pub window_bytes: usize = 1024 * 1024,
        /// Events that one run may add to a write before the next run.
        pub fair_share: usize = 16,
        /// Bytes that are collected into one write: a stalled reader holds at most that in user space, plus one event.
        /// Larger writes save system calls only if the reader is slower than the source.
        pub batch_bytes: usize = 16 * 1024,
        /// Bytes of text up to which deltas of one block are merged while they wait for a slow reader: one with more than
        /// a batch waiting. No byte is lost, and the number is that of the last. 0 disables it, for readers that count
        /// events; 4 KiB is much for a network and little for a human.
        pub merge_bytes: usize = 0,
        /// The read buffer, allocated for every connection: there are many idle connections with small requests. One segment
        /// of TCP in a frame of Ethernet. Servers that mostly receive large payloads save system calls with more.
        pub read_buffer: usize = 1_460,
    }
}

impl Limits {
    /// Raises limits of zero that would block the connection.
    pub(crate) fn at_least_one(mut self) -> Self {
        for limit in [
            &mut self.replies,
            &mut self.fair_share,
            &mut self.batch_bytes,
            &mut self.window_payloads,
            &mut self.frames,
        ] {
            *limit = (*limit).max(1);
        }
        self
    }

    /// Returns the settings of the WebSocket codec under these limits.
    pub(crate) fn codec(&self) -> WebSocketConfig {
        // The write buffer holds a whole batch with its frame headers, so that a batch is one write. It cannot grow beyond a
        // batch and one event, because the next batch starts only after the last was written.
        WebSocketConfig::default()
            .read_buffer_size(self.read_buffer)
            .write_buffer_size(self.batch_bytes.saturating_mul(2))
            .max_write_buffer_size(usize::MAX)
            .max_frame_size(Some(self.frame_bytes))
            .max_message_size(Some(self.message_bytes))
    }
}

aqueduct_core::with_defaults! {
    /// Limits of the waits of one connection.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Timeouts {
        /// For the token, if the request had none and the caller needs one.
        pub token: Duration = Duration::from_secs(5),
        /// For the run input on a plain connection.
        pub input: Duration = Duration::from_secs(60),
        /// Silence of the peer before a ping is sent. Below the 30 to 60 s after which proxies close idle sockets.
        pub ping: Duration = Duration::from_secs(20),
        /// Silence after a ping before the peer counts as dead.
        pub pong: Duration = Duration::from_secs(20),
        /// Without progress of a write, after which a reader is disconnected; it can resume.
        pub stall: Duration = Duration::from_secs(30),
        /// For the peer's half of the closing handshake.
        pub close: Duration = Duration::from_secs(5),
    }
}
