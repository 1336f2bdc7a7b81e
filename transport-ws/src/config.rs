//! Limits and timeouts of connections, each with its reason. Those of sockets and request heads are the server's.
//!
//! Nothing here is read from files or the environment: a program fills these in.

use std::time::Duration;

use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

/// The settings of an [`Endpoint`](crate::Endpoint).
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// How much one connection may hold.
    pub limits: Limits,
    /// How long one connection may wait.
    pub timeouts: Timeouts,
    /// Closes connections that bring no token in time, whatever the service says. Without it that holds for connections
    /// whose caller the service does not admit without a token ([`RunService::admit`]).
    ///
    /// [`RunService::admit`]: aqueduct_core::service::RunService::admit
    pub token_required: bool,
}

/// How much one connection may hold. What passes a limit is closed or refused with a code, never cut silently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Payload bytes of one incoming frame. Many client libraries never split a message, so it is the message limit. The
    /// length in a frame's header reserves room before a byte of it has arrived; memory it costs only as bytes come.
    pub frame_bytes: usize,
    /// Bytes of one incoming message, all its frames together. A run input with a long history fits.
    pub message_bytes: usize,
    /// Bytes that a connection may send before its token is checked, where it needs one: an `auth` message fits, and many
    /// connections without a token hold little.
    pub token_bytes: usize,
    /// Messages and control frames per second, with bursts of as many. A connection above it is not read for a while, which
    /// its peer notices as back-pressure. Sixteen publishers of 600 payloads a second fit.
    pub frames: usize,
    /// Nesting of JSON in an incoming message, checked before it is parsed: deeper text costs stack in whoever reads
    /// it next.
    pub json_depth: usize,
    /// Runs followed at once on one socket. Each costs a stream of the service and an encoder.
    pub runs: usize,
    /// Runs fed at once on one socket. Each may hold [`window_bytes`](Self::window_bytes).
    pub publishers: usize,
    /// Requests in progress at once on one socket. More are refused as `busy`.
    pub requests: usize,
    /// Replies that wait for the socket. Past it the socket is not read until the peer reads.
    pub replies: usize,
    /// Payloads of one publisher that may wait for their acknowledgement. Enough to cover a round trip of 100 ms at
    /// 600 payloads a second.
    pub window_payloads: usize,
    /// Bytes of them. A single payload may be larger than this, but then it waits alone.
    pub window_bytes: usize,
    /// Events that one run may add to a write before the next run has its turn.
    pub fair_share: usize,
    /// Bytes that are gathered into one write: what a stalled reader can hold in user space, plus one event. Larger
    /// writes save system calls only when the reader is slower than the source.
    pub batch_bytes: usize,
    /// Bytes of text that deltas of one block are merged into while they wait for a reader that is behind: one for whom
    /// more waits than a batch holds. No byte is lost, and the number is that of the last. 0 for never, which
    /// readers need that count events; 4 KiB is much for a network and little for an eye.
    pub merge_bytes: usize,
    /// The read buffer, allocated for every connection: idle connections are many, and their requests small. Servers
    /// that are mostly fed with large payloads save system calls with more.
    pub read_buffer: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes: 1024 * 1024,
            message_bytes: 1024 * 1024,
            token_bytes: 16 * 1024,
            frames: 10_000,
            json_depth: 64,
            runs: 64,
            publishers: 16,
            requests: 64,
            replies: 256,
            window_payloads: 64,
            window_bytes: 1024 * 1024,
            fair_share: 16,
            batch_bytes: 16 * 1024,
            merge_bytes: 0,
            read_buffer: 2 * 1024,
        }
    }
}

impl Limits {
    /// The same, where a limit of nothing would stop the connection altogether.
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

    /// The settings of the WebSocket codec under these limits.
    pub(crate) fn codec(&self) -> WebSocketConfig {
        // The write buffer holds a whole batch with its frame headers, so that a batch is one write. It cannot grow
        // past a batch and one event: nothing is fed before the last batch has left.
        WebSocketConfig::default()
            .read_buffer_size(self.read_buffer)
            .write_buffer_size(self.batch_bytes.saturating_mul(2))
            .max_write_buffer_size(usize::MAX)
            .max_frame_size(Some(self.frame_bytes))
            .max_message_size(Some(self.message_bytes))
    }
}

/// How long one connection may wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// For the token, if it was not in the request and the caller needs one.
    pub token: Duration,
    /// For the run input on a plain connection, which exists for nothing else.
    pub input: Duration,
    /// Silence of the peer before it is asked for a pong. Below the 30 to 60 s after which proxies cut idle sockets.
    pub ping: Duration,
    /// Silence after that before the peer is taken for dead.
    pub pong: Duration,
    /// A reader that takes no byte for so long is dropped; it can come back and resume.
    pub stall: Duration,
    /// For the peer's half of the closing handshake.
    pub close: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            token: Duration::from_secs(5),
            input: Duration::from_secs(60),
            ping: Duration::from_secs(20),
            pong: Duration::from_secs(20),
            stall: Duration::from_secs(30),
            close: Duration::from_secs(5),
        }
    }
}
