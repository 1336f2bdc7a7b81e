//! The keys of quotas. `crate::quota` derives the limits of one caller from them.

use aqueduct_transport_http::Network;

use super::keys::keys;
use super::kind::{Count, Net, Size};
use super::shape::{List, Maybe, Section};

keys! {
    /// `[quotas]`.
    pub struct Quotas {
        /// Runs at once of one principal. Those above are refused with 429. Without it: a quarter of `runs.limit` where there is more than one principal, so that three that flood leave room for a fourth; else no limit beside `runs.limit`.
        runs: Option<usize> as Maybe<Count>,
        /// Requests per second of one principal, with bursts of as many; requests on a WebSocket count too. Those above are refused with 429 before their body is read. Without it: 1000 where there is more than one principal, some tenth of a core; else none.
        rate: Option<usize> as Maybe<Count>,
        /// Bytes of request bodies of one principal that were received and not yet answered. Without it: a quarter of `bodies` where there is more than one principal; else no limit beside `bodies`.
        bytes: Option<usize> as Maybe<Size>,
        /// Memory of all runs of one principal, for the log in memory. Past it ended runs of that principal are forgotten, oldest end first; with none left, its runs fail. Without it: a quarter of `runs.memory` where there is more than one principal; else no limit beside `runs.memory`.
        memory: Option<usize> as Maybe<Size>,
        /// Bytes of request bodies of all callers that were received and not yet answered: 256 of the longest.
        bodies: usize as Size = "256MiB",
        /// Messages and control frames per second on one WebSocket, with bursts of as many. One above it is not read for a while. Sixteen publishers of 600 payloads a second fit.
        frames: usize as Count = "10000",
        /// Reverse proxies, as addresses or networks: many callers are behind them, so that quotas per peer address do not hold for them. Loopback by default, where a proxy of the same machine is.
        proxies: Vec<Network> as List<Net> = "[\"127.0.0.0/8\", \"::1\"]",
        /// What one address may use.
        peer: PeerQuotas as Section<PeerQuotas>,
    }

    /// `[quotas.peer]`.
    pub struct PeerQuotas {
        /// Connections at once of one peer address (IPv6: of one /64). Those above get 429 and are closed. A tenth of `server.connections`: an office behind one address fits.
        connections: usize as Count = "1000",
        /// Requests per second of one peer address that prove no principal. A client that sends its token is never among them.
        rate: usize as Count = "100",
        /// Bytes of request bodies of one peer address in flight, of requests that prove no principal.
        bytes: usize as Size = "16MiB",
        /// Runs at once of one peer address, of callers that prove no principal.
        runs: usize as Count = "100",
    }

    /// `[principals.NAME.quotas]`.
    pub struct PrincipalQuotas {
        /// Runs at once of this principal, instead of `quotas.runs`.
        runs: Option<usize> as Maybe<Count>,
        /// Requests per second of this principal, instead of `quotas.rate`.
        rate: Option<usize> as Maybe<Count>,
        /// Bytes of request bodies of this principal in flight, instead of `quotas.bytes`.
        bytes: Option<usize> as Maybe<Size>,
    }
}
