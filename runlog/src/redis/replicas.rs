//! Replicas that share the log: heartbeats, and the leases of silent replicas.
//!
//! ```text
//! beat ──► script: time of this replica stored, silent ones listed ──► their open runs found ──► leases released
//!                                                                      └ a run names the replica that holds it
//! released (also by the holder itself) ──► announced on one channel ──► every replica's sweeper runs at once
//! ```
//!
//! A lease that is released wrongly costs only its holder's work: the holder renews it, or is fenced by the replica that
//! takes the run over. A replica that could not reach the server itself declares no other replica silent until it has sent
//! heartbeats for the whole `silence`: while the server was away, no replica could send any.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ::redis::Cmd;
use aqueduct_core::RunId;
use tokio::time::Instant;

use super::RedisLog;
use super::link::{Call, read};
use super::reply::Reply;
use crate::error::LogError;
use crate::log::{Lease, RELEASED};

/// Runs that are read in one round trip.
const PAGE: isize = 512;

/// The time of this replica's last heartbeat, and the time since when there was no gap.
#[derive(Debug, Default)]
pub(super) struct Pulse(Mutex<Option<(Instant, Instant)>>);

impl Pulse {
    /// Records a heartbeat. Returns since when there was no gap as long as half the silence.
    fn note(&self, silence: Duration) -> Instant {
        let mut pulse = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let since = pulse.filter(|(last, _)| now - *last < silence / 2).map_or(now, |(_, since)| since);
        *pulse = Some((now, since));
        since
    }
}

impl RedisLog {
    /// Sends a heartbeat, and releases the leases of silent replicas.
    pub(super) async fn beat_once(&self, silence: Duration) -> Result<usize, LogError> {
        let millis = u64::try_from(silence.as_millis()).unwrap_or(u64::MAX);
        let call = Call::default().key(self.shared.keys.replicas()).arg(&self.replica).arg(millis);
        let call = call.arg(self.shared.expiry);
        let mut reply: Reply = self.shared.link.script(&self.shared.scripts.beat, &call).await?;
        let silent: Vec<String> = reply.next()?;
        let since = self.pulse.note(silence);
        if reply.word == "new" {
            // The first heartbeat, or the server lost its data: check at once which runs are gone.
            self.hub.refresh_all();
        }
        self.restore_runs().await?;
        if since.elapsed() < silence {
            return Ok(0);
        }
        let mut released = 0;
        for replica in silent.iter().filter(|replica| **replica != self.replica) {
            released += self.release_runs_of(replica).await?;
            self.do_all(&[Cmd::zrem(self.shared.keys.replicas(), replica)]).await?;
        }
        Ok(released)
    }

    async fn release_runs_of(&self, replica: &str) -> Result<usize, LogError> {
        let (mut skip, mut held) = (0, Vec::new());
        loop {
            let page = Cmd::zrange(self.shared.keys.leases(), skip, skip + PAGE - 1);
            let runs: Vec<String> = read(self.shared.link.batch(&[page]).await?.pop().unwrap_or_default())?;
            let runs: Vec<RunId> = runs.into_iter().map(RunId::from).collect();
            let ask = |run: &RunId| Cmd::hmget(self.shared.keys.meta(run), &["holder", "epoch"]);
            let answers = self.shared.link.batch(&runs.iter().map(ask).collect::<Vec<_>>()).await?;
            let is_last = runs.len() < usize::try_from(PAGE).unwrap_or(usize::MAX);
            for (run_id, answer) in runs.into_iter().zip(answers) {
                let (holder, epoch): (Option<String>, Option<u64>) = read(answer)?;
                if let (Some(holder), Some(epoch)) = (holder, epoch)
                    && holder == replica
                {
                    held.push(Lease { run_id, epoch });
                }
            }
            skip += PAGE;
            if is_last {
                break;
            }
        }
        let count = held.len();
        self.release_runs(held).await?;
        Ok(count)
    }

    /// Releases leases, and announces it.
    pub(super) async fn release_runs(&self, leases: Vec<Lease>) -> Result<(), LogError> {
        if leases.is_empty() {
            return Ok(());
        }
        self.renew_runs(leases, RELEASED).await?;
        let mut announce = ::redis::cmd("PUBLISH");
        announce.arg(self.shared.keys.released()).arg("");
        self.do_all(&[announce]).await
    }
}
