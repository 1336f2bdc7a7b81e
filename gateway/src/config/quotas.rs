//! The keys of quotas. `crate::quota` derives the limits of one caller from them.

use aqueduct_transport_http::Network;

use super::keys::keys;
use super::kind::{Count, Net, Size};
use super::shape::{List, Maybe, Section};

keys! {
    /// `[quotas]`.
    pub struct Quotas {
        /// Open runs of one principal. Further ones are refused with 429. Without it: a quarter of `runs.limit` where there is more than one principal, so that three principals at their limit leave room for a fourth; else no limit beside `runs.limit`.
        runs: Option<usize> as Maybe<Count>,
        /// Requests per second of one principal, with bursts of as many; requests on a WebSocket count too. Further ones are refused with 429 before their body is read. Without it: 1000 where there is more than one principal, some tenth of a core; else none.
        rate: Option<usize> as Maybe<Count>,
        /// Bytes of request bodies of one principal that were received and not yet answered. Without it: a quarter of `bodies` where there is more than one principal; else no limit beside `bodies`.
        bytes: Option<usize> as Maybe<Size>,
        /// The largest size of all runs of one principal, for the log in memory. Beyond it ended runs of that principal are deleted, oldest end first; with none left, its runs fail. Without it: a quarter of `runs.memory` where there is more than one principal; else no limit beside `runs.memory`.
        memory: Option<usize> as Maybe<Size>,
        /// Bytes of request bodies of all callers that were received and not yet answered: 256 of the longest.
        bodies: usize as Size = "256MiB",
        /// Messages and control frames per second on one WebSocket, with bursts of as many. A connection above the limit is not read for a while. Sixteen publishers of 600 payloads a second fit.
        frames: usize as Count = "10000",
        /// Reverse proxies, as addresses or networks: many callers are behind them, so that quotas per peer address do not hold for them. Loopback by default, where a proxy of the same machine is.
        proxies: Vec<Network> as List<Net> = "[\"127.0.0.0/8\", \"::1\"]",
        /// Limits per peer address.
        peer: PeerQuotas as Section<PeerQuotas>,
    }

    /// `[quotas.peer]`.
    pub struct PeerQuotas {
        /// Open connections of one peer address (IPv6: of one /64). Further ones get 429 and are closed. A tenth of `server.connections`: an office behind one address fits.
        connections: usize as Count = "1000",
        /// Requests per second of one peer address without a valid proof. Requests with a token are not counted.
        rate: usize as Count = "100",
        /// Bytes of request bodies of one peer address in flight, of requests without a valid proof.
        bytes: usize as Size = "16MiB",
        /// Open runs of one peer address, of callers without a valid proof.
        runs: usize as Count = "100",
    }

    /// `[principals.NAME.quotas]`.
    pub struct PrincipalQuotas {
        /// Open runs of this principal, instead of `quotas.runs`.
        runs: Option<usize> as Maybe<Count>,
        /// Requests per second of this principal, instead of `quotas.rate`.
        rate: Option<usize> as Maybe<Count>,
        /// Bytes of request bodies of this principal in flight, instead of `quotas.bytes`.
        bytes: Option<usize> as Maybe<Size>,
    }
}
