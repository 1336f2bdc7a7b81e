//! Live counts of a server, or of a service mounted on one, for metrics and for tests that detect leaks.
//!
//! One type for all transports: a server counts sockets and requests in its own [`Counters`], WebSocket endpoints and sets
//! of gRPC services count streams and messages in theirs, and a host exports all of them ([`Counters::samples`]) with the
//! transport as a label. Counting is relaxed: no decision depends on a count.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Defines an enum of counts and one cell for each.
macro_rules! counts {
    ($(#[$about:meta])* $name:ident, $cells:ident {
        $($(#[doc = $doc:literal])+ $variant:ident = $label:literal,)+
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name { $($(#[doc = $doc])+ $variant,)+ }

        #[derive(Debug, Default)]
        #[allow(non_snake_case, reason = "one field per variant, so that no access can miss")]
        struct $cells { $($variant: AtomicU64,)+ }

        impl $name {
            /// All counts, in the order in which they are exported.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name in metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $label,)+ }
            }

            /// Returns the description in metrics.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+),)+ }
            }

            fn cell(self, cells: &$cells) -> &AtomicU64 {
                match self { $(Self::$variant => &cells.$variant,)+ }
            }
        }
    };
}

counts! {
    /// Counts that go up and down.
    Gauge, Gauges {
        /// Sockets that are open, upgraded ones included; of a WebSocket endpoint, its connections.
        Connections = "connections_open",
        /// Requests whose response is not completely written.
        Requests = "requests_open",
        /// Event streams that are open.
        Streams = "streams_open",
        /// Publishers that are open.
        Publishers = "publishers_open",
        /// Responses of other gRPC services in progress.
        Calls = "calls_open",
    }
}

counts! {
    /// Counts that only go up.
    Total, Totals {
        /// Sockets that were accepted; of a WebSocket endpoint, its upgrades.
        Connections = "connections_total",
        /// Requests that reached a route.
        Requests = "requests_total",
        /// Requests, upgrades or calls that were refused.
        Refusals = "refusals_total",
        /// TLS handshakes and HTTP/2 prefaces that failed or took too long.
        HandshakeFailures = "handshake_failures_total",
        /// Failures of the kernel to provide a socket (out of files, aborted before it was accepted).
        AcceptFailures = "accept_failures_total",
        /// Connections closed because the head of a request did not arrive in time.
        HeaderTimeouts = "header_timeouts_total",
        /// Connections closed because no request arrived in time.
        IdleTimeouts = "idle_timeouts_total",
        /// Streams and connections closed because the reader accepted no byte in time.
        WriteStalls = "write_stalls_total",
        /// Handoffs: quiet streams that were taken from hyper to save its buffers.
        Handoffs = "handoffs_total",
        /// Messages received.
        MessagesIn = "messages_in_total",
        /// Messages sent.
        MessagesOut = "messages_out_total",
        /// Events sent. The number of events per message shows how well they merge.
        Events = "events_out_total",
        /// Payloads of publishers that were accepted.
        Payloads = "payloads_in_total",
        /// Flushes of waiting messages to the kernel.
        Flushes = "flushes_total",
        /// Times that a connection was not read for a while, because its frames came too fast.
        Throttles = "throttles_total",
    }
}

/// The counts of one server or service. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Counters(Arc<Cells>);

/// The values behind the counters, shared by clones.
#[derive(Debug, Default)]
struct Cells {
    gauges: Gauges,
    totals: Totals,
}

/// The value of one count at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sample {
    /// The name, without prefix and labels.
    pub name: &'static str,
    /// The description.
    pub help: &'static str,
    /// `true` for a [`Gauge`], `false` for a [`Total`].
    pub is_gauge: bool,
    /// The current value.
    pub value: u64,
}

impl Counters {
    /// Returns a count that goes up and down.
    pub fn gauge(&self, gauge: Gauge) -> u64 {
        gauge.cell(&self.0.gauges).load(Ordering::Relaxed)
    }

    /// Returns a count that only goes up.
    pub fn total(&self, total: Total) -> u64 {
        total.cell(&self.0.totals).load(Ordering::Relaxed)
    }

    /// Returns all counts.
    pub fn samples(&self) -> impl Iterator<Item = Sample> + '_ {
        let gauges = Gauge::ALL.iter().map(|&gauge| Sample {
            name: gauge.name(),
            help: gauge.help().trim_ascii(),
            is_gauge: true,
            value: self.gauge(gauge),
        });
        let totals = Total::ALL.iter().map(|&total| Sample {
            name: total.name(),
            help: total.help().trim_ascii(),
            is_gauge: false,
            value: self.total(total),
        });
        gauges.chain(totals)
    }

    /// Counts one.
    pub fn count(&self, total: Total) {
        self.add(total, 1);
    }

    /// Counts several.
    pub fn add(&self, total: Total, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        total.cell(&self.0.totals).fetch_add(count, Ordering::Relaxed);
    }

    /// Counts one as open until the guard is dropped.
    pub fn open(&self, gauge: Gauge) -> OpenGuard {
        gauge.cell(&self.0.gauges).fetch_add(1, Ordering::Relaxed);
        OpenGuard { counters: self.clone(), gauge }
    }
}

/// Counts something as open while it lives.
#[derive(Debug)]
#[must_use = "the count goes down when the guard is dropped"]
pub struct OpenGuard {
    counters: Counters,
    gauge: Gauge,
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.gauge.cell(&self.counters.0.gauges).fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_counted_back_and_every_count_is_a_sample() {
        let counters = Counters::default();
        let open = counters.open(Gauge::Streams);
        counters.add(Total::MessagesOut, 3);
        assert_eq!((counters.gauge(Gauge::Streams), counters.total(Total::MessagesOut)), (1, 3));
        let samples: Vec<Sample> = counters.samples().collect();
        assert_eq!(samples.len(), Gauge::ALL.len() + Total::ALL.len());
        assert_eq!(samples.iter().map(|sample| sample.value).sum::<u64>(), 4);
        assert!(samples.iter().all(|sample| sample.help.ends_with('.')));
        drop(open);
        assert_eq!(counters.gauge(Gauge::Streams), 0);
    }
}
