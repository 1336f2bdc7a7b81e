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

    /// Waits for notifications until there are new messages, or the lease is lost.
    pub(super) async fn await_controls(&self, lease: Lease, seen: usize) -> Result<Vec<Control>, LogError> {
        let run = &lease.run_id;
        let entry = self.hub.entry(run).await?;
        entry.signal.messages(&lease, seen).await?;
        let call = Call::default().key(self.shared.keys.meta(run)).key(self.shared.keys.controls(run));
        let call = call.arg(lease.epoch).arg(seen);
        let mut reply: Reply = self.shared.link.script(&self.shared.scripts.controls, &call).await?;
        if reply.word != "ok" {
            return Err(reply.refusal(run, lease.epoch));
        }
        let messages: Vec<Vec<u8>> = reply.next()?;
        let decode = |message: Vec<u8>| {
            let bytes = Bytes::from(message);
            let body = bytes.slice(NONCE.min(bytes.len())..);
            decode_control(body)
                .map_err(|error| LogError::Unreadable { run: run.clone(), what: error.to_string() })
        };
        messages.into_iter().map(decode).collect()
    }
}
