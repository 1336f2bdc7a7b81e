//! The phase of a connection, observed from outside hyper, so that one timer serves all versions of HTTP.
//!
//! ```text
//!            first byte              request                    last response written
//!   Idle ─────────────────► Head ─────────────────► Busy ───────────────────────────────────► Idle
//!   limit `idle`            limit `header`          limits of body and write
//!
//! HTTP/2 after its first request: Idle ◄──► Busy, since its control frames are bytes as well.
//! ```
//!
//! Why not hyper's own timer: it does not run while the version of HTTP is being detected, does not exist for HTTP/2, and
//! has one limit for both a slow head and an idle connection.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The phases of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    Head,
    Busy,
}

/// The phase, shared by the socket, the requests and the task of one connection.
#[derive(Debug, Default)]
pub(crate) struct PhaseWatch {
    open_requests: AtomicUsize,
    /// The number of requests, which distinguishes two equal phases.
    requests: AtomicU64,
    bytes_seen: AtomicBool,
    is_multiplexed: AtomicBool,
}

impl PhaseWatch {
    /// Handles arriving bytes.
    pub(crate) fn handle_bytes(&self) {
        self.bytes_seen.store(true, Ordering::Relaxed);
    }

    /// Handles the preface of HTTP/2: only control frames may follow for a long time.
    pub(crate) fn handle_preface(&self) {
        self.is_multiplexed.store(true, Ordering::Relaxed);
    }

    /// Handles a request.
    pub(crate) fn handle_request(&self, is_http2: bool) {
        self.is_multiplexed.store(is_http2, Ordering::Relaxed);
        self.bytes_seen.store(false, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.open_requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Handles the end of a response, complete or not.
    pub(crate) fn handle_response_end(&self) {
        self.open_requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the phase, and a number that changes if there was another phase in between.
    pub(crate) fn phase(&self) -> (Phase, u64) {
        let phase = if self.open_requests.load(Ordering::Relaxed) > 0 {
            Phase::Busy
        } else if self.bytes_seen.load(Ordering::Relaxed) && !self.is_multiplexed.load(Ordering::Relaxed) {
            Phase::Head
        } else {
            Phase::Idle
        };
        (phase, self.requests.load(Ordering::Relaxed))
    }
}
