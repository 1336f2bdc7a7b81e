//! What a server does right now and has done so far, for metrics and for tests that look for leaks.
//!
//! Counting is relaxed: the numbers are for people and dashboards, no decision hangs on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers of one server. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Counters(Arc<Cells>);

#[derive(Debug, Default)]
struct Cells {
    connections: AtomicU64,
    runs: AtomicU64,
    publishers: AtomicU64,
    raw: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    calls_refused: AtomicU64,
    stalled: AtomicU64,
    events_out: AtomicU64,
    messages_out: AtomicU64,
    payloads_in: AtomicU64,
}

/// The numbers at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CounterSnapshot {
    /// Connections open now, those in their handshake included. Each is one task.
    pub connections: u64,
    /// Streams of `Run` and `Watch` open now.
    pub runs: u64,
    /// Streams of `Publish` open now.
    pub publishers: u64,
    /// Answers of other services ([`raw`](crate::raw)) under way now.
    pub raw: u64,
    /// Connections that spoke HTTP/2, so far.
    pub accepted: u64,
    /// Connections that did not (no or bad TLS, another protocol, silence), so far.
    pub refused: u64,
    /// Calls that ended in an error before or instead of a stream, so far.
    pub calls_refused: u64,
    /// Readers dropped because they did not read, so far.
    pub stalled: u64,
    /// Events sent so far.
    pub events_out: u64,
    /// Messages of events sent so far. Events per message tell how well they merge.
    pub messages_out: u64,
    /// Payloads of publishers taken so far.
    pub payloads_in: u64,
}

/// Counts one thing that is open for as long as it lives.
#[derive(Debug)]
pub(crate) struct Open {
    cells: Arc<Cells>,
    gauge: fn(&Cells) -> &AtomicU64,
}

impl Drop for Open {
    fn drop(&mut self) {
        (self.gauge)(&self.cells).fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counters {
    /// The numbers now.
    pub fn snapshot(&self) -> CounterSnapshot {
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        CounterSnapshot {
            connections: read(&self.0.connections),
            runs: read(&self.0.runs),
            publishers: read(&self.0.publishers),
            raw: read(&self.0.raw),
            accepted: read(&self.0.accepted),
            refused: read(&self.0.refused),
            calls_refused: read(&self.0.calls_refused),
            stalled: read(&self.0.stalled),
            events_out: read(&self.0.events_out),
            messages_out: read(&self.0.messages_out),
            payloads_in: read(&self.0.payloads_in),
        }
    }

    pub(crate) fn open_connection(&self) -> Open {
        self.open(|cells| &cells.connections)
    }

    pub(crate) fn open_run(&self) -> Open {
        self.open(|cells| &cells.runs)
    }

    pub(crate) fn open_publisher(&self) -> Open {
        self.open(|cells| &cells.publishers)
    }

    pub(crate) fn open_raw(&self) -> Open {
        self.open(|cells| &cells.raw)
    }

    pub(crate) fn accepted(&self) {
        self.0.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn call_refused(&self) {
        self.0.calls_refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stalled(&self) {
        self.0.stalled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, events: usize) {
        self.0.events_out.fetch_add(events as u64, Ordering::Relaxed);
        self.0.messages_out.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn payload(&self) {
        self.0.payloads_in.fetch_add(1, Ordering::Relaxed);
    }

    fn open(&self, gauge: fn(&Cells) -> &AtomicU64) -> Open {
        gauge(&self.0).fetch_add(1, Ordering::Relaxed);
        Open { cells: Arc::clone(&self.0), gauge }
    }
}
