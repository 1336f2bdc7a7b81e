//! What a connection is doing, seen from outside of the HTTP library, so that one clock serves all its versions.
//!
//! ```text
//!            first byte              request                    last response handed over
//!   Idle ─────────────────► Head ─────────────────► Busy ───────────────────────────────────► Idle
//!   limit `idle`            limit `header`          limits of body and write
//!
//! HTTP/2 after its first request: Idle ◄──► Busy, since its control frames are bytes as well.
//! ```
//!
//! Why not hyper's own timer: it does not run while the version of HTTP is being found out, does not exist for HTTP/2,
//! and is one limit for both a slow head and a quiet connection.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

/// The phases of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    Head,
    Busy,
}

/// Shared by the socket, the requests and the task of one connection.
#[derive(Debug, Default)]
pub(crate) struct PhaseWatch {
    open_requests: AtomicUsize,
    /// How many requests there were: a phase that looks the same may be another one.
    requests: AtomicU64,
    bytes_seen: AtomicBool,
    is_multiplexed: AtomicBool,
}

impl PhaseWatch {
    /// Bytes arrived.
    pub(crate) fn handle_bytes(&self) {
        self.bytes_seen.store(true, Ordering::Relaxed);
    }

    /// The preface of HTTP/2 arrived: what follows may be control frames for a long time.
    pub(crate) fn handle_preface(&self) {
        self.is_multiplexed.store(true, Ordering::Relaxed);
    }

    /// A request arrived.
    pub(crate) fn handle_request(&self, is_http2: bool) {
        self.is_multiplexed.store(is_http2, Ordering::Relaxed);
        self.bytes_seen.store(false, Ordering::Relaxed);
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.open_requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Its response was handed over or given up.
    pub(crate) fn handle_response_end(&self) {
        self.open_requests.fetch_sub(1, Ordering::Relaxed);
    }

    /// What the connection is doing, and a number that changes when it did something else in between.
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
