//! Control messages to the owner of a run.

use aqueduct_core::RunId;
use bytes::Bytes;

use super::RedisLog;
use super::link::Call;
use super::reply::Reply;
use crate::codec::{decode_control, encode_control};
use crate::error::LogError;
use crate::log::{Control, Lease};

/// Bytes of a nonce before a control message. The script compares whole messages: two equal
/// messages (two cancels) must not be taken for a repetition of one.
const NONCE: usize = 16;

impl RedisLog {
    /// Sends a message to the owner of a run, on whichever replica it is. The limit is checked by the
    /// script; `check_controls` then only names it.
    pub(super) async fn send_control(&self, run: RunId, message: Control) -> Result<(), LogError> {
        let bytes = encode_control(&message)
            .map_err(|error| LogError::Unreadable { run: run.clone(), what: error.to_string() })?;
        let keys = &self.shared.keys;
        let max = self.shared.limits.most_controls(&message);
        let call = Call::default().key(keys.meta(&run)).key(keys.controls(&run));
        let call = call.arg(max).bytes([self.nonce().into_bytes(), bytes].concat()).arg(self.shared.expiry);
        let reply: Reply = self.shared.link.script(&self.shared.scripts.control, &call).await?;
        match reply.word.as_str() {
            "ok" => Ok(()),
            "full" => self.shared.limits.check_controls(&run, max, &message),
            _ => Err(reply.refusal(&run, 0)),
        }
    }

    /// Waits for notifications until there are new messages, or the lease is lost. Returns no message after a lost connection: the
    /// caller waits again.
    ///
    /// The server may come back without the last messages, and the next ones get their places. So after a lost connection all
    /// messages are read, and those that the owner has received are recognised by their nonces.
    pub(super) async fn await_controls(&self, lease: Lease, seen: usize) -> Result<Vec<Control>, LogError> {
        let entry = self.hub.entry(&lease.run_id).await?;
        let rewound = entry.rewound.notified();
        let connections = self.hub.connections();
        let is_checked = self.writers.with_received(&lease, |received| received.connections == connections);
        let place = if is_checked == Some(false) {
            0
        } else {
            let place = self.writers.with_received(&lease, |received| received.place(seen)).unwrap_or(seen);
            tokio::select! {
                biased;
                () = rewound => return Ok(Vec::new()),
                () = entry.signal.messages(&lease, place) => place,
            }
        };
        let messages = self.read_controls(&lease, place).await?;
        let messages = self
            .writers
            .with_received(&lease, |received| received.receive((connections, seen, place), &messages))
            .unwrap_or(messages);
        messages.iter().map(|message| decode(&lease.run_id, message)).collect()
    }

    /// Reads the messages from a place on.
    async fn read_controls(&self, lease: &Lease, place: usize) -> Result<Vec<Bytes>, LogError> {
        let (keys, run) = (&self.shared.keys, &lease.run_id);
        let call = Call::default().key(keys.meta(run)).key(keys.controls(run));
        let call = call.arg(lease.epoch).arg(place);
        let mut reply: Reply = self.shared.link.script(&self.shared.scripts.controls, &call).await?;
        if reply.word != "ok" {
            let error = reply.refusal(run, lease.epoch);
            self.note_loss(lease, &error);
            return Err(error);
        }
        let messages: Vec<Vec<u8>> = reply.next()?;
        Ok(messages.into_iter().map(Bytes::from).collect())
    }
}

fn decode(run: &RunId, message: &Bytes) -> Result<Control, LogError> {
    let body = message.slice(NONCE.min(message.len())..);
    decode_control(body).map_err(|error| LogError::Unreadable { run: run.clone(), what: error.to_string() })
}

/// The messages that the owner of a run has received.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// The connections for notifications when the messages were last checked.
    connections: u64,
    /// The messages that the owner has received and the server has lost.
    lost: usize,
    /// The nonces of the returned messages, in their order.
    nonces: Vec<Bytes>,
}

impl Received {
    /// Returns no messages, for a new lease.
    pub(super) fn new(connections: u64) -> Self {
        Self { connections, ..Self::default() }
    }

    /// Returns the place of the next message on the server, for an owner that has received `seen` messages.
    fn place(&self, seen: usize) -> usize {
        seen.saturating_sub(self.lost)
    }

    /// Returns the messages that the owner has not received, of those that were read from `place` on.
    fn receive(&mut self, (connections, seen, place): (u64, usize, usize), read: &[Bytes]) -> Vec<Bytes> {
        // Copied: a slice would keep the whole message.
        let nonce = |message: &Bytes| Bytes::copy_from_slice(message.get(..NONCE).unwrap_or(message));
        // A message that was returned is received once the owner counts it.
        self.nonces.truncate(seen);
        let new: Vec<Bytes> =
            read.iter().filter(|message| !self.nonces.contains(&nonce(message))).cloned().collect();
        self.nonces.extend(new.iter().map(nonce));
        self.connections = connections;
        self.lost = (seen + new.len()).saturating_sub(place + read.len());
        new
    }
}
